"""One thread per reporter, so that a blocking receiver delays neither clients nor other receivers.

On the listener's loop one blocking call would leave all requests unanswered. Java clients before 4.2 disable telemetry
permanently if a response takes longer than `request.timeout.ms` (KAFKA-19747).
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from fleetgauge.base.errors import FleetgaugeError

MAX_WAITING: Final = 1_000
"""Maximum number of calls that wait for a reporter's thread; further ones fail at once."""

_Function = Callable[[], Awaitable[None] | None]


class ReporterBusyError(FleetgaugeError):
    """A reporter handles pushes more slowly than they arrive."""

    def __init__(self, reporter: str) -> None:
        super().__init__(reporter)
        self.reporter = reporter

    def __str__(self) -> str:
        return (
            f"{MAX_WAITING} calls wait for the reporter {self.reporter}, and further pushes are not shown to it: "
            "have its export_metrics return sooner"
        )


class _Call:
    """One call for the thread; without `function` it was cancelled."""

    __slots__ = ("function", "future", "loop")

    def __init__(self, function: _Function, loop: asyncio.AbstractEventLoop) -> None:
        self.function: _Function | None = function
        self.loop = loop
        self.future: asyncio.Future[Awaitable[None] | None] = loop.create_future()


class ReporterThread:
    """Runs a reporter's calls one at a time, in order, on a daemon thread that the first call starts.

    To be used on one loop only. The reporter's other methods run on the loop's thread at the same time.
    """

    def __init__(self, reporter: str) -> None:
        """Sets the reporter's name, for the thread and for errors."""
        self._reporter = reporter
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = 0

    async def run(self, function: _Function) -> None:
        """Calls `function` on the thread, and awaits the result on the loop.

        If it is cancelled while it waits for the thread, `function` is not called, and is released.

        Raises:
            ReporterBusyError: too many calls wait already.
            Exception: what `function` or its awaitable raises.
        """
        if self._waiting >= MAX_WAITING:
            raise ReporterBusyError(self._reporter)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"reporter-{self._reporter}", daemon=True)
            self._thread.start()
        call = _Call(function, asyncio.get_running_loop())
        self._waiting += 1
        self._calls.put(call)
        try:
            awaitable = await call.future
        except asyncio.CancelledError:
            # The thread may have set the result at the same time as the cancellation.
            if not call.future.cancelled() and call.future.exception() is None:
                _discard(call.future.result())
            raise
        finally:
            call.function = None
        if awaitable is not None:
            await awaitable

    def close(self) -> None:
        """Ends the thread after the waiting calls. A call that never returns does not keep the process alive."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            result: Awaitable[None] | None = None
            error: BaseException | None = None
            function = call.function
            try:
                if function is not None:
                    result = function()
            except BaseException as raised:  # noqa: BLE001  # raised again where the call is awaited
                error = raised
            del function
            with suppress(RuntimeError):  # the loop is closed: the result is not awaited
                call.loop.call_soon_threadsafe(self._finish, call, result, error)
            del call, result

    def _finish(self, call: _Call, result: Awaitable[None] | None, error: BaseException | None) -> None:
        self._waiting -= 1
        if call.future.done():
            _discard(result)
        elif error is not None:
            # A future rejects StopIteration, and SystemExit of a reporter must not end the node.
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            call.future.set_exception(error if is_plain else RuntimeError(repr(error)))
        else:
            call.future.set_result(result)


def _discard(awaitable: Awaitable[None] | None) -> None:
    """Closes a coroutine that is never awaited, which avoids Python's warning."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
