"""Unmutes throttled channels from a thread, as Kafka does."""

import threading

from base.clock import Time
from quotas.throttled_channel import ThrottledChannelReaper


class ReaperThread:
    """One daemon thread for one reaper, named as the reaper is. Sleeps until a channel is due.

    Args:
        reaper: whose channels are unmuted, on this thread.
        time: the clock that the reaper's channels were given.
    """

    def __init__(self, reaper: ThrottledChannelReaper, time: Time) -> None:
        self._reaper = reaper
        self._time = time
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=reaper.name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._reaper.delay_queue.on_wakeup(self._woken.set)
        self._thread.start()

    def shutdown(self) -> None:
        """Unmutes every channel that is still held, ends the thread and waits for it."""
        self._reaper.initiate_shutdown()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        queue = self._reaper.delay_queue
        while True:
            self._woken.clear()  # before looking, so that a wake-up while looking is not lost
            self._reaper.reap(self._time.hi_res_clock_ms())
            if queue.closed:
                # Whoever added just before the close is in the queue by now, and whoever comes later unmutes itself.
                self._reaper.reap(self._time.hi_res_clock_ms())
                return
            self._woken.wait(self._sleep_s(queue.next_end_time_ms))

    def _sleep_s(self, end_time_ms: int | None) -> float | None:
        if end_time_ms is None:
            return None
        return max(end_time_ms - self._time.hi_res_clock_ms(), 0) / 1_000
