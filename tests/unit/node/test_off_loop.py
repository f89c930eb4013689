"""What blocks holds up neither the loop nor the next caller for long."""

import asyncio
import threading

import pytest
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.off_loop import OffLoop


def test_what_a_call_returns_and_raises_comes_back() -> None:
    async def both() -> int:
        calls = OffLoop("a call", PATIENCE_S)
        with pytest.raises(ZeroDivisionError):
            await calls.run(lambda: 1 // 0)
        with pytest.raises(TimeoutError, match="its own"):
            await calls.run(lambda: (_ for _ in ()).throw(TimeoutError("its own")))
        return await calls.run(lambda: 7)

    assert asyncio.run(both()) == 7


def test_a_call_that_blocks_is_given_up_leaves_the_loop_free_and_is_not_begun_twice() -> None:
    begun, held = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        held.wait()

    async def blocked() -> int:
        calls = OffLoop("reading", 0.2)
        waiting = asyncio.create_task(calls.run(call))
        await wait_for_async(begun.is_set, "the call to begin")
        turns = 0
        for _ in range(10):  # while the call blocks
            await asyncio.sleep(0)
            turns += 1
        with pytest.raises(FleetgaugeError, match="reading took longer than 0 s"):
            await waiting
        with pytest.raises(FleetgaugeError, match="started before and has not ended"):
            await calls.run(lambda: 1)
        held.set()
        await wait_for_async(lambda: calls.is_busy, "the call to end", until=lambda busy: not busy)
        calls._within_s = PATIENCE_S
        return turns if await calls.run(lambda: 1) else 0

    assert asyncio.run(blocked()) > 5
