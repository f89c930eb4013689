"""An asyncio loop whose clock is moved by hand and whose connections are made by the test: no socket carries a byte.

Callbacks, tasks, futures and timers are asyncio's own. Three things differ: `time()` is the hand-moved clock;
`sock_accept` and `connect_accepted_socket` hand out connections of `GoldenLoop.arrive`; what `run_in_executor` is given
can be held back, which is how a disk that does not answer is played.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from golden.transport import Arrival, PeerTransport
from support.waiting import PATIENCE_S, WaitedInVainError, ticking, wait_for

_RESOLUTION_S = 1e-6
_RESTS = 100


class GoldenTime:
    """The clocks of a golden node: `base.clock.Time`.

    `nanoseconds`, which the node reads to measure how long its own work takes, is `tick_ns` later at every reading
    until the clock is moved: each piece of measured work takes one tick, and milliseconds stand still meanwhile.
    """

    def __init__(self) -> None:
        self.wall_us = 1_750_000_000_000_000
        self.monotonic_ns = 5_000 * 1_000_000
        self.tick_ns = 0
        self._ticks = 0

    def milliseconds(self) -> int:
        return self.wall_us // 1_000

    def microseconds(self) -> int:
        return self.wall_us

    def hi_res_clock_ms(self) -> int:
        return self.monotonic_ns // 1_000_000

    def nanoseconds(self) -> int:
        self._ticks += 1
        return self.monotonic_ns + self._ticks * self.tick_ns

    def move(self, us: int) -> None:
        """Both clocks forward [us]."""
        assert us >= 0
        self.wall_us += us
        self.monotonic_ns += us * 1_000
        self._ticks = 0

    def jump_wall(self, ms: int) -> None:
        """The wall clock alone [ms]."""
        self.wall_us += ms * 1_000


class _Selector(selectors.DefaultSelector):
    """Never waits for a timer, since the clock stands; waits a moment for threads where `patient`."""

    patient = False

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout > 0:
            timeout = 0.002 if self.patient else 0
        return super().select(timeout)


class GoldenLoop(asyncio.SelectorEventLoop):
    """See the module's head."""

    def __init__(self, clock: GoldenTime) -> None:
        self.clock = clock
        self._patience = _Selector()
        super().__init__(self._patience)
        self._clock_resolution = _RESOLUTION_S
        self._arrivals: dict[int, deque[Arrival]] = {}
        self._accepting: dict[int, asyncio.Future[None]] = {}
        self._threads: set[asyncio.Future[Any]] = set()
        self._held: list[Callable[[], None]] = []
        self.holds_threads = False

    def time(self) -> float:
        return self.clock.monotonic_ns / 1e9

    # Connections

    def arrive(self, port: int, arrival: Arrival) -> None:
        """A connection waits in the backlog of the listener that is bound to `port`."""
        self._arrivals.setdefault(port, deque()).append(arrival)
        waiter = self._accepting.pop(port, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def sock_accept(self, sock: Any) -> Any:
        port = sock.getsockname()[1]
        backlog = self._arrivals.setdefault(port, deque())
        while not backlog:
            waiter = self._accepting[port] = self.create_future()
            await waiter
        arrival = backlog.popleft()
        return arrival, arrival.peer

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:
        assert not any(options.values()), "TLS is not played here"
        protocol = protocol_factory()
        transport = PeerTransport(self, protocol, sock)
        self.call_soon(transport.begin)
        await asyncio.sleep(0)
        return transport, protocol

    # Threads

    def run_in_executor(  # type: ignore[override]  # of any arguments, which only a stub can say
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        if not self.holds_threads:
            future = super().run_in_executor(executor, func, *args)
            self._threads.add(future)
            future.add_done_callback(self._threads.discard)
            return future
        outcome: Future[Any] = Future()
        outcome.set_running_or_notify_cancel()

        def work() -> None:
            try:
                outcome.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  handed to whoever waits
                outcome.set_exception(error)

        self._held.append(work)
        return asyncio.wrap_future(outcome, loop=self)

    def release_threads(self) -> None:
        """What was held back is done now, in order."""
        self.holds_threads = False
        held, self._held = self._held, []
        for work in held:
            work()

    # Time

    def settle(self) -> None:
        """Runs what is ready, and what that makes ready, until nothing is left at this time."""
        for _ in ticking(PATIENCE_S, every_s=0):
            self._turn()
            if self._ready or self._is_due():  # type: ignore[attr-defined]
                pass
            elif self._threads:
                self._patience.patient = True
                self._turn()
                self._patience.patient = False
            else:
                return
        raise WaitedInVainError("the node to come to rest", self._threads)

    def until(self, condition: Callable[[], bool]) -> None:
        """Settles until `condition` holds: something that a thread of the node brings about."""

        def holds() -> bool:
            self.settle()
            return condition()

        wait_for(holds, "what a thread of the node brings about")

    def advance(self, ms: float) -> None:
        """Moves the clock by `ms`, stopping at every timer on the way."""
        end_ns = self.clock.monotonic_ns + round(ms * 1_000) * 1_000
        self.settle()
        while True:
            due_ns = self._next_timer_ns()
            if due_ns is None or due_ns > end_ns:
                break
            self._move_to(due_ns)
            self.settle()
        self._move_to(end_ns)
        self.settle()

    def complete(self, coroutine: Any) -> Any:
        """Runs a coroutine to its end; where all waits for a timer, the clock moves to it."""
        task = self.create_task(coroutine)
        rests = 0
        for _ in ticking(PATIENCE_S, every_s=0.002):  # between which a thread of the node's own may be at work
            self.settle()
            if task.done():
                return task.result()
            due_ns = self._next_timer_ns()
            rests += 1
            if rests > _RESTS and due_ns is not None:
                self._move_to(due_ns)
                rests = 0
        raise WaitedInVainError("the node to come to its end", task)

    def _turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def _is_due(self) -> bool:
        due_ns = self._next_timer_ns()
        return due_ns is not None and due_ns <= self.clock.monotonic_ns

    def _next_timer_ns(self) -> int | None:
        whens = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        return None if not whens else round(min(whens) * 1e6) * 1_000

    def _move_to(self, at_ns: int) -> None:
        self.clock.move(max(0, -(-(at_ns - self.clock.monotonic_ns) // 1_000)))
