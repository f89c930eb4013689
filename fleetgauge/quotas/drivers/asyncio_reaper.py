"""Unmutes throttled channels on an asyncio loop."""

import asyncio

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper


class AsyncioReaper:
    """One timer of the loop for one reaper: callbacks end their throttling on the loop.

    Channels may be throttled from other threads, too. Create and shut it down on the loop's thread.

    Args:
        reaper: of the channels.
        time: the clock of the reaper's channels.
        loop: by default the running one.
    """

    def __init__(
        self, reaper: ThrottledChannelReaper, time: Time, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        check_types(reaper=(reaper, ThrottledChannelReaper), time=(time, "hi_res_clock_ms"))
        self._reaper = reaper
        self._time = time
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sets the timer, now and whenever another channel is due first."""
        self._reaper.delay_queue.on_wakeup(self._wake)
        self._set_timer()

    def shutdown(self) -> None:
        """Unmutes every muted channel, and stops the timer."""
        self._reaper.delay_queue.on_wakeup(None)
        self._reaper.initiate_shutdown()
        self._cancel()
        self._reaper.reap(self._time.hi_res_clock_ms())

    def _wake(self) -> None:
        # Always through the loop: a request handler that throttles must not unmute other channels.
        self._loop.call_soon_threadsafe(self._set_timer)

    def _set_timer(self) -> None:
        self._cancel()
        end_time_ms = self._reaper.delay_queue.next_end_time_ms
        if end_time_ms is not None:
            delay_s = max(end_time_ms - self._time.hi_res_clock_ms(), 0) / 1_000
            self._timer = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._reaper.reap(self._time.hi_res_clock_ms())
        self._set_timer()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
