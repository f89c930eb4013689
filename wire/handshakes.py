"""Connections that are not let in yet: how many there may be, and for how long. No I/O.

PROXY header, TLS and SASL together are one connection's handshake, and share one deadline.
"""

import enum
from collections.abc import Callable


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
    """

    __slots__ = ("_handshakes", "abort", "deadline_ms", "reason", "stage")

    def __init__(self, handshakes: "Handshakes", abort: Callable[[str], object], deadline_ms: int) -> None:
        self._handshakes = handshakes
        self.abort = abort
        self.deadline_ms = deadline_ms
        self.stage = HandshakeStage.TLS
        self.reason: str | None = None

    def finish(self) -> None:
        """The connection is let in, or has ended; may be called again."""
        self._handshakes.forget(self)


class Handshakes:
    """The unfinished handshakes of one listener.

    When there are too many, the oldest has to go, so that those who say nothing cannot keep out those who come to talk:
    an honest handshake takes milliseconds.

    Args:
        max_unfinished: how many there may be.
        timeout_ms: how long one may take [ms].
    """

    __slots__ = ("_max", "_timeout_ms", "_unfinished")

    def __init__(self, *, max_unfinished: int, timeout_ms: int) -> None:
        self._max = max_unfinished
        self._timeout_ms = timeout_ms
        self._unfinished: dict[Handshake, None] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(self, abort: Callable[[str], object], now_ms: int) -> Handshake:
        """A connection was accepted; ends the oldest handshake where there are too many."""
        if len(self._unfinished) >= self._max:
            self._end(next(iter(self._unfinished)), "too_many_handshakes")
        handshake = Handshake(self, abort, now_ms + self._timeout_ms)
        self._unfinished[handshake] = None
        return handshake

    def forget(self, handshake: Handshake) -> None:
        """It has ended, well or not."""
        self._unfinished.pop(handshake, None)

    def expire(self, now_ms: int) -> None:
        """Ends those that take too long, as `<stage>_timeout`."""
        while self._unfinished:
            oldest = next(iter(self._unfinished))
            if oldest.deadline_ms > now_ms:
                return
            self._end(oldest, f"{oldest.stage}_timeout")

    def end_all(self, reason: str) -> None:
        """Ends every one: the listener stops."""
        for handshake in list(self._unfinished):
            self._end(handshake, reason)

    def _end(self, handshake: Handshake, reason: str) -> None:
        self.forget(handshake)
        handshake.reason = reason
        handshake.abort(reason)
