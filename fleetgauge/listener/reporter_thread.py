"""A thread for each reporter: a receiver that blocks holds up itself, and neither clients nor other receivers.

On the listener's loop one call that does not return would leave every request unanswered. Java clients before 4.2 that
wait for an answer longer than `request.timeout.ms` switch their telemetry off for good (KAFKA-19747).
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from base.errors import FleetgaugeError

MAX_WAITING: Final = 1_000
"""Calls that may wait for a reporter's thread; further ones fail at once."""

_Function = Callable[[], Awaitable[None] | None]


class ReporterBusyError(FleetgaugeError):
    """A reporter does not return from its calls as fast as pushes come."""

    def __init__(self, reporter: str) -> None:
        super().__init__(reporter)
        self.reporter = reporter

    def __str__(self) -> str:
        return (
            f"{MAX_WAITING} calls wait for the reporter {self.reporter}, and further pushes are not shown to it: "
            "have its export_metrics return sooner"
        )


class _Call:
    """One call on its way through the thread; without `function` nobody waits for it any more."""

    __slots__ = ("function", "future", "loop")

    def __init__(self, function: _Function, loop: asyncio.AbstractEventLoop) -> None:
        self.function: _Function | None = function
        self.loop = loop
        self.future: asyncio.Future[Awaitable[None] | None] = loop.create_future()


class ReporterThread:
    """Runs a reporter's calls one at a time, in order, on a daemon thread that the first call starts.

    Not for several loops. What is called must bear that its reporter's other methods run on the loop's thread.
    """

    def __init__(self, reporter: str) -> None:
        """`reporter` is its name, for the thread and for errors."""
        self._reporter = reporter
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = 0

    async def run(self, function: _Function) -> None:
        """Calls `function` on the thread, and awaits on the loop what it returns.

        Cancelled while it waits for the thread, it is not called at all, and what it holds is freed.

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
            # The thread may have answered in the very moment in which this was given up.
            if not call.future.cancelled() and call.future.exception() is None:
                _discard(call.future.result())
            raise
        finally:
            call.function = None
        if awaitable is not None:
            await awaitable

    def close(self) -> None:
        """Ends the thread after the calls that wait. One that never returns keeps it, and not the process."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            result: Awaitable[None] | None = None
            error: BaseException | None = None
            function = call.function
            try:
                if function is not None:
                    result = function()
            except BaseException as raised:  # noqa: BLE001  # it is raised again where the call is awaited
                error = raised
            del function
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                call.loop.call_soon_threadsafe(self._finish, call, result, error)
            del call, result

    def _finish(self, call: _Call, result: Awaitable[None] | None, error: BaseException | None) -> None:
        self._waiting -= 1
        if call.future.done():
            _discard(result)
        elif error is not None:
            # A future takes no StopIteration, and SystemExit of a reporter is no reason to end the node.
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            call.future.set_exception(error if is_plain else RuntimeError(repr(error)))
        else:
            call.future.set_result(result)


def _discard(awaitable: Awaitable[None] | None) -> None:
    """Closes a coroutine that nobody will await, which otherwise warns of it."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
