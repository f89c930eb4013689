"""Bounds on unfinished handshakes: their number, their duration, and which one is ended to make room. No I/O.

PROXY header, TLS and SASL of a connection are one handshake with one deadline.
"""

import enum
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from fleetgauge.base.network import network_of


class HandshakeStage(enum.StrEnum):
    """The current stage of a handshake."""

    PROXY_HEADER = "proxy_header"
    TLS = "tls"
    SASL = "sasl"


@dataclass(slots=True, eq=False)
class Handshake:
    """One connection's handshake.

    Attributes:
        stage: its current stage.
        abort: closes the connection with a reason. Replaced when the connection gets its channel.
        reason: why it was ended; None before.
        network: the client's network, which it counts for; see `base.network`.
    """

    _handshakes: "Handshakes"
    abort: Callable[[str], object]
    deadline_ms: int
    network: str
    stage: HandshakeStage = HandshakeStage.TLS
    reason: str | None = None

    def finish(self) -> None:
        """Call when the handshake is done, or the connection has ended; may be called again."""
        self._handshakes.forget(self)
        self.abort = _no_abort  # which refers to the connection, as that does to its handshake

    def identify(self, address: str) -> None:
        """Sets the client's own address, from a PROXY header."""
        self._handshakes.move(self, network_of(address))

    def wait_for_node(self) -> None:
        """The client waits for its password check: until `wait_for_client`, it is not ended to make room."""
        self._handshakes.hold(self)

    def wait_for_client(self) -> None:
        """The password is checked: the handshake may be ended to make room again."""
        self._handshakes.release(self)


def _no_abort(reason: str) -> None:
    """Abort function of a completed handshake."""


class Handshakes:
    """The unfinished handshakes of one listener.

    Beyond the maximum, the oldest handshake of the network with the most handshakes is ended. A flood from few
    addresses ends its own connections, and one from many addresses its oldest, while a regular handshake takes
    milliseconds. A handshake that waits for its password check is not ended, since the node is the slow side;
    `wire.context.password_checks` bounds the number of these, below `max_unfinished`.

    Args:
        max_unfinished: the maximum number.
        timeout_ms: the longest duration of one [ms].
    """

    def __init__(self, *, max_unfinished: int, timeout_ms: int) -> None:
        self.max_unfinished = max_unfinished
        self._timeout_ms = timeout_ms
        self._unfinished: dict[Handshake, None] = {}  # oldest first
        self._by_network: dict[str, dict[Handshake, None]] = {}  # those that may be ended to make room; oldest first

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(self, abort: Callable[[str], object], now_ms: int, address: str = "") -> Handshake:
        """Starts the handshake of an accepted connection; ends another one if there are too many."""
        if len(self._unfinished) >= self.max_unfinished and self._by_network:
            # This visits all networks, at most `max_unfinished`, and only when the listener is full.
            fullest = max(self._by_network.values(), key=lambda share: (len(share), -next(iter(share)).deadline_ms))
            self._end(next(iter(fullest)), "too_many_handshakes")
        handshake = Handshake(self, abort, now_ms + self._timeout_ms, network_of(address))
        self._unfinished[handshake] = None
        self.release(handshake)
        return handshake

    def forget(self, handshake: Handshake) -> None:
        """Removes a handshake that has ended."""
        self._unfinished.pop(handshake, None)
        self.hold(handshake)

    def hold(self, handshake: Handshake) -> None:
        """Excludes a handshake from being ended to make room."""
        share = self._by_network.get(handshake.network)
        if share is not None:
            share.pop(handshake, None)
            if not share:
                del self._by_network[handshake.network]

    def release(self, handshake: Handshake) -> None:
        """Allows a handshake to be ended to make room, as the last one of its network."""
        if handshake in self._unfinished:
            self._by_network.setdefault(handshake.network, {})[handshake] = None

    def move(self, handshake: Handshake, network: str) -> None:
        """Counts a handshake for another network."""
        self.hold(handshake)
        handshake.network = network
        self.release(handshake)

    def expire(self, now_ms: int) -> None:
        """Ends the handshakes past their deadline, with the reason `<stage>_timeout`."""
        # One walk: asking for the first key after each removal would step over every removed slot again.
        for handshake in list(itertools.takewhile(lambda each: each.deadline_ms <= now_ms, self._unfinished)):
            if handshake in self._unfinished:  # not finished by the abort of another one
                self._end(handshake, f"{handshake.stage}_timeout")

    def end_all(self, reason: str) -> None:
        """Ends all handshakes, since the listener stops."""
        for handshake in list(self._unfinished):
            self._end(handshake, reason)

    def _end(self, handshake: Handshake, reason: str) -> None:
        self.forget(handshake)
        handshake.reason = reason
        handshake.abort(reason)
