"""Counters of a listener."""

from collections import Counter, defaultdict
from typing import Any, Final

from wire.api_table import ApiKey

_API_NAMES: Final[dict[int, str]] = {key.value: key.name for key in ApiKey}


class ListenerCounters:
    """Counts since the listener started. Reasons and api keys are fixed sets, so that peers cannot make them grow.

    Attributes:
        accepted: connections accepted.
        accept_errors: accepts that failed for lack of file descriptors or memory.
        accept_waits: connections delayed by connection limits; later ones in the backlog waited behind them.
        closed: ended connections by reason.
        frames: whole frames received.
        requests: requests handed to the handler, by api key.
        bytes_received, bytes_sent: on the wire [B].
    """

    __slots__ = (
        "accept_errors",
        "accept_waits",
        "accepted",
        "bytes_received",
        "bytes_sent",
        "closed",
        "frames",
        "requests",
    )

    def __init__(self) -> None:
        self.accepted = 0
        self.accept_errors = 0
        self.accept_waits = 0
        self.closed: Counter[str] = Counter()
        self.frames = 0
        self.requests: defaultdict[int, int] = defaultdict(int)  # setting an item of a Counter takes twice as long
        self.bytes_received = 0
        self.bytes_sent = 0

    def snapshot(self) -> dict[str, Any]:
        """Returns the counts as plain values, for a status page."""
        return {
            "accepted": self.accepted,
            "accept_errors": self.accept_errors,
            "accept_waits": self.accept_waits,
            "closed": dict(self.closed),
            "frames": self.frames,
            "requests": {_API_NAMES.get(key, str(key)): count for key, count in self.requests.items()},
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
        }


class AuthenticationCounters:
    """Counts of SASL authentications since the listener started, named after Kafka's metrics (`...-total`)."""

    __slots__ = (
        "failed_authentications",
        "failed_reauthentications",
        "successful_authentications",
        "successful_reauthentications",
    )

    def __init__(self) -> None:
        self.successful_authentications = 0
        self.failed_authentications = 0
        self.successful_reauthentications = 0
        self.failed_reauthentications = 0

    def snapshot(self) -> dict[str, int]:
        """Returns the counts as plain values, for a status page."""
        return {
            "failed_authentications": self.failed_authentications,
            "failed_reauthentications": self.failed_reauthentications,
            "successful_authentications": self.successful_authentications,
            "successful_reauthentications": self.successful_reauthentications,
        }
