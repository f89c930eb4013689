"""A connection as the loop would make it of a socket: the peer's side is moved by hand, and what it reads is kept.

As asyncio's transports it hands over at most 256 KiB at once, nothing while reading is paused, counts what the peer has
not read against the write buffer's limits, and calls `connection_lost` in a later iteration.
"""

import asyncio
from typing import Any

_MAX_READ_BYTES = 256 * 1024


class Arrival:
    """An accepted socket before it has a transport. Has what the listener asks of one."""

    def __init__(self, peer: tuple[str, int], local: tuple[str, int]) -> None:
        self.peer = peer
        self.local = local
        self.transport: PeerTransport | None = None
        self.is_closed = False

    def fileno(self) -> int:
        return 10

    def getsockname(self) -> tuple[str, int]:
        return self.local

    def setsockopt(self, *_: Any) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class PeerTransport(asyncio.Transport):
    """See the module's head."""

    def __init__(self, loop: Any, protocol: Any, arrival: Arrival) -> None:
        super().__init__({"peername": arrival.peer, "sockname": arrival.local, "socket": arrival})
        self._loop = loop
        self._protocol = protocol
        self._arrival = arrival
        arrival.transport = self
        self._kernel = bytearray()
        self._eof = False
        self._reading = False
        self._closing = False
        self._lost = False
        self._unread = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._paused = False
        self.peer_reads = True
        self.received = bytearray()
        """What the peer has read."""

    # The loop's side

    def begin(self) -> None:
        self._protocol.connection_made(self)
        self._reading = not self._closing
        self._loop.call_soon(self._hand_over)

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing and not self._reading:
            self._reading = True
            self._loop.call_soon(self._hand_over)

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        if self._lost:
            return
        self._unread += data
        self._read()
        if len(self._unread) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._unread:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            self._unread.clear()
            self._loop.call_soon(self._lose, None)

    # The peer's side

    @property
    def is_open(self) -> bool:
        return not self._lost

    def deliver(self, data: bytes) -> None:
        """Bytes arrive, in one piece if the node reads."""
        self._kernel += data
        self._hand_over()

    def end_input(self) -> None:
        """The peer sends no more."""
        self._eof = True
        self._loop.call_soon(self._hand_over)

    def reset(self) -> None:
        """The connection breaks."""
        if not self._lost:
            self._closing = True
            self._unread.clear()
            self._loop.call_soon(self._lose, ConnectionResetError(104, "Connection reset by peer"))

    def set_peer_reads(self, reads: bool) -> None:
        """Whether the peer reads what it is sent."""
        self.peer_reads = reads
        self._read()
        if self._paused and len(self._unread) <= self._low:
            self._paused = False
            self._loop.call_soon(self._resume_writing)
        if self._closing and not self._unread:
            self._loop.call_soon(self._lose, None)

    def _read(self) -> None:
        if self.peer_reads:
            self.received += self._unread
            self._unread.clear()

    def _resume_writing(self) -> None:
        if not self._lost:
            self._protocol.resume_writing()

    def _hand_over(self) -> None:
        if not self._reading or self._closing:
            return
        if self._kernel:
            data = bytes(self._kernel[:_MAX_READ_BYTES])
            del self._kernel[: len(data)]
            self._protocol.data_received(data)
            if self._kernel or self._eof:
                self._loop.call_soon(self._hand_over)
        elif self._eof:
            self._eof = False
            if not self._protocol.eof_received():
                self.close()

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(error)
