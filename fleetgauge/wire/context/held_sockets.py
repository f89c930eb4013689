"""Refused connections that are closed after a delay, which delays their clients' next attempts."""

import asyncio
import socket
from typing import Final

MAX_HELD: Final = 1_000
"""Maximum number of held sockets; for one more, the oldest is closed early, so that they cannot use up descriptors."""


class HeldSockets:
    """Sockets that are not read, each with the time of its close (Kafka's `DelayedCloseSocket`).

    Args:
        loop: its timers close the sockets.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._timers)

    def close_after(self, held: socket.socket, hold_ms: int) -> None:
        """Closes a socket after `hold_ms` [ms]; at once if that is 0."""
        if hold_ms <= 0:
            held.close()
            return
        if len(self._timers) >= MAX_HELD:
            self._close(next(iter(self._timers)))
        self._timers[held] = self._loop.call_later(hold_ms / 1_000, self._close, held)

    def close_all(self) -> None:
        """Closes all sockets."""
        for held in list(self._timers):
            self._close(held)

    def _close(self, held: socket.socket) -> None:
        self._timers.pop(held).cancel()
        held.close()
