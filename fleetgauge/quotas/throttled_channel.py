"""Throttled channels: each is muted once, and unmuted once when its throttle time is over."""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from fleetgauge.base.arguments import check_types

_logger = logging.getLogger(__name__)


class ThrottleCallback(Protocol):
    """Mutes and unmutes a channel (Kafka's `ThrottleCallback`)."""

    def start_throttling(self) -> None:
        """Mutes the channel: no more requests are read from it. Called on the thread that throttles."""

    def end_throttling(self) -> None:
        """Unmutes. Called once per `start_throttling`, on the driver's thread or loop; the channel may be closed."""


class ThrottledChannel:
    """A channel, muted from its construction until `notify_throttling_done` (Kafka's `ThrottledChannel`).

    Args:
        callback: mutes and unmutes it.
        throttle_time_ms: throttle time [ms].
        now_ms: monotonic time [ms].
    """

    __slots__ = ("_callback", "end_time_ms", "throttle_time_ms")

    def __init__(self, callback: ThrottleCallback, throttle_time_ms: int, now_ms: int) -> None:
        check_types(callback=(callback, "start_throttling"))
        self._callback = callback
        self.throttle_time_ms: Final = throttle_time_ms
        self.end_time_ms: Final = now_ms + throttle_time_ms
        callback.start_throttling()

    def notify_throttling_done(self) -> None:
        """Unmutes the channel. An exception of its callback is logged, so that the next channel is unmuted too."""
        try:
            self._callback.end_throttling()
        except Exception:
            _logger.exception("the end of a throttling of %d ms failed", self.throttle_time_ms)


class DelayQueue:
    """Throttled channels ordered by the end of their throttle time. Safe for threads; reads no clock.

    A driver sleeps until `next_end_time_ms`, and is notified through `on_wakeup` when that becomes earlier: a channel
    was added that is due before all others, or the queue was closed.

    Attributes:
        closed: True after `close`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, ThrottledChannel]] = []
        self._order = itertools.count()  # first in, first out among channels due at the same time
        self.closed = False
        self._wakeup: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def on_wakeup(self, wakeup: Callable[[], None] | None) -> None:
        """Sets the callback for an earlier first end; called on the thread that adds or closes."""
        self._wakeup = wakeup

    def add(self, channel: ThrottledChannel) -> bool:
        """Adds a muted channel; False if the queue is closed: then the caller has to unmute it."""
        with self._lock:
            if self.closed:
                return False
            heapq.heappush(self._heap, (channel.end_time_ms, next(self._order), channel))
            is_first = self._heap[0][2] is channel
        if is_first:
            self._wake()
        return True

    def poll(self, now_ms: int) -> ThrottledChannel | None:
        """Removes and returns the first channel if it is due at `now_ms` [ms, monotonic], or if the queue is closed."""
        with self._lock:
            if self._heap and (self.closed or self._heap[0][0] <= now_ms):
                return heapq.heappop(self._heap)[2]
            return None

    @property
    def next_end_time_ms(self) -> int | None:
        """End of the first channel's throttle time [ms, monotonic], None if the queue is empty."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def close(self) -> None:
        """Accepts no more channels, makes all queued ones due at once, and wakes the driver."""
        with self._lock:
            self.closed = True
        self._wake()

    def _wake(self) -> None:
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup()


class ThrottledChannelReaper:
    """Unmutes the channels of one quota type when they are due. A driver calls `reap`; nothing runs by itself.

    Kafka's is a thread; `quotas.drivers` has a driver for a thread and one for an asyncio loop. Several callers may
    reap concurrently: each channel is unmuted by exactly one of them.

    Args:
        name: for the driver's thread, e.g. `ThrottledChannelReaper-Produce`.
        size_changed: called with +1 per added channel and -1 per unmuted one.
    """

    def __init__(self, name: str, size_changed: Callable[[int], None]) -> None:
        self.name: Final = name
        self.delay_queue: Final = DelayQueue()
        self._size_changed = size_changed

    def throttle(self, callback: ThrottleCallback, throttle_time_ms: int, now_ms: int) -> None:
        """Mutes a channel now and unmutes it after `throttle_time_ms` [ms]; at once after `initiate_shutdown`."""
        channel = ThrottledChannel(callback, throttle_time_ms, now_ms)
        self._size_changed(1)  # before it is queued, so that the size is never below zero
        if not self.delay_queue.add(channel):
            self._done(channel)

    def reap(self, now_ms: int) -> int:
        """Unmutes every channel that is due at `now_ms` [ms, monotonic]; returns their number."""
        count = 0
        while (channel := self.delay_queue.poll(now_ms)) is not None:
            self._done(channel)
            count += 1
        return count

    def initiate_shutdown(self) -> None:
        """Makes all channels due and wakes the driver, so that none stays muted. (Kafka leaves them muted.)"""
        self.delay_queue.close()

    def _done(self, channel: ThrottledChannel) -> None:
        self._size_changed(-1)
        channel.notify_throttling_done()
