"""Bound on the memory of unhandled requests over all connections, and on the time in which a request must arrive.


One connection holds at most one request and one chunk; a few dozen that never finish theirs hold hundreds of megabytes.
Closing the connection that happens to exceed the bound would close working clients instead of those that occupy the
memory. So the heaviest connection of the heaviest address is closed, repeatedly, until an eighth of the bound is free
(docs/decisions/022-who-is-closed-when-memory-is-short.md). The weight of a connection is its buffered bytes times how
long they have been buffered [B ms]: a large push in two TCP segments is buffered for milliseconds and weighs little
compared with a request that never finishes. Addresses are compared first, so that thousands of connections with few
bytes each count with their sum. No address has a fixed share: a fleet behind one address is limited only when memory is
short, and then by its own heaviest connections. Time for which a quota has muted a connection does not count: of those
that hold as much, a client that obeys its throttle time is closed last.

A connection without buffered input is not listed here.
"""

import heapq
from typing import Final

from fleetgauge.base.network import network_of
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.open_connection import OpenConnection

_FREED_SHARE: Final = 8
"""An eighth of the bound is freed at once, so that the comparison of all connections is rare."""


class RequestBuffers:
    """Incomplete and waiting requests of all connections of a process.

    Args:
        max_bytes: the bound [B]. It may be exceeded by one chunk until other connections are closed.
        timeout_ms: maximum time from the first to the last byte of a request [ms, monotonic].

    Attributes:
        max_bytes: as given.
        held_bytes: size of buffered requests now [B].
    """

    def __init__(self, max_bytes: int, timeout_ms: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._timeout_ms = timeout_ms
        self._since_ms: dict[OpenConnection, int] = {}  # oldest first

    def note(self, channel: OpenConnection, before: int, now: int) -> None:
        """Records that a connection's buffered size changed from `before` to `now` [B]."""
        self.held_bytes += now - before
        if not before:
            self._since_ms[channel] = channel.last_active_ms
        elif not now:
            del self._since_ms[channel]

    def restart(self, channel: OpenConnection, now_ms: int) -> None:
        """Restarts the receive time of a connection at `now_ms`: its bytes are of a later request, or it was muted."""
        del self._since_ms[channel]
        self._since_ms[channel] = now_ms

    def held_by(self, listener_name: str) -> int:
        """Size of the buffered requests of one listener [B]; for a status page."""
        return sum(each.buffered_bytes for each in self._since_ms if each.listener_name == listener_name)

    def expire(self, now_ms: int) -> None:
        """Closes connections with a request that did not arrive completely within `timeout_ms`.

        The time restarts for a connection on which this side has paused reading.
        """
        late = []
        for channel, since_ms in self._since_ms.items():
            if now_ms - since_ms < self._timeout_ms:
                break
            late.append(channel)
        for channel in late:
            if channel.is_held_up:
                self.restart(channel, now_ms)
                continue
            channel.shed(
                CloseReason.REQUEST_UNFINISHED,
                "wire.request_timed_out",
                f"{channel.buffered_bytes} bytes of it arrived within request.receive.timeout.ms ({self._timeout_ms})",
            )

    def close_heaviest(self, now_ms: int) -> None:
        """Closes the heaviest connection of the heaviest address, until an eighth of the bound is free."""
        by_network: dict[str, list[tuple[int, int, OpenConnection]]] = {}
        for number, (channel, since_ms) in enumerate(self._since_ms.items()):
            held_ms = 0 if channel.is_muted else now_ms - since_ms
            weight = channel.buffered_bytes * (held_ms + 1)
            by_network.setdefault(network_of(channel.client_address), []).append((weight, -number, channel))
        heaviest = [(-sum(weight for weight, _, _ in each), -each[0][1], sorted(each)) for each in by_network.values()]
        heapq.heapify(heaviest)
        enough = self.max_bytes - self.max_bytes // _FREED_SHARE
        while self.held_bytes > enough and heaviest:
            negative, number, each = heapq.heappop(heaviest)
            weight, _, channel = each.pop()
            self._shed(channel)
            if each:
                heapq.heappush(heaviest, (negative + weight, number, each))

    def _shed(self, channel: OpenConnection) -> None:
        channel.shed(
            CloseReason.RECEIVE_BUFFERS_FULL,
            "wire.request_memory_exceeded",
            f"{self.held_bytes} bytes are held over all connections, queued.max.request.bytes is {self.max_bytes}; "
            f"this one held {channel.buffered_bytes}",
        )
