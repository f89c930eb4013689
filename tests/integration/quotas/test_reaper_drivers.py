"""The drivers on real threads and loops: who is throttled is let go, once, and nobody is left at the end."""

import asyncio
import operator
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.quotas.quotas import CONFIG, Channel, session
from support.waiting import PATIENCE_S, wait_for, wait_for_async

from fleetgauge.base.clock import SystemTime
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.drivers.asyncio_reaper import AsyncioReaper
from fleetgauge.quotas.drivers.reaper_thread import ReaperThread
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.quota_type import QuotaType

pytestmark = pytest.mark.integration

FOR_EVER_MS = 2**31 - 1
CLOCK = SystemTime()


class Timed(Channel):
    """Knows for how long it was held, and on which thread it was let go."""

    def start_throttling(self) -> None:
        super().start_throttling()
        self.since_ms = CLOCK.hi_res_clock_ms()

    def end_throttling(self) -> None:
        self.held_ms = CLOCK.hi_res_clock_ms() - self.since_ms
        self.thread = threading.current_thread()
        super().end_throttling()


@pytest.fixture
def manager() -> ClientQuotaManager:
    return ClientQuotaManager(CONFIG, Metrics(), QuotaType.PRODUCE, SystemTime())


def throttle(manager: ClientQuotaManager, throttle_time_ms: int) -> Timed:
    channel = Timed()
    manager.throttle("app", session(), channel, throttle_time_ms)
    return channel


def test_a_thread_lets_go_whoever_is_due_and_at_shutdown_everybody(manager: ClientQuotaManager) -> None:
    before = throttle(manager, 5)
    driver = ReaperThread(manager.reaper, SystemTime())
    driver.start()
    for_ever = throttle(manager, FOR_EVER_MS)
    short = throttle(manager, 20)  # the thread sleeps for the one before, and has to be woken
    wait_for(
        lambda: (before.muted, short.muted), "the end of both throttles", until=lambda muted: muted == (False, False)
    )
    assert short.held_ms >= 19, "the clock is read in whole milliseconds"
    assert short.thread.name == "ThrottledChannelReaper-Produce"
    assert for_ever.muted
    driver.shutdown()
    late = throttle(manager, FOR_EVER_MS)
    assert [(channel.starts, channel.ends) for channel in (before, short, for_ever, late)] == [(1, 1)] * 4


def test_a_thread_balances_what_many_threads_throttle(manager: ClientQuotaManager) -> None:
    driver = ReaperThread(manager.reaper, SystemTime())
    driver.start()
    with ThreadPoolExecutor(8) as pool:
        channels = list(pool.map(lambda number: throttle(manager, number % 7), range(400)))
        wait_for(lambda: sum(channel.muted for channel in channels), "the end of every throttle", until=operator.not_)
        held = [pool.submit(throttle, manager, FOR_EVER_MS) for _ in range(200)]
        driver.shutdown()
        channels += [future.result(PATIENCE_S) for future in held]
    assert not any(channel.muted for channel in channels)
    size = manager._metrics.metric(manager._metrics.metric_name("queue-size", "Produce"))
    assert size is not None
    assert size.metric_value() == 0


def test_a_loop_lets_go_whoever_is_due_on_its_own_thread_and_at_shutdown_everybody(manager: ClientQuotaManager) -> None:
    async def run() -> None:
        before = throttle(manager, 5)
        driver = AsyncioReaper(manager.reaper, SystemTime())
        driver.start()
        for_ever = throttle(manager, FOR_EVER_MS)
        short = throttle(manager, 20)
        elsewhere = await asyncio.to_thread(throttle, manager, 10)
        await wait_for_async(
            lambda: [channel.muted for channel in (before, short, elsewhere)],
            "the end of three throttles",
            until=lambda muted: not any(muted),
        )
        assert short.held_ms >= 19, "the clock is read in whole milliseconds"
        assert elsewhere.thread is threading.current_thread()
        assert for_ever.muted
        driver.shutdown()
        late = throttle(manager, FOR_EVER_MS)
        channels = (before, short, elsewhere, for_ever, late)
        assert [(channel.starts, channel.ends) for channel in channels] == [(1, 1)] * 5

    asyncio.run(run())
