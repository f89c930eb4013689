"""State of a client instance, computed by one rule for a node's own instances and for the records of a topic."""

from enum import StrEnum
from typing import Final

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.presence import absent_after_ms

LATE_INTERVALS: Final = 1.5
"""Longest delay by client jitter: up to 1.5 intervals after a Get (KIP-714, Client behavior)."""

LATE_GRACE_MS: Final = 1_000
"""Allowance for the network and for a busy client [ms]."""

VANISHED_SHOWN_MS: Final = 24 * 3_600_000
"""A vanished instance is listed for this long after it was last seen [ms]."""

ENDED_SHOWN_MS: Final = 3_600_000
"""An instance that sent its terminating push is listed for this long after it [ms]."""


class ClientState(StrEnum):
    """State of an instance. The first one in this order that applies."""

    ENDED = "ended"
    """Its terminating push was accepted: the client has closed."""
    VANISHED = "vanished"
    """Its connection ended, or it was silent for `absent_after_ms`, without a terminating push."""
    REFUSED = "refused"
    """Its latest request was answered with an error other than THROTTLING_QUOTA_EXCEEDED."""
    THROTTLED = "throttled"
    """Its latest request was answered THROTTLING_QUOTA_EXCEEDED: too early, or the push log was not available."""
    UNSUBSCRIBED = "unsubscribed"
    """No subscription with metrics matches it."""
    LATE = "late"
    """No request for 1.5 push intervals and a second."""
    NEW = "new"
    """No push yet, and the first push is not overdue."""
    LIVE = "live"
    """Its pushes arrive on time."""


def judged(
    *,
    ended: bool,
    silence_ms: float,
    push_interval_ms: int,
    has_pushed: bool = True,
    lost_connection: bool = False,
    is_subscribed: bool = True,
    error: ErrorCode = ErrorCode.NONE,
) -> ClientState:
    """The state of an instance.

    Args:
        ended: its terminating push was accepted.
        silence_ms: time since its latest request or push [ms].
        push_interval_ms: its announced or observed push interval [ms].
        has_pushed: it has pushed at least once.
        lost_connection: its last connection has ended.
        is_subscribed: a subscription with metrics matches it.
        error: error code of its latest response, if known.
    """
    if ended:
        return ClientState.ENDED
    if lost_connection or (is_subscribed and silence_ms >= absent_after_ms(push_interval_ms)):
        return ClientState.VANISHED
    if error is not ErrorCode.NONE:
        return ClientState.THROTTLED if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED else ClientState.REFUSED
    if not is_subscribed:
        return ClientState.UNSUBSCRIBED
    if silence_ms > LATE_INTERVALS * push_interval_ms + LATE_GRACE_MS:
        return ClientState.LATE
    return ClientState.LIVE if has_pushed else ClientState.NEW
