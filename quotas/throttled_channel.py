"""Channels that are held for a while: each is muted once, and unmuted once when its time has come."""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

_logger = logging.getLogger(__name__)


class ThrottleCallback(Protocol):
    """How a channel is muted and unmuted (Kafka's `ThrottleCallback`)."""

    def start_throttling(self) -> None:
        """Mutes: nothing more is read from the channel. Called on the thread that throttles."""
        ...

    def end_throttling(self) -> None:
        """Unmutes. Called once for each `start_throttling`, on the driver's thread or loop; the channel may be gone."""
        ...


class ThrottledChannel:
    """A channel that is muted from when this is made until `notify_throttling_done` (Kafka's `ThrottledChannel`).

    Args:
        callback: mutes and unmutes it.
        throttle_time_ms: how long it is to be held [ms].
        now_ms: monotonic time [ms].
    """

    __slots__ = ("_callback", "end_time_ms", "throttle_time_ms")

    def __init__(self, callback: ThrottleCallback, throttle_time_ms: int, now_ms: int) -> None:
        self._callback = callback
        self.throttle_time_ms: Final = throttle_time_ms
        self.end_time_ms: Final = now_ms + throttle_time_ms
        callback.start_throttling()

    def notify_throttling_done(self) -> None:
        """Unmutes the channel. An exception of its callback is logged: the next channel must not wait for ever."""
        try:
            self._callback.end_throttling()
        except Exception:
            _logger.exception("the end of a throttling of %d ms failed", self.throttle_time_ms)


class DelayQueue:
    """The throttled channels in the order in which they are due. Safe for threads; reads no clock.

    Whoever polls it asks `next_end_time_ms` how long it may sleep, and is told by `on_wakeup` when that has changed:
    a channel was added that is due before all others, or the queue was closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, ThrottledChannel]] = []
        self._order = itertools.count()  # of two that are due together the first to come is the first to go
        self._closed = False
        self._wakeup: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def on_wakeup(self, wakeup: Callable[[], None] | None) -> None:
        """`wakeup` is called, on whatever thread adds or closes, when the first end has become an earlier one."""
        self._wakeup = wakeup

    def add(self, channel: ThrottledChannel) -> bool:
        """Takes a muted channel; False, and it is the caller's to unmute, when the queue is closed."""
        with self._lock:
            if self._closed:
                return False
            heapq.heappush(self._heap, (channel.end_time_ms, next(self._order), channel))
            is_first = self._heap[0][2] is channel
        if is_first:
            self._wake()
        return True

    def poll(self, now_ms: int) -> ThrottledChannel | None:
        """Takes out the first channel if it is due at `now_ms` [ms, monotonic]; any, once the queue is closed."""
        with self._lock:
            if self._heap and (self._closed or self._heap[0][0] <= now_ms):
                return heapq.heappop(self._heap)[2]
            return None

    @property
    def next_end_time_ms(self) -> int | None:
        """When the first channel is due [ms, monotonic], None while there is none."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def close(self) -> None:
        """Takes no more channels, makes all that are there due at once, and wakes who polls."""
        with self._lock:
            self._closed = True
        self._wake()

    def _wake(self) -> None:
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup()


class ThrottledChannelReaper:
    """Unmutes the channels of one quota type when they are due. A driver calls `reap`; nothing runs by itself.

    Kafka's is a thread; here `quotas.drivers` has one for a thread and one for an asyncio loop. Any number of callers
    may reap at the same time: each channel is unmuted by exactly one of them.

    Args:
        name: for the driver's thread, e.g. `ThrottledChannelReaper-Produce`.
        size_changed: is given +1 for every channel that comes and -1 for every one that goes.
    """

    def __init__(self, name: str, size_changed: Callable[[int], None]) -> None:
        self.name: Final = name
        self.delay_queue: Final = DelayQueue()
        self._size_changed = size_changed

    def throttle(self, callback: ThrottleCallback, throttle_time_ms: int, now_ms: int) -> None:
        """Mutes a channel now and unmutes it in `throttle_time_ms` [ms]; at once after `initiate_shutdown`."""
        channel = ThrottledChannel(callback, throttle_time_ms, now_ms)
        self._size_changed(1)  # before it is in the queue, so that the size is never below zero
        if not self.delay_queue.add(channel):
            self._done(channel)

    def reap(self, now_ms: int) -> int:
        """Unmutes every channel that is due at `now_ms` [ms, monotonic]; how many those were."""
        count = 0
        while (channel := self.delay_queue.poll(now_ms)) is not None:
            self._done(channel)
            count += 1
        return count

    def initiate_shutdown(self) -> None:
        """Makes all channels due and wakes the driver: nobody is left muted. Kafka wakes its thread and leaves them."""
        self.delay_queue.close()

    def _done(self, channel: ThrottledChannel) -> None:
        self._size_changed(-1)
        channel.notify_throttling_done()
