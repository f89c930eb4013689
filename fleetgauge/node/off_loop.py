"""Calls that may block (a file on a slow mount, a name lookup), away from the loop that answers clients."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from fleetgauge.base.errors import FleetgaugeError

T = TypeVar("T")


class OffLoop:
    """Runs one call at a time in a thread; neither the loop nor the end of the process waits for it.

    Args:
        what: the calls as the subject of an error sentence, for example `reading the configuration`.
        within_s: how long one may take [s].
        causes: what to look at when one takes longer, the end of that error's sentence.
    """

    def __init__(
        self,
        what: str,
        within_s: float,
        causes: str = "check whether each file is a regular file on a disk that responds",
    ) -> None:
        self._what = what
        self._within_s = within_s
        self._causes = causes
        self._latest: Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """True while a call has not ended."""
        # Not whether its thread is alive: that ends a moment after the outcome is there.
        return self._latest is not None and not self._latest.done()

    async def run(self, call: Callable[[], T]) -> T:
        """Returns the result of `call`.

        Raises:
            FleetgaugeError: it does not end in time, or an earlier one has not ended yet; also whatever `call` raises.
        """
        if self.is_busy:
            raise FleetgaugeError(f"{self._what} has been started before and has not ended yet")
        outcome: Future[T] = Future()
        outcome.set_running_or_notify_cancel()  # it cannot be cancelled now, and accepts a late result

        def work() -> None:
            try:
                outcome.set_result(call())
            except Exception as error:  # noqa: BLE001  the caller's to handle
                outcome.set_exception(error)

        self._latest = outcome
        threading.Thread(target=work, name=self._what, daemon=True).start()
        waiting = asyncio.wrap_future(outcome)
        # Not `wait_for`: what `call` raises may be a TimeoutError of its own.
        await asyncio.wait([waiting], timeout=self._within_s)
        if not waiting.done():
            waiting.cancel()
            raise FleetgaugeError(f"{self._what} took longer than {self._within_s:.0f} s: {self._causes}")
        return waiting.result()
