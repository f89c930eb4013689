import math

import pytest

from fleetgauge.quotas import (
    Avg,
    CumulativeCount,
    CumulativeSum,
    Max,
    Meter,
    Min,
    Rate,
    SampledStat,
    SimpleRate,
    Value,
    WindowedCount,
    WindowedSum,
)
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.stats.stat import TimeUnit

CONFIG = MetricConfig(samples=2, time_window_ms=1_000)


@pytest.mark.parametrize(
    ("stat", "expected"),
    [(WindowedSum(), 9.0), (WindowedCount(), 3.0), (Avg(), 3.0), (Max(), 5.0), (Min(), 1.0)],
    ids=lambda value: type(value).__name__,
)
def test_every_windowed_statistic_covers_all_live_windows(stat: SampledStat, expected: float) -> None:
    for value, at_ms in ((1.0, 0), (5.0, 500), (3.0, 1_200)):
        stat.record(CONFIG, value, at_ms)
    assert stat.measure(CONFIG, 1_900) == expected


@pytest.mark.parametrize("stat", [Avg(), Max(), Min()], ids=lambda value: type(value).__name__)
def test_an_average_or_extreme_of_nothing_is_no_number(stat: SampledStat) -> None:
    assert math.isnan(stat.measure(CONFIG, 0))
    stat.record(CONFIG, 4.0, 0)
    assert stat.measure(CONFIG, 0) == 4.0
    assert math.isnan(stat.measure(CONFIG, 2_000)), "both windows went by without a record"


@pytest.mark.parametrize("stat", [WindowedSum(), WindowedCount()], ids=lambda value: type(value).__name__)
def test_a_sum_or_count_of_nothing_is_zero(stat: SampledStat) -> None:
    assert stat.measure(CONFIG, 0) == 0.0
    stat.record(CONFIG, 1.0, 0)
    assert stat.measure(CONFIG, 1_999) == 1.0
    assert stat.measure(CONFIG, 2_000) == 0.0


def test_extremes_of_negative_values_are_negative() -> None:
    greatest, least = Max(), Min()
    for value in (-3.0, -1.0, -2.0):
        greatest.record(CONFIG, value, 0)
        least.record(CONFIG, value, 0)
    assert (greatest.measure(CONFIG, 0), least.measure(CONFIG, 0)) == (-1.0, -3.0)


def test_a_sample_whose_last_record_is_within_the_monitored_time_counts_whole() -> None:
    stat = WindowedSum()
    stat.record(CONFIG, 10.0, 0)
    stat.record(CONFIG, 1.0, 900)
    assert stat.measure(CONFIG, 2_899) == 11.0, "the window began before, but ends inside"
    assert stat.measure(CONFIG, 2_900) == 0.0


def test_one_sample_more_than_asked_is_kept_for_the_window_that_overlaps() -> None:
    stat = WindowedSum()
    for value, at_ms in ((1.0, 0), (2.0, 999), (4.0, 1_000), (8.0, 2_000)):
        stat.record(CONFIG, value, at_ms)
    assert stat.measure(CONFIG, 2_500) == 15.0


def test_a_full_ring_reuses_its_oldest_sample() -> None:
    stat = WindowedSum()
    for second in range(10):
        stat.record(CONFIG, 2.0**second, second * 1_000)
    assert stat.measure(CONFIG, 9_000) == 2.0**9 + 2.0**8


def test_a_window_is_full_after_its_number_of_events() -> None:
    config = MetricConfig(samples=2, time_window_ms=1_000_000, event_window=2)
    stat = WindowedSum()
    for event in range(7):
        stat.record(config, 10.0**event, 0)
    assert stat.measure(config, 0) == 1_111_100.0, "three samples of two events, the last of them with one"


def test_the_rate_of_the_documents_example_stays_up_until_the_burst_is_dropped() -> None:
    config = MetricConfig(samples=100, time_window_ms=1_000)
    rate = Rate()
    for at_ms, mutations in ((0, 0.0), (500, 0.0), (99_000, 560.0)):
        rate.record(config, mutations, at_ms)
    assert rate.measure(config, 100_000) == 5.6
    assert rate.measure(config, 112_000) > 5.0, "12 s later, when a token bucket would be back"
    assert rate.measure(config, 198_999) > 0.0
    assert rate.measure(config, 199_000) == 0.0, "100 s after the burst"


def test_missing_windows_count_as_time_in_a_rate() -> None:
    rate = Rate()
    for at_ms in (0, 30, 60):
        rate.record(CONFIG, 1.0, at_ms)
    assert rate.window_size(CONFIG, 60) == 1_060
    assert rate.measure(CONFIG, 60) == pytest.approx(3 / 1.060)


def test_the_padding_shrinks_as_full_windows_come_in() -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000)
    rate = Rate()
    rate.record(config, 100.0, 0)
    spans = {now_ms: rate.window_size(config, now_ms) for now_ms in (0, 999, 1_000, 5_500, 9_999, 10_000, 10_999)}
    assert spans == {
        0: 10_000,
        999: 10_999,
        1_000: 10_000,
        5_500: 10_500,
        9_999: 10_999,
        10_000: 10_000,
        10_999: 10_999,
    }


def test_a_rate_after_a_pause_is_padded_like_a_first_one() -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000)
    rate = Rate()
    rate.record(config, 100.0, 0)
    rate.record(config, 100.0, 3_600_000)
    assert rate.measure(config, 3_600_000) == 10.0


