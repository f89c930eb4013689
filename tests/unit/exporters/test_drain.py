"""After an outage: in order, as fast as the destination takes it or at the rate that was set."""

import pytest
from support.programs.pipelines import RECORD, Destination, Log, Rig, answers

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import BatchSettings, Delivered, Outcome, Retry
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

RATE = 1_000


def pushes(count: int, *, age_ms: int, size_bytes: int = 100, first: int = 0) -> list[PushRecord]:
    """Pushes that came `age_ms` before the test's clock begins."""
    received_at = (MockTime().milliseconds() - age_ms) * 1_000
    return [
        RECORD._replace(push_id=f"{number:032x}", received_at=received_at, metrics=b"m" * size_bytes)
        for number in range(first, first + count)
    ]


def backlog(batches: int, *, age_ms: int = 3_600_000, size_bytes: int = 100) -> list[list[PushRecord]]:
    return [pushes(10, age_ms=age_ms, size_bytes=size_bytes, first=10 * number) for number in range(batches)]


def destination(max_bytes: int = 1_000) -> Destination:
    made = Destination()
    made.batch = BatchSettings(max_bytes=max_bytes, max_records=10, linger_ms=200)
    return made


def test_without_a_rate_it_drains_without_a_pause() -> None:
    rig = Rig(Log(*backlog(50)), destination()).run()
    assert rig.pauses == []
    assert rig.destination.got == [f"{number:032x}" for number in range(500)]


def test_a_rate_is_kept_on_the_average_and_in_order() -> None:
    """120 batches of 1,000 B at 1,000 B/s: the clock moves by two minutes, of which eleven seconds may go ahead."""
    rig = Rig(Log(*backlog(120)), destination(), drain_rate_bytes=RATE).run()
    assert 105_000 <= sum(rig.pauses) <= 125_000
    assert rig.destination.got == [f"{number:032x}" for number in range(1_200)]
    assert len(rig.log.committed) == 120


def test_a_batch_larger_than_the_rate_waits_in_proportion() -> None:
    """Twenty batches of 16 kB at 1,000 B/s are 320 s of traffic, however few they are."""
    rig = Rig(Log(*backlog(20, size_bytes=1_600)), destination(16_000), drain_rate_bytes=RATE).run()
    assert 250_000 <= sum(rig.pauses) <= 340_000


def test_what_is_in_step_with_the_log_is_never_held_back() -> None:
    rig = Rig(Log(*backlog(100, age_ms=5_000)), destination(), drain_rate_bytes=RATE).run()
    assert rig.pauses == []


def test_once_the_backlog_is_gone_new_pushes_go_at_once() -> None:
    log = Log(*backlog(30), *(pushes(10, age_ms=-60_000, first=1_000 + 10 * n) for n in range(30)))
    rig = Rig(log, destination(), drain_rate_bytes=RATE)
    paused: list[int] = []
    rig.destination.decide = lambda batch: paused.append(len(rig.pauses)) or Delivered()  # type: ignore[func-returns-value]
    rig.run()
    assert paused[29] > 100
    assert paused[30:] == [paused[29]] * 30


def test_a_stop_does_not_wait_for_the_rate() -> None:
    log = Log(*backlog(60))
    rig = Rig(log, destination(), drain_rate_bytes=RATE)

    def stop_at_the_second(batch: Batch) -> Outcome:
        if rig.destination.exports == 2:
            rig.pipeline.request_stop(3_000)
        return Delivered()

    rig.destination.decide = stop_at_the_second
    before_ms = rig.time.hi_res_clock_ms()
    rig.run()
    assert rig.time.hi_res_clock_ms() - before_ms <= 20_000
    assert 2 <= len(log.committed) < 60


def test_an_outage_costs_nothing_of_the_rate() -> None:
    """What is tried again is not counted again."""
    away = [Retry(reason="unavailable")] * 20
    rig = Rig(Log(*backlog(8)), destination(), drain_rate_bytes=RATE)
    rig.destination.decide = answers(*away)
    rig.run()
    assert rig.pipeline.stats().delivered_records == 80
    assert 100 not in rig.pauses[20:], "eight batches fit into the windows that the outage left empty"


@pytest.mark.parametrize("rate", [1, 10**12])
def test_any_rate_can_be_kept(rate: int) -> None:
    rig = Rig(Log(*backlog(2, size_bytes=1)), destination(10), drain_rate_bytes=rate).run()
    assert rig.pipeline.stats().delivered_records == 20
