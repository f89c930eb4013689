"""The bound on what all connections hold of requests that no handler has seen, and the time that a request may take to
arrive.

One connection holds at most one request and one chunk; a few dozen that never finish theirs hold hundreds of megabytes.
Closing the connection that happens to pass the bound would close the clients and leave those who hold the memory. So
the heaviest connection of the heaviest address is closed, again and again, until an eighth of the bound is free. The
weight of a connection is what it holds times how long it has held it [B ms]: a push in two segments is held for
milliseconds, however large it is, and weighs nothing beside requests that are parked. Addresses are compared first, so
that thousands of connections that hold little each weigh what they hold together. No address has a fixed share: a whole
fleet behind one address is not limited before memory is short, and then by its own heaviest connections.

A connection at rest holds nothing and is not known here.
"""

import heapq
from typing import Final

from wire.close_reason import CloseReason
from wire.network import network_of
from wire.open_connection import OpenConnection

_FREED_SHARE: Final = 8
"""An eighth of the bound is free after connections were closed, so that weighing them all costs next to nothing."""


class RequestBuffers:
    """What the connections of all listeners of a process hold of incomplete and waiting requests.

    Args:
        max_bytes: the bound [B]. It is passed by what one connection's latest chunk holds, for as long as it takes to
            close others.
        timeout_ms: how long a request may take from its first byte to its last [ms, monotonic].

    Attributes:
        max_bytes: as given.
        held_bytes: what is held now [B].
    """

    __slots__ = ("_since_ms", "_timeout_ms", "held_bytes", "max_bytes")

    def __init__(self, max_bytes: int, timeout_ms: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._timeout_ms = timeout_ms
        self._since_ms: dict[OpenConnection, int] = {}  # by the time, oldest first

    def note(self, channel: OpenConnection, before: int, now: int) -> None:
        """Takes note of a connection that held `before` and holds `now` [B]."""
        self.held_bytes += now - before
        if not before:
            self._since_ms[channel] = channel.last_active_ms
        elif not now:
            del self._since_ms[channel]

    def restart(self, channel: OpenConnection, now_ms: int) -> None:
        """The time of a connection that holds something begins at `now_ms`: what it holds is of a later request."""
        del self._since_ms[channel]
        self._since_ms[channel] = now_ms

    def held_by(self, listener_name: str) -> int:
        """What the connections of one listener hold [B]; for a status page."""
        return sum(each.buffered_bytes for each in self._since_ms if each.listener_name == listener_name)

    def expire(self, now_ms: int) -> None:
        """Closes the connections whose request is not complete within the time, however much of it still arrives.

        A connection that is not read from for our own sake has its time begin again.
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
                "closed a connection whose request did not arrive in time",
                f"{channel.buffered_bytes} bytes of it arrived within request.receive.timeout.ms ({self._timeout_ms})",
            )

    def close_heaviest(self, now_ms: int) -> None:
        """Closes the heaviest connection of the heaviest address, until an eighth of the bound is free."""
        by_network: dict[str, list[tuple[int, int, OpenConnection]]] = {}
        for number, (channel, since_ms) in enumerate(self._since_ms.items()):
            weight = channel.buffered_bytes * (now_ms - since_ms + 1)
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
            "closed the connections that held most of incomplete requests for longest",
            f"{self.held_bytes} bytes are held over all connections, queued.max.request.bytes is {self.max_bytes}; "
            f"this one held {channel.buffered_bytes}",
        )
