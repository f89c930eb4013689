"""Reporters that block, each on its own thread: the loop and the other reporters go on."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.node.listener.reporter_thread import ReporterBusyError, ReporterThread

Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def thread() -> Iterator[ReporterThread]:
    made = ReporterThread("Slow")
    yield made
    made.close()


class Blocking:
    """A call that has begun and does not return until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.let_go.wait(PATIENCE_S)


def test_a_call_that_blocks_holds_up_neither_the_loop_nor_another_reporter(thread: ReporterThread) -> None:
    async def scenario() -> None:
        blocking, other = Blocking(), ReporterThread("Quick")
        held = asyncio.ensure_future(thread.run(blocking))
        await wait_for_async(blocking.begun.is_set, "the call to begin")
        await asyncio.wait_for(other.run(lambda: None), PATIENCE_S)
        assert not held.done()
        blocking.let_go.set()
        await held
        other.close()

    asyncio.run(scenario())


def test_calls_keep_their_order_and_what_they_return_runs_on_the_loop(thread: ReporterThread) -> None:
    seen: list[tuple[str, int, int]] = []

    async def later(number: int) -> None:
        seen.append(("loop", number, threading.get_ident()))

    def call(number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        def function() -> Coroutine[Any, Any, None]:
            seen.append(("thread", number, threading.get_ident()))
            return later(number)

        return function

    async def scenario() -> None:
        await asyncio.gather(*(thread.run(call(number)) for number in range(20)))

    asyncio.run(scenario())
    assert [number for where, number, _ in seen if where == "thread"] == list(range(20))
    assert len({ident for where, _, ident in seen if where == "thread"}) == 1
    assert {ident for where, _, ident in seen if where == "loop"} == {threading.get_ident()}


@pytest.mark.parametrize("raised", [ValueError("boom"), SystemExit("boom"), StopIteration("boom")])
def test_what_a_call_raises_is_raised_where_it_is_awaited_and_the_next_call_is_made(
    thread: ReporterThread, raised: BaseException
) -> None:
    async def scenario() -> None:
        def bad() -> None:
            raise raised

        with pytest.raises(Exception, match="boom"):
            await thread.run(bad)
        await thread.run(lambda: None)

    asyncio.run(scenario())


def test_a_call_given_up_before_its_turn_is_never_made_and_what_it_holds_is_freed(thread: ReporterThread) -> None:
    class Payload:
        pass

    async def scenario() -> None:
        blocking, made = Blocking(), []
        held = asyncio.ensure_future(thread.run(blocking))
        await wait_for_async(blocking.begun.is_set, "the call to begin")
        payload = Payload()
        freed = weakref.ref(payload)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(thread.run(lambda payload=payload: made.append(payload)), 0.01)  # type: ignore[misc]
        del payload
        await asyncio.sleep(0)  # until then Python 3.13 keeps the arguments of what timed out
        gc.collect()
        assert freed() is None
        blocking.let_go.set()
        await held
        await thread.run(lambda: None)
        assert made == []

    asyncio.run(scenario())


def test_a_coroutine_that_comes_too_late_is_closed_and_not_run(thread: ReporterThread) -> None:
    ran: list[str] = []

    async def later() -> None:
        ran.append("later")

    async def scenario() -> None:
        blocking = Blocking()

        def slow() -> Coroutine[Any, Any, None]:
            blocking()
            return later()

        held = asyncio.ensure_future(thread.run(slow))
        await wait_for_async(blocking.begun.is_set, "the call to begin")
        held.cancel()
        blocking.let_go.set()
        await thread.run(lambda: None)

    asyncio.run(scenario())
    assert ran == []


def test_a_coroutine_that_comes_in_the_moment_of_giving_up_is_closed_and_not_run(thread: ReporterThread) -> None:
    ran: list[str] = []

    async def later() -> None:
        ran.append("later")

    async def scenario() -> None:
        first, second = Blocking(), Blocking()

        def slow() -> Coroutine[Any, Any, None]:
            first()
            return later()

        held = asyncio.ensure_future(thread.run(slow))
        following = asyncio.ensure_future(thread.run(second))
        await wait_for_async(first.begun.is_set, "the first call to begin")
        first.let_go.set()
        assert second.begun.wait(
            PATIENCE_S
        )  # so the answer of the first lies in the loop's queue, before what comes now
        asyncio.get_running_loop().call_soon(held.cancel)
        second.let_go.set()
        await following
        assert held.cancelled()

    asyncio.run(scenario())
    gc.collect()
    assert ran == []


def test_beyond_the_bound_a_call_fails_at_once_and_below_it_again_not(
    thread: ReporterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetgauge.node.listener.reporter_thread.MAX_WAITING", 2)

    async def scenario() -> None:
        blocking = Blocking()
        held = [asyncio.ensure_future(thread.run(blocking)) for _ in range(2)]
        await wait_for_async(blocking.begun.is_set, "the call to begin")
        with pytest.raises(ReporterBusyError, match="2 calls wait for the reporter Slow"):
            await thread.run(lambda: None)
        blocking.let_go.set()
        await asyncio.gather(*held)
        await thread.run(lambda: None)

    asyncio.run(scenario())


def test_the_end_of_the_loop_does_not_wait_for_a_call_that_never_returns() -> None:
    thread, blocking = ReporterThread("Stuck"), Blocking()

    async def scenario() -> None:
        held = asyncio.ensure_future(thread.run(blocking))
        await wait_for_async(blocking.begun.is_set, "the call to begin")
        held.cancel()

    asyncio.run(scenario())
    blocking.let_go.set()
    thread.close()
