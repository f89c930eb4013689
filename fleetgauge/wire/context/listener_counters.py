"""Counters of a listener."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Any, Final

from fleetgauge.wire.api_table import ApiKey

_API_NAMES: Final[dict[int, str]] = {key.value: key.name for key in ApiKey}


@dataclass(slots=True)
class ListenerCounters:
    """Counts since the listener started. Reasons and api keys are fixed sets, so that peers cannot make them grow.

    Attributes:
        accepted: connections accepted.
        accept_errors: accepts that failed for lack of file descriptors or memory.
        accept_waits: connections delayed by connection limits; later ones in the backlog waited behind them.
        closed: ended connections by reason.
        frames: whole frames received, but for those on the fast path.
        requests: requests handed to the handler, by api key, but for those on the fast path.
        fast_pushes: pushes that `RequestHandler.push` handled: a count of their own, since they are most requests.
        bytes_received, bytes_sent: on the wire [B].
    """

    accepted: int = 0
    accept_errors: int = 0
    accept_waits: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    frames: int = 0
    requests: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))  # faster than a Counter to set
    fast_pushes: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0

    def snapshot(self) -> dict[str, Any]:
        """Returns the counts as plain values, for a status page."""
        requests = {_API_NAMES.get(key, str(key)): count for key, count in self.requests.items()}
        values = _values(self)
        if fast := values.pop("fast_pushes"):
            values["frames"] += fast
            name = ApiKey.PUSH_TELEMETRY.name
            requests[name] = requests.get(name, 0) + fast
        return values | {"closed": dict(self.closed), "requests": requests}


@dataclass(slots=True)
class AuthenticationCounters:
    """Counts of SASL authentications since the listener started, named after Kafka's metrics (`...-total`)."""

    failed_authentications: int = 0
    failed_reauthentications: int = 0
    successful_authentications: int = 0
    successful_reauthentications: int = 0

    def snapshot(self) -> dict[str, int]:
        """Returns the counts as plain values, for a status page."""
        return _values(self)


def _values(counters: ListenerCounters | AuthenticationCounters) -> dict[str, Any]:
    return {each.name: getattr(counters, each.name) for each in fields(counters)}
