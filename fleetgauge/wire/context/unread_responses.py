"""Bound on the memory of unread responses over all connections of a process.

One connection buffers at most `write_high_water_bytes` and a response; thousands that never read buffer gigabytes. A
transport's buffer shrinks as its peer reads, without a callback. So no running total is kept: whenever enough was sent
to possibly exceed the bound, the buffers of all connections are summed, and the largest are closed until it is met.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.open_connection import OpenConnection

_LEAST_SHARE: Final = 8
"""At least an eighth of the bound is sent between two reviews, so that they are rare."""


class UnreadResponses:
    """Unread responses of all connections of a process.

    Args:
        max_bytes: the bound [B]. It may be exceeded by an eighth, and by the writes of one turn.

    Attributes:
        held_bytes: size of unread responses after the latest review [B].
        by_listener: the same by listener name.
        left_bytes: bytes that may be sent before the next review [B]; below 0 the review is due, and requests wait
            for it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._is_coming = False
        self._connections: list[Collection[OpenConnection]] = []
        self.held_bytes = 0
        self.by_listener: dict[str, int] = {}
        self.left_bytes = max_bytes

    def watch(self, connections: Collection[OpenConnection]) -> None:
        """Adds the connections of a listener; the collection is read again in each review."""
        self._connections.append(connections)

    def review_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Schedules a review for the loop's next iteration: by then the latest writes have reached the kernel."""
        if not self._is_coming:
            self._is_coming = True
            loop.call_soon(self.review)

    def review(self) -> None:
        """Sums the unread responses of all connections, and closes the largest until the bound is met."""
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
                    "wire.response_memory_exceeded",
                    f"{total} bytes are unread over all connections, queued.max.response.bytes is {self._max_bytes}; "
                    f"this one held {size}",
                )
                total -= size
                self.by_listener[channel.listener_name] -= size
        self.held_bytes = total
        self.left_bytes = max(self._max_bytes - total, self._max_bytes // _LEAST_SHARE)
