"""What blocks holds up neither the loop nor the next caller for long."""

import asyncio
import threading

import pytest

from base.errors import FleetgaugeError
from fleetgauge.off_loop import OffLoop


def test_what_a_call_returns_and_raises_comes_back() -> None:
    async def both() -> int:
        calls = OffLoop("a call", 30.0)
        with pytest.raises(ZeroDivisionError):
            await calls.run(lambda: 1 // 0)
        with pytest.raises(TimeoutError, match="its own"):
            await calls.run(lambda: (_ for _ in ()).throw(TimeoutError("its own")))
        return await calls.run(lambda: 7)

    assert asyncio.run(both()) == 7


def test_a_call_that_blocks_is_given_up_leaves_the_loop_free_and_is_not_begun_twice() -> None:
    held = threading.Event()

    async def blocked() -> int:
        calls, turns = OffLoop("reading", 0.2), 0
        waiting = asyncio.create_task(calls.run(held.wait))
        while not waiting.done():
            await asyncio.sleep(0.001)
            turns += 1
        with pytest.raises(FleetgaugeError, match="reading took longer than 0 s"):
            await waiting
        with pytest.raises(FleetgaugeError, match="started before and has not ended"):
            await calls.run(lambda: 1)
        held.set()
        while True:
            try:
                return turns if await calls.run(lambda: 1) else 0
            except FleetgaugeError:
                await asyncio.sleep(0.01)

    assert asyncio.run(blocked()) > 5
