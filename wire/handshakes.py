"""Connections that are not let in yet: how many there may be, for how long, and which one makes room. No I/O.

PROXY header, TLS and SASL together are one connection's handshake, and share one deadline.
"""

import enum
import itertools
from collections.abc import Callable

from wire.network import network_of


class HandshakeStage(enum.StrEnum):
    """What a connection still has to do."""

    PROXY_HEADER = "proxy_header"
    TLS = "tls"
    SASL = "sasl"


class Handshake:
    """One connection's handshake.

    Attributes:
        stage: where it is.
        abort: ends the connection; takes the reason. Changes hands when the connection gets its channel.
        reason: why it was ended, once it was.
        network: whose share of the listener's handshakes it takes; see `wire.network`.
    """

    __slots__ = ("_handshakes", "abort", "deadline_ms", "network", "reason", "stage")

    def __init__(
        self, handshakes: "Handshakes", abort: Callable[[str], object], deadline_ms: int, network: str
    ) -> None:
        self._handshakes = handshakes
        self.abort = abort
        self.deadline_ms = deadline_ms
        self.network = network
        self.stage = HandshakeStage.TLS
        self.reason: str | None = None

    def finish(self) -> None:
        """The connection is let in, or has ended; may be called again."""
        self._handshakes.forget(self)

    def identify(self, address: str) -> None:
        """The client's own address is known: a load balancer stands in front."""
        self._handshakes.move(self, network_of(address))

    def wait_for_node(self) -> None:
        """The client has done its part and waits for a password check: it is not ended to make room."""
        self._handshakes.hold(self)

    def wait_for_client(self) -> None:
        """It is the client's turn again."""
        self._handshakes.release(self)


class Handshakes:
    """The unfinished handshakes of one listener.

    When there are too many, one has to make room: the oldest of the network that has most of them. A flood from few
    addresses ends its own connections, and one from many addresses its oldest, while an honest handshake takes
    milliseconds. One that waits for its password check is never ended to make room, since it is the node that is slow;
    `wire.password_checks` bounds how many these are, below `max_unfinished`.

    Args:
        max_unfinished: how many there may be.
        timeout_ms: how long one may take [ms].
    """

    __slots__ = ("_by_network", "_timeout_ms", "_unfinished", "max_unfinished")

    def __init__(self, *, max_unfinished: int, timeout_ms: int) -> None:
        self.max_unfinished = max_unfinished
        self._timeout_ms = timeout_ms
        self._unfinished: dict[Handshake, None] = {}  # oldest first
        self._by_network: dict[str, dict[Handshake, None]] = {}  # without those that are held; oldest first

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(self, abort: Callable[[str], object], now_ms: int, address: str = "") -> Handshake:
        """A connection was accepted; ends another one where there are too many."""
        if len(self._unfinished) >= self.max_unfinished and self._by_network:
            # All networks are looked at, at most `max_unfinished`, and only when the listener is full.
            fullest = max(self._by_network.values(), key=lambda share: (len(share), -next(iter(share)).deadline_ms))
            self._end(next(iter(fullest)), "too_many_handshakes")
        handshake = Handshake(self, abort, now_ms + self._timeout_ms, network_of(address))
        self._unfinished[handshake] = None
        self.release(handshake)
        return handshake

    def forget(self, handshake: Handshake) -> None:
        """It has ended, well or not."""
        self._unfinished.pop(handshake, None)
        self.hold(handshake)

    def hold(self, handshake: Handshake) -> None:
        """It is not ended to make room."""
        share = self._by_network.get(handshake.network)
        if share is not None:
            share.pop(handshake, None)
            if not share:
                del self._by_network[handshake.network]

    def release(self, handshake: Handshake) -> None:
        """It may be ended to make room, as the last one of its network."""
        if handshake in self._unfinished:
            self._by_network.setdefault(handshake.network, {})[handshake] = None

    def move(self, handshake: Handshake, network: str) -> None:
        """It belongs to another network than its connection."""
        self.hold(handshake)
        handshake.network = network
        self.release(handshake)

    def expire(self, now_ms: int) -> None:
        """Ends those that take too long, as `<stage>_timeout`."""
        # One walk: asking for the first key after each removal would step over every removed slot again.
        for handshake in list(itertools.takewhile(lambda each: each.deadline_ms <= now_ms, self._unfinished)):
            if handshake in self._unfinished:  # not finished by the abort of another one
                self._end(handshake, f"{handshake.stage}_timeout")

    def end_all(self, reason: str) -> None:
        """Ends every one: the listener stops."""
        for handshake in list(self._unfinished):
            self._end(handshake, reason)

    def _end(self, handshake: Handshake, reason: str) -> None:
        self.forget(handshake)
        handshake.reason = reason
        handshake.abort(reason)
