"""The bound on what the peers of all listeners leave unread of their responses, all together.

One connection holds at most `write_high_water_bytes` and a response; thousands that never read hold gigabytes. What a
transport holds falls when its peer reads, and nobody is told. So nothing is added up: whenever enough was sent that the
bound may be passed, every connection is asked what it holds, and those that hold most are closed while it is too much.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from wire.close_reason import CloseReason
from wire.open_connection import OpenConnection

_LEAST_SHARE: Final = 8
"""An eighth of the bound is sent between two reviews at least, so that they cost next to nothing."""


class UnreadResponses:
    """What the connections of all listeners of a process hold of responses that their peers have not read.

    Args:
        max_bytes: the bound [B]. It may be passed by an eighth, and by what one turn of a connection writes.

    Attributes:
        held_bytes: what was held at the latest review, after it [B].
        by_listener: the same by the listener's name.
        left_bytes: what may be sent before the next one [B]; below 0 it is due, and no request is handled before it.
    """

    __slots__ = ("_connections", "_is_coming", "_max_bytes", "by_listener", "held_bytes", "left_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._is_coming = False
        self._connections: list[Collection[OpenConnection]] = []
        self.held_bytes = 0
        self.by_listener: dict[str, int] = {}
        self.left_bytes = max_bytes

    def watch(self, connections: Collection[OpenConnection]) -> None:
        """Counts the connections of one more listener; the collection is looked at in each review."""
        self._connections.append(connections)

    def review_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reviews in the loop's next iteration: by then it has handed what was just written to the kernel."""
        if not self._is_coming:
            self._is_coming = True
            loop.call_soon(self.review)

    def review(self) -> None:
        """Asks every connection what it holds, and closes those that hold most while that is more than the bound."""
        self._is_coming = False
        held = [(channel.unread_bytes, channel) for channels in self._connections for channel in channels]
        total = 0
        self.by_listener.clear()
        for size, channel in held:
            total += size
            self.by_listener[channel.listener_name] = self.by_listener.get(channel.listener_name, 0) + size
        if total > self._max_bytes:
            held.sort(key=lambda each: each[0], reverse=True)
            for size, channel in held:
                if total <= self._max_bytes:
                    break
                channel.shed(
                    CloseReason.RESPONSE_BUFFERS_FULL,
                    "closed the connections that left most of their responses unread",
                    f"{total} bytes are unread over all connections, queued.max.response.bytes is {self._max_bytes}; "
                    f"this one held {size}",
                )
                total -= size
                self.by_listener[channel.listener_name] -= size
        self.held_bytes = total
        self.left_bytes = max(self._max_bytes - total, self._max_bytes // _LEAST_SHARE)