def test_a_rate_of_one_sample_divides_by_a_millisecond_at_least() -> None:
    config = MetricConfig(samples=1, time_window_ms=1_000)
    rate = Rate()
    rate.record(config, 2.0, 50)
    assert rate.window_size(config, 50) == 1
    assert rate.measure(config, 50) == 2_000.0


def test_a_clock_read_just_before_the_window_began_does_not_upset_a_rate() -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000)
    rate = Rate()
    rate.record(config, 50.0, 1_000)
    rate.record(config, 50.0, 998)
    assert rate.window_size(config, 998) == 9_998
    assert rate.measure(config, 1_000) == 10.0


@pytest.mark.parametrize(
    ("unit", "expected"), [(TimeUnit.MILLISECONDS, 0.01), (TimeUnit.SECONDS, 10.0), (TimeUnit.MINUTES, 600.0)]
)
def test_a_rate_is_per_its_unit(unit: TimeUnit, expected: float) -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000)
    rate = Rate(unit)
    rate.record(config, 100.0, 0)
    assert rate.measure(config, 0) == pytest.approx(expected)


def test_a_rate_of_events_does_not_see_their_values() -> None:
    rate = Rate(stat=WindowedCount())
    for _ in range(5):
        rate.record(CONFIG, 1_000.0, 0)
    assert rate.measure(CONFIG, 0) == 5.0


def test_a_simple_rate_divides_by_the_time_that_went_by_and_one_window_at_least() -> None:
    rate = SimpleRate()
    rate.record(MetricConfig(samples=10, time_window_ms=1_000), 10.0, 0)
    spans = [rate.window_size(MetricConfig(samples=10, time_window_ms=1_000), at_ms) for at_ms in (0, 60, 1_000, 4_321)]
    assert spans == [1_000, 1_000, 1_000, 4_321]
    assert rate.measure(MetricConfig(samples=10, time_window_ms=1_000), 4_000) == 2.5


def test_more_samples_come_into_use_as_recording_goes_on() -> None:
    stat = WindowedSum()
    for second in range(4):
        stat.record(CONFIG, 1.0, second * 1_000)
    more = MetricConfig(samples=11, time_window_ms=1_000)
    for second in range(4, 21):
        stat.record(more, 1.0, second * 1_000)
    assert stat.measure(more, 20_000) == 11.0


def test_fewer_samples_drop_what_is_out_of_the_smaller_window() -> None:
    more = MetricConfig(samples=11, time_window_ms=1_000)
    stat = WindowedSum()
    for second in range(11):
        stat.record(more, 1.0, second * 1_000)
    assert stat.measure(more, 10_500) == 11.0
    assert stat.measure(CONFIG, 10_500) == 2.0
    stat.record(CONFIG, 1.0, 11_000)
    assert stat.measure(CONFIG, 11_000) == 2.0


def test_totals_never_forget() -> None:
    total, count, last = CumulativeSum(), CumulativeCount(), Value()
    for value, at_ms in ((2.0, 0), (3.0, 10**9)):
        for stat in (total, count, last):
            stat.record(CONFIG, value, at_ms)
    assert [stat.measure(CONFIG, 10**10) for stat in (total, count, last)] == [5.0, 2.0, 3.0]
    assert Value().measure(CONFIG, 0) == 0.0
    assert CumulativeSum(7.0).measure(CONFIG, 0) == 7.0


def meter_values(meter: Meter, now_ms: int) -> dict[str, float]:
    return {name.name: stat.measure(CONFIG, now_ms) for name, stat in meter.stats()}


RATE, TOTAL = MetricName("push-rate", "g"), MetricName("push-count", "g")


def test_a_meter_gives_a_rate_of_now_and_a_total_since_the_start() -> None:
    meter = Meter(RATE, TOTAL)
    meter.record(CONFIG, 4.0, 0)
    meter.record(CONFIG, 2.0, 10_000)
    assert meter_values(meter, 10_000) == {"push-count": 6.0, "push-rate": 2.0}


def test_a_counting_meter_counts_in_both_measures() -> None:
    meter = Meter(RATE, TOTAL, rate_stat=WindowedCount())
    meter.record(CONFIG, 400.0, 0)
    meter.record(CONFIG, 200.0, 0)
    assert meter_values(meter, 0) == {"push-count": 2.0, "push-rate": 2.0}


def test_a_meter_of_something_else_than_a_sum_is_refused() -> None:
    with pytest.raises(TypeError, match=r"WindowedSum\b.*\bAvg"):
        Meter(RATE, TOTAL, rate_stat=Avg())  # type: ignore[arg-type]


def test_a_window_whose_last_record_came_from_before_it_began_is_obsolete_by_that_record() -> None:
    """Found by Kafka's own class: a purge of another window in between must not lose the older time."""
    config = MetricConfig(samples=2, time_window_ms=125)
    stat = WindowedSum()
    stat.record(config, 1.0, 0)
    stat.record(config, 10.0, 200)
    stat.record(config, 20.0, 180)
    assert stat.measure(config, 420) == 30.0, "the first window is obsolete"
    stat.record(config, 5.0, 429)
    assert stat.measure(config, 429) == 35.0
    assert stat.measure(config, 430) == 5.0, "250 ms after its last record, which says 180"
