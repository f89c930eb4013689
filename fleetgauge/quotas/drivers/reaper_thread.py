"""Unmutes throttled channels on a thread, as Kafka does.

For library users: `fleetgauge serve` uses `asyncio_reaper`.
"""

import threading

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper


class ReaperThread:
    """One daemon thread for one reaper, with its name. Sleeps until a channel is due.

    Args:
        reaper: of the channels, which are unmuted on this thread.
        time: the clock of the reaper's channels.
    """

    def __init__(self, reaper: ThrottledChannelReaper, time: Time) -> None:
        check_types(reaper=(reaper, ThrottledChannelReaper), time=(time, "hi_res_clock_ms"))
        self._reaper = reaper
        self._time = time
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=reaper.name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._reaper.delay_queue.on_wakeup(self._woken.set)
        self._thread.start()

    def shutdown(self) -> None:
        """Unmutes every muted channel, ends the thread and waits for it."""
        self._reaper.initiate_shutdown()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        queue = self._reaper.delay_queue
        while True:
            self._woken.clear()  # first, so that a later wake-up is not lost
            self._reaper.reap(self._time.hi_res_clock_ms())
            if queue.closed:
                # Channels added before the close are in the queue by now; later ones are unmuted by their own thread.
                self._reaper.reap(self._time.hi_res_clock_ms())
                return
            self._woken.wait(self._sleep_s(queue.next_end_time_ms))

    def _sleep_s(self, end_time_ms: int | None) -> float | None:
        if end_time_ms is None:
            return None
        return max(end_time_ms - self._time.hi_res_clock_ms(), 0) / 1_000
