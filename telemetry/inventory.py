"""Who is there: one row for each client instance that a node remembers, its state, and the choice among them.

No sockets, no clock: the rows are made on the listener's loop, some at a time, and read elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from telemetry.instance import ClientInstance
from telemetry.push_record import parse_instance_id
from wire.errors import ErrorCode

LATE_INTERVALS: Final = 1.5
"""The longest that a client waits by its own jitter: up to 1.5 intervals after a Get (KIP-714, Client behavior)."""

LATE_GRACE_MS: Final = 1_000
"""For the way and for a busy client [ms]."""

WILDCARD: Final = "*"


class ClientState(StrEnum):
    """What an operator is told of an instance; the first that is true of it, from above."""

    TERMINATED = "terminated"
    """Its terminating push was accepted: the client is closing, and sends nothing more."""
    REFUSED = "refused"
    """Its latest request was answered with an error other than THROTTLING_QUOTA_EXCEEDED."""
    THROTTLED = "throttled"
    """Its latest request was answered THROTTLING_QUOTA_EXCEEDED: too early, or the push log was not available."""
    UNSUBSCRIBED = "unsubscribed"
    """No subscription asks it for metrics."""
    LATE = "late"
    """Nothing came for 1.5 push intervals and a second."""
    NEW = "new"
    """It has not pushed yet, and need not have."""
    LIVE = "live"
    """Its pushes come as they should."""


STATE_MEANINGS: Final[Mapping[ClientState, str]] = {
    ClientState.TERMINATED: "its terminating push was accepted; it sends nothing more",
    ClientState.REFUSED: "its latest request was answered with an error other than THROTTLING_QUOTA_EXCEEDED",
    ClientState.THROTTLED: "its latest request was answered THROTTLING_QUOTA_EXCEEDED",
    ClientState.UNSUBSCRIBED: "no subscription asks it for metrics",
    ClientState.LATE: "nothing came from it for 1.5 push intervals and a second",
    ClientState.NEW: "it has not pushed yet, and need not have",
    ClientState.LIVE: "its pushes come as they should",
}
"""In the order in which they are tried."""


def state_of(instance: ClientInstance, now_ms: int) -> ClientState:
    """The state at `now_ms` [ms, monotonic]."""
    gate = instance.gate
    if gate.is_terminated:
        return ClientState.TERMINATED
    error = gate.last_known_error
    if error is not ErrorCode.NONE:
        return ClientState.THROTTLED if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED else ClientState.REFUSED
    subscription = instance.subscription
    if not subscription.metrics:
        return ClientState.UNSUBSCRIBED
    if now_ms - instance.seen_ms > LATE_INTERVALS * subscription.push_interval_ms + LATE_GRACE_MS:
        return ClientState.LATE
    return ClientState.LIVE if instance.pushes else ClientState.NEW


class ClientRow(NamedTuple):
    """One instance. Times are wall times [us since the epoch], good to some ms; None where a thing has not happened.

    `metrics` are the prefixes that it is asked for, `subscriptions` the client-metrics resources that ask. `pushes`
    are those in the push log, `push_bytes` their payloads as received. `refused` requests were answered with an error,
    the latest with `last_error` for `last_error_reason`. `connections` are those open now on which it was seen.
    `asked_for_records` is set by a node that takes telemetry only.
    """

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    principal: str
    client_source_address: str
    client_source_port: int
    listener: str
    connections: int
    state: str
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    push_interval_ms: int
    subscription_id: int
    pushes: int
    push_bytes: int
    last_push_at: int | None
    last_seen_at: int
    refused: int
    last_error: str | None
    last_error_reason: str | None
    last_error_at: int | None
    asked_for_records: bool = False


def row_of(instance: ClientInstance, *, now_ms: int, now_us: int) -> ClientRow:
    """The row of an instance, given both clocks of one moment."""
    subscription = instance.subscription
    refusal = instance.last_refusal
    pushed_ms = instance.last_push_ms
    offset_ms = now_us // 1_000 - now_ms
    return ClientRow(
        instance.instance_id_text,
        instance.client_id,
        instance.client_software_name,
        instance.client_software_version,
        instance.principal_text,
        instance.client_address,
        instance.client_port,
        instance.listener_name,
        len(instance.gate.connections),
        state_of(instance, now_ms).value,
        subscription.names,
        subscription.metrics,
        subscription.push_interval_ms,
        instance.subscription_id,
        instance.pushes,
        instance.push_bytes,
        None if pushed_ms is None else 1_000 * (pushed_ms + offset_ms),
        1_000 * (instance.seen_ms + offset_ms),
        instance.refusals,
        None if refusal is None else refusal.error_code.name,
        None if refusal is None else refusal.reason,
        None if refusal is None else 1_000 * (instance.last_refusal_ms + offset_ms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFilter:
    """Which instances are asked for; what is empty asks for all. Texts match as a whole, or up to a `*` at the end.

    Attributes:
        instance_id: 0, or the id as an integer.
        client_id: for example `orders` or `orders-*`.
        software: a name, or name and version: `apache-kafka-java`, `apache-kafka-java/4.*`.
        principal: for example `User:alice`.
        states: any of them.
    """

    instance_id: int = 0
    client_id: str = ""
    software: str = ""
    principal: str = ""
    states: frozenset[str] = frozenset()

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> "ClientFilter":
        """Reads what was asked for: `instance_id` in every form that clients log, `state` with commas.

        Raises:
            ValueError: one sentence on what is wrong, without a word of what was asked: it goes to strangers.
        """
        for key, value in wanted.items():
            if key not in FILTER_KEYS or not isinstance(value, str):
                raise ValueError(f"there is no such filter; filters are {', '.join(FILTER_KEYS)}")
        states = frozenset(part.strip() for part in wanted.get("state", "").split(",") if part.strip())
        if states - set(ClientState):
            raise ValueError(f"there is no such state; states are {', '.join(ClientState)}")
        return cls(
            instance_id=_parse_id(wanted.get("instance_id", "")),
            client_id=wanted.get("client_id", ""),
            software=wanted.get("software", ""),
            principal=wanted.get("principal", ""),
            states=states,
        )

    def accepts(self, instance: ClientInstance, now_ms: int) -> bool:
        """True if the instance is asked for, at `now_ms` [ms, monotonic]."""
        if self.instance_id and instance.instance_id.int != self.instance_id:
            return False
        if not _fits(self.client_id, instance.client_id) or not _fits(self.principal, instance.principal_text):
            return False
        if self.software and not self._accepts_software(instance):
            return False
        return not self.states or state_of(instance, now_ms).value in self.states

    def _accepts_software(self, instance: ClientInstance) -> bool:
        name = instance.client_software_name
        return _fits(self.software, name if "/" not in self.software else f"{name}/{instance.client_software_version}")


FILTER_KEYS: Final = ("instance_id", "client_id", "software", "principal", "state")


def _parse_id(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_instance_id(text).int
    except ValueError:
        raise ValueError(
            "instance_id is no client instance id: it is 22 characters of base64, 32 hex digits, or a hyphenated UUID"
        ) from None


def _fits(wanted: str, text: str) -> bool:
    if not wanted:
        return True
    return text.startswith(wanted[:-1]) if wanted.endswith(WILDCARD) else text == wanted
