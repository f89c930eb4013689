import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime, SystemTime, Time
from fleetgauge.quotas import (
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionThrottledError,
    TooManyConnectionsError,
    Wait,
)
from fleetgauge.quotas.drivers.asyncio_connections import AsyncioConnectionQuotas
from fleetgauge.quotas.drivers.blocking_connections import BlockingConnectionQuotas
from fleetgauge.quotas.metrics.metrics import Metrics

EXTERNAL, ALICE = "EXTERNAL", "192.0.2.1"


def made(time: Time | None = None, **limits: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(ConnectionQuotaConfig(**limits), Metrics(time=time or SystemTime()))
    quotas.add_listener(EXTERNAL)
    return quotas


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_S))


@asynccontextmanager
async def acceptor(quotas: ConnectionQuotas, time: Time | None = None) -> AsyncIterator[AsyncioConnectionQuotas]:
    driver = AsyncioConnectionQuotas(quotas, time or SystemTime(), asyncio.get_running_loop())
    yield driver
    driver.close()
    assert not driver._waiting, "nobody who stopped waiting is remembered"


async def begun(waits: list[Wait]) -> None:
    while not waits:
        await asyncio.sleep(0)


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_a_task_that_waits_is_let_in_when_another_connection_ends(in_a_thread: bool) -> None:
    async def main() -> None:
        quotas = made(max_connections=1)
        async with acceptor(quotas) as driver:
            first = await driver.inc(EXTERNAL, ALICE)
            waits: list[Wait] = []
            waiting = asyncio.create_task(driver.inc(EXTERNAL, ALICE, waits.append))
            await begun(waits)
            assert waits == [Wait(None)]
            if in_a_thread:
                thread = threading.Thread(target=driver.dec, args=(first,))
                thread.start()
                thread.join()
            else:
                driver.dec(first)
            assert (await waiting).is_counted
            assert quotas.total_count == 1

    run(main())


def test_a_task_that_waits_for_the_rate_is_let_in_by_the_clock() -> None:
    async def main() -> None:
        clock = MockTime()
        quotas = made(clock, max_connection_creation_rate=10)
        async with acceptor(quotas, clock) as driver:
            for _ in range(100):
                await driver.inc(EXTERNAL, ALICE)
            waits: list[Wait] = []
            waiting = asyncio.create_task(driver.inc(EXTERNAL, ALICE, waits.append))
            await begun(waits)
            assert waits[0].ms is not None
            assert 0 < waits[0].ms <= 100
            clock.sleep(waits[0].ms)
            assert (await waiting).is_counted

    run(main())


def test_a_wait_that_is_given_up_leaves_nothing_counted() -> None:
    async def main() -> None:
        quotas = made(max_connections=1)
        async with acceptor(quotas) as driver:
            first = await driver.inc(EXTERNAL, ALICE)
            waits: list[Wait] = []
            waiting = asyncio.create_task(driver.inc(EXTERNAL, ALICE, waits.append))
            await begun(waits)
            waiting.cancel()
            await asyncio.wait([waiting])
            driver.dec(first)
            assert (quotas.total_count, quotas.get(ALICE)) == (0, 0)

    run(main())


def test_both_drivers_raise_what_the_quotas_refuse() -> None:
    async def main() -> None:
        quotas = made(max_connections_per_ip_overrides={ALICE: 0})
        blocking = BlockingConnectionQuotas(quotas, SystemTime())
        async with acceptor(quotas) as driver:
            with pytest.raises(TooManyConnectionsError):
                await driver.inc(EXTERNAL, ALICE)
            with pytest.raises(TooManyConnectionsError):
                blocking.inc(EXTERNAL, ALICE)
            quotas.update_ip_connection_rate_quota(ALICE, 0)
            with pytest.raises(ConnectionThrottledError):
                await driver.inc(EXTERNAL, ALICE)
            with pytest.raises(ConnectionThrottledError):
                blocking.inc(EXTERNAL, ALICE)
        assert quotas.total_count == 0

    run(main())
