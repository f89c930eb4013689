"""What pushes add up to on the page: deltas, cumulative sums, resets, repeats, gauges, distributions."""

import itertools
import math
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, AggregationTemporality, Metric
from support.payloads.client_series import (
    CUMULATIVE,
    LATENCY_ON_PAGE,
    REQUESTS,
    REQUESTS_ON_PAGE,
    attributes,
    counter,
    export,
    gauge,
    push,
    samples_of,
)

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter


def test_deltas_are_shown_as_the_sum_since_the_first(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)), push(2, counter(7)))
    export(exporter, push(3, counter(0.5)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 12.5


def test_a_cumulative_sum_is_shown_as_sent_until_it_falls(exporter: PrometheusExporter) -> None:
    for number, value, shown in ((1, 10.1, 10.1), (2, 15.3, 15.3), (3, 4, 19.3), (4, 6, 21.3)):
        export(exporter, push(number, counter(value, temporality=CUMULATIVE)))
        assert samples_of(exporter).one(REQUESTS_ON_PAGE) == pytest.approx(shown)
    assert samples_of(exporter).one("fleetgauge_prometheus_resets_total") == 1


def test_a_cumulative_sum_that_began_anew_is_a_reset_though_it_has_not_fallen(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(10, temporality=CUMULATIVE, start=100, at=160)))
    export(exporter, push(2, counter(12, temporality=CUMULATIVE, start=100, at=220)))
    export(exporter, push(3, counter(13, temporality=CUMULATIVE, start=230, at=280)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 25


def test_a_client_that_moves_its_start_with_every_push_is_not_reset_by_that(exporter: PrometheusExporter) -> None:
    for number in range(1, 4):
        moved = counter(10 * number, temporality=CUMULATIVE, start=100 + number, at=160 + 60 * number)
        export(exporter, push(number, moved))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 30


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_points_of_a_series_in_one_push_come_one_after_the_other_by_their_time(
    exporter: PrometheusExporter, order: tuple[int, ...]
) -> None:
    """Twice the same shape: the second push is not read by it."""
    for number in (1, 2):
        counts = (10 * number, 20 * number, 15 * number)  # the last one is a reset
        points = [
            each
            for place in order
            for each in (
                counter(counts[place], temporality=CUMULATIVE, start=9, at=100 * number + place),
                counter(1, name="app.deltas", start=9, at=100 * number + place),
                gauge((1, 9, 5)[place] * number, at=100 * number + place),
            )
        ]
        export(exporter, push(number, *points))
    found = samples_of(exporter)
    # 10, 20, 15 and 20, 40, 30: 20 before the first fall, 40 before the second.
    assert found.one(REQUESTS_ON_PAGE) == 20 + 40 + 30
    assert found.one("app_deltas_total") == 6
    assert found.one(LATENCY_ON_PAGE) == 10
    assert found.one("fleetgauge_prometheus_resets_total") == 2
    assert found.one("fleetgauge_prometheus_points_total") == 18


def test_a_count_that_began_anew_between_two_points_of_a_push_is_a_reset(exporter: PrometheusExporter) -> None:
    """Neither has the client pushed before, nor has the count fallen."""
    points = [counter(v, temporality=CUMULATIVE, start=s, at=a) for v, s, a in ((7, 120, 130), (5, 100, 110))]
    export(exporter, push(1, *points))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 12


@pytest.mark.parametrize("latest_first", [False, True])
def test_a_series_whose_latest_point_has_no_value_is_hidden_and_one_with_an_earlier_such_point_is_not(
    exporter: PrometheusExporter, latest_first: bool
) -> None:
    for number in range(1, 6):  # the later ones may be read by their shape
        points = [
            each for at in (1, 2) for each in (flagged("app.earlier", at, at == 1), flagged("app.last", at, at == 2))
        ]
        export(exporter, push(number, *(points[::-1] if latest_first else points)))
        found = samples_of(exporter)
        assert found.one("app_earlier_total") == number
        assert "app_last_total" not in found.names()
    export(exporter, push(6, counter(1, name="app.last", at=3)))
    assert samples_of(exporter).one("app_last_total") == 6


def flagged(name: str, at: float, without_value: bool) -> Metric:
    """A delta of 1, or no recorded value."""
    metric = counter(1, name=name, at=at)
    metric.sum.data_points[0].flags = int(without_value)
    return metric


def delta(value: float, **times: Any) -> Metric:
    return counter(value, **times)


def cumulative(value: float, **times: Any) -> Metric:
    return counter(value, temporality=CUMULATIVE, **times)


@pytest.mark.parametrize(
    ("pushed", "shown"),
    [
        ([delta(100), cumulative(105)], 105),
        ([delta(60, start=1, at=9), delta(40, start=9, at=20), cumulative(105, start=1, at=30)], 105),
        ([delta(100, start=1, at=20), cumulative(105, start=10, at=30)], 105),
        ([delta(100, start=1, at=20), cumulative(5, start=20, at=30)], 105),
        ([delta(100, start=1, at=20), cumulative(105, start=20, at=30)], 205),
        ([delta(100), cumulative(5)], 105),
        ([cumulative(100, start=1, at=20), delta(5, start=20, at=30), cumulative(110, start=1, at=40)], 110),
        ([cumulative(100), delta(5), cumulative(105), delta(2), cumulative(110)], 110),
        ([cumulative(100), cumulative(3), delta(5), cumulative(9), cumulative(1)], 110),
        ([cumulative(100), delta(5), delta(7)], 112),
    ],
)
def test_a_client_that_goes_over_from_deltas_to_cumulative_sums_or_back_goes_on_counting(
    exporter: PrometheusExporter, pushed: list[Metric], shown: float
) -> None:
    """A cumulative sum is the whole, unless it says that it began after the push before, or is less."""
    for number, metric in enumerate(pushed, start=1):
        export(exporter, push(number, metric))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == shown


def test_a_push_that_comes_again_is_counted_once(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)), push(1, counter(5)))
    assert export(exporter, push(1, counter(5)), push(2, counter(7))) == Delivered()
    found = samples_of(exporter)
    assert found.one(REQUESTS_ON_PAGE) == 12
    assert found.one("fleetgauge_prometheus_pushes_total") == 2
    assert found.one("fleetgauge_prometheus_repeated_pushes_total") == 2


def test_the_deltas_of_a_push_that_was_overtaken_count_and_its_gauges_do_not(exporter: PrometheusExporter) -> None:
    export(exporter, push(9, counter(5, at=900), gauge(3, at=900)))
    export(exporter, push(8, counter(7, at=840), gauge(4, at=840)))
    found = samples_of(exporter)
    assert (found.one(REQUESTS_ON_PAGE), found.one(LATENCY_ON_PAGE)) == (12, 3)
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="late") == 1


@pytest.mark.parametrize("start_s", [0, 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_delta_that_was_overtaken_is_left_out_of_a_series_that_has_been_cumulative(
    start: Any, start_s: int, restarted: bool
) -> None:
    """Also if its client sends no start, and if the latest points were deltas or without a value."""
    exporter = start()
    export(
        exporter, push(1, counter(10, temporality=CUMULATIVE, start=start_s, at=60), flagged("app.deltas", 60, True))
    )
    export(exporter, push(3, counter(1, at=180), flagged("app.deltas", 180, False)))
    export(exporter, push(4, flagged(REQUESTS, 240, True), flagged("app.deltas", 240, True)))
    if restarted:
        exporter.close()
        exporter = start()
    export(exporter, push(2, counter(7, at=120), counter(7, name="app.deltas", at=120)))
    export(exporter, push(5, counter(1, at=300), counter(1, name="app.deltas", at=300)))
    found = samples_of(exporter)
    assert (found.one(REQUESTS_ON_PAGE), found.one("app_deltas_total")) == (12, 9)
    assert [value for _, value in found.all("fleetgauge_prometheus_left_out_points_total", cause="late")] == [1]


def test_a_count_that_has_a_start_for_the_first_time_is_not_reset_by_it(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, cumulative(100, at=20)))
    export(exporter, push(2, cumulative(105, start=20, at=30)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 105


def test_a_missing_push_is_told_as_a_gap(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5, start=40, at=100)), push(2, counter(7, start=100, at=160)))
    assert samples_of(exporter).one("fleetgauge_prometheus_gaps_total") == 0
    export(exporter, push(3, counter(1, start=220, at=280)))
    found = samples_of(exporter)
    assert (found.one("fleetgauge_prometheus_gaps_total"), found.one(REQUESTS_ON_PAGE)) == (1, 13)


def test_a_gauge_shows_its_latest_value_and_nothing_where_nothing_was_recorded(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, gauge(3)), push(2, gauge(-math.inf)), push(2, gauge(8)))
    assert samples_of(exporter).one(LATENCY_ON_PAGE) == -math.inf
    export(exporter, push(3, gauge(math.nan), gauge(math.nan, name="app.other")))
    found = samples_of(exporter)
    assert found.all(LATENCY_ON_PAGE) == found.all("app_other") == []
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="no_value") == 2


def not_recorded(metric: Metric) -> Metric:
    """The same, flagged as without a value."""
    found = Metric.FromString(metric.SerializeToString())
    for point in getattr(found, found.WhichOneof("data") or "").data_points:
        point.flags = 1
    return found


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("gone", [gauge(math.nan), not_recorded(gauge(3))], ids=["NaN", "flag"])
def test_a_gauge_without_a_value_is_not_on_the_page_until_it_has_one_again(
    start: Any, gone: Metric, restarted: bool
) -> None:
    """Also where pushes are read by their shape, as from the fourth on."""
    exporter = start()
    for number in range(12):
        export(exporter, push(number, gauge(number), counter(1)))
    assert samples_of(exporter).one(LATENCY_ON_PAGE) == 11
    for number in range(12, 24):
        export(exporter, push(number, gone, counter(1)))
        if restarted and number == 12:
            exporter.close()
            exporter = start()
        found = samples_of(exporter)
        assert (found.all(LATENCY_ON_PAGE), found.one(REQUESTS_ON_PAGE)) == ([], number + 1)
    for number in range(24, 36):
        export(exporter, push(number, gauge(number), counter(1)))
        found = samples_of(exporter)
        assert (found.one(LATENCY_ON_PAGE), found.one(REQUESTS_ON_PAGE)) == (number, number + 1)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("pushed", "shown"),
    [
        ([delta(5), None, None, delta(7)], 12),
        ([cumulative(15, start=1, at=10), None, cumulative(20, start=1, at=30)], 20),
        ([cumulative(15, start=1, at=10), None, cumulative(20, start=20, at=30)], 35),
        ([cumulative(15), None, cumulative(3)], 18),
        ([cumulative(15), None, delta(3)], 18),
        ([delta(15), None, cumulative(20)], 20),
    ],
)
def test_a_counter_without_a_value_is_not_on_the_page_and_then_goes_on(
    start: Any, pushed: list[Metric | None], shown: float, restarted: bool
) -> None:
    exporter = start()
    for number, metric in enumerate(pushed):
        export(exporter, push(number, not_recorded(delta(0)) if metric is None else metric))
        if restarted:
            exporter.close()
            exporter = start()
        assert len(samples_of(exporter).all(REQUESTS_ON_PAGE)) == (metric is not None)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == shown


def test_a_push_that_was_overtaken_hides_nothing(exporter: PrometheusExporter) -> None:
    export(exporter, push(9, gauge(3, at=900), counter(5, at=900)))
    export(exporter, push(8, gauge(math.nan, at=840), counter(7, at=840)))
    found = samples_of(exporter)
    assert (found.one(LATENCY_ON_PAGE), found.one(REQUESTS_ON_PAGE)) == (3, 12)


def test_a_sum_that_may_fall_is_a_gauge(exporter: PrometheusExporter) -> None:
    for number, value in ((1, 5), (2, -7)):
        metric = counter(value, name="app.open.files")
        metric.sum.is_monotonic = False
        export(exporter, push(number, metric))
    found = samples_of(exporter)
    assert (found.one("app_open_files"), found.families["app_open_files"]) == (-2, "gauge")


def test_what_would_spoil_a_counter_for_good_is_left_out(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)), push(2, counter(math.inf)), push(3, counter(-1)))
    found = samples_of(exporter)
    assert found.one(REQUESTS_ON_PAGE) == 5
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="malformed") == 2


def histogram(
    counts: list[int],
    bounds: list[float],
    *,
    total: float | None,
    temporality: int = 1,
) -> Metric:
    metric = Metric(name="app.latency", unit="ms")
    metric.histogram.aggregation_temporality = AggregationTemporality.ValueType(temporality)
    metric.histogram.data_points.add(count=sum(counts), sum=total, bucket_counts=counts, explicit_bounds=bounds)
    return metric


def test_a_histograms_buckets_add_up(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, histogram([1, 2, 3], [10, 20], total=90)))
    export(exporter, push(2, histogram([0, 1, 0], [10, 20], total=15)))
    found = samples_of(exporter)
    name = "app_latency_milliseconds"
    assert [found.one(f"{name}_bucket", le=le) for le in ("10.0", "20.0", "+Inf")] == [1, 4, 7]
    assert (found.one(f"{name}_count"), found.one(f"{name}_sum")) == (7, 105)


@pytest.mark.parametrize(
    ("totals", "shown"),
    [
        ((90, None, 15), 105),
        ((None, 90, 15), 105),
        ((90, 15, None), 105),
        ((None, None, None), None),
        ((None, None, 15), 15),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_histogram_whose_sum_a_push_does_not_say_keeps_the_sum_of_the_others(
    start: Any, totals: tuple[float | None, ...], shown: float | None, restarted: bool
) -> None:
    exporter = start()
    for number, total in enumerate(totals):
        export(exporter, push(number, histogram([1, 2], [10], total=total)))
        if restarted:
            exporter.close()
            exporter = start()
    found = samples_of(exporter)
    assert found.one("app_latency_milliseconds_bucket", le="+Inf") == 9
    assert [value for _, value in found.all("app_latency_milliseconds_sum")] == ([] if shown is None else [shown])
    assert [value for _, value in found.all("app_latency_milliseconds_count")] == ([] if shown is None else [9])


def test_a_cumulative_histogram_without_a_sum_for_once_has_it_again(exporter: PrometheusExporter) -> None:
    """Also when it is reset meanwhile: its sum is that of what was said."""
    for number, total in enumerate((30, None, 40)):
        export(exporter, push(number, histogram([1, 2 + number], [10], total=total, temporality=CUMULATIVE)))
    assert samples_of(exporter).one("app_latency_milliseconds_sum") == 40
    for number, total in enumerate((None, 5), start=3):
        export(exporter, push(number, histogram([0, number - 2], [10], total=total, temporality=CUMULATIVE)))
    found = samples_of(exporter)
    assert (found.one("app_latency_milliseconds_sum"), found.one("app_latency_milliseconds_count")) == (45, 7)
    for number, (total, count) in enumerate(((None, 3), (2, 1)), start=5):
        export(exporter, push(number, histogram([0, count], [10], total=total, temporality=CUMULATIVE)))
    found = samples_of(exporter)
    assert (found.one("app_latency_milliseconds_sum"), found.one("app_latency_milliseconds_count")) == (42, 9)


def test_a_cumulative_histogram_that_was_reset_goes_on_from_where_it_was(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, histogram([1, 2], [10], total=30, temporality=CUMULATIVE)))
    export(exporter, push(2, histogram([0, 1], [10], total=11, temporality=CUMULATIVE)))
    found = samples_of(exporter)
    assert [found.one("app_latency_milliseconds_bucket", le=le) for le in ("10.0", "+Inf")] == [1, 4]


@pytest.mark.parametrize("last", [[0, 3], [1, 9], [4, 0]], ids=["same count", "higher count", "other bucket"])
def test_a_cumulative_histogram_of_which_a_bucket_falls_is_reset_as_a_whole(
    exporter: PrometheusExporter, last: list[int]
) -> None:
    """The buckets are compared to the counts and the deltas since."""
    export(exporter, push(1, histogram([1, 1], [10], total=20, temporality=CUMULATIVE)))
    export(exporter, push(2, histogram([1, 0], [10], total=5)))
    export(exporter, push(3, histogram([2, 1], [10], total=25, temporality=CUMULATIVE)))
    found = samples_of(exporter)
    assert found.one("fleetgauge_prometheus_resets_total") == 0
    export(exporter, push(4, histogram(last, [10], total=3, temporality=CUMULATIVE)))
    found = samples_of(exporter)
    assert [found.one("app_latency_milliseconds_bucket", le=le) for le in ("10.0", "+Inf")] == [
        2 + last[0],
        3 + sum(last),
    ]
    assert (found.one("app_latency_milliseconds_sum"), found.one("fleetgauge_prometheus_resets_total")) == (28, 1)


def test_an_exponential_histogram_that_lowers_its_scale_is_not_reset(exporter: PrometheusExporter) -> None:
    for number, one in enumerate((exponential(0, 0, [1, 1]), exponential(-1, 0, [3]), exponential(-1, 0, [2]))):
        one.exponential_histogram.aggregation_temporality = CUMULATIVE
        export(exporter, push(number, one))
        assert samples_of(exporter).one("fleetgauge_prometheus_resets_total") == (number == 2)
    assert samples_of(exporter).one("app_size_bucket", le="+Inf") == 5


def test_a_histogram_without_a_value_is_not_on_the_page_and_then_goes_on(exporter: PrometheusExporter) -> None:
    one = histogram([1, 2], [10], total=30)
    export(exporter, push(1, one))
    export(exporter, push(2, not_recorded(one)))
    assert samples_of(exporter).names() == set()
    export(exporter, push(3, one))
    assert samples_of(exporter).one("app_latency_milliseconds_count") == 6


def test_a_histogram_with_other_buckets_begins_anew(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, histogram([1, 2], [10], total=30)), push(2, histogram([4, 5], [50], total=99)))
    found = samples_of(exporter)
    buckets = found.all("app_latency_milliseconds_bucket")
    assert {labels["le"]: value for labels, value in buckets} == {"50.0": 4, "+Inf": 9}
    assert found.one("fleetgauge_prometheus_resets_total") == 1


@pytest.mark.parametrize(("counts", "bounds"), [([1, 2], [10, 20]), ([1, 2, 3], [20, 10]), ([1, 2], [math.inf])])
def test_a_histogram_that_makes_no_sense_is_left_out(
    exporter: PrometheusExporter, counts: list[int], bounds: list[float]
) -> None:
    export(exporter, push(1, histogram(counts, bounds, total=1)))
    found = samples_of(exporter)
    assert found.names() == set()
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="malformed") == 1


def exponential(scale: int, offset: int, counts: list[int], *, zeros: int = 0, negative: int = 0) -> Metric:
    metric = Metric(name="app.size")
    metric.exponential_histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    point = metric.exponential_histogram.data_points.add(scale=scale, zero_count=zeros, count=sum(counts) + zeros)
    point.positive.offset = offset
    point.positive.bucket_counts.extend(counts)
    if negative:
        point.negative.bucket_counts.append(negative)
    return metric


@pytest.mark.parametrize(
    ("scale", "value"), [(20, 3.0), (4, 3.0), (1, 3.0), (0, 3.0), (-1, 3.0), (0, 4.0), (0, 4.5), (3, 1e-9), (3, 1e15)]
)
def test_an_exponential_histogram_counts_a_value_in_the_power_of_two_above_it(
    exporter: PrometheusExporter, scale: int, value: float
) -> None:
    index = math.ceil(math.log2(value) * 2.0**scale) - 1  # OTLP: base^index < value <= base^(index + 1)
    export(exporter, push(1, exponential(scale, index, [1])))
    bounds = [
        float(labels["le"]) for labels, count in samples_of(exporter).all("app_size_bucket") if count and labels["le"]
    ]
    smallest = 2.0**-20
    expected = math.inf if value > 2.0**43 else max(smallest, 2.0 ** math.ceil(math.log2(value)))
    if scale < 0:
        expected = 4.0  # the bucket of values above 1 and up to 4
    assert min(bounds) == expected


def test_exponential_histograms_of_different_scales_add_up(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, exponential(1, 0, [1, 1, 1, 1], zeros=2)))  # up to 1.41, 2, 2.83, 4
    export(exporter, push(2, exponential(0, 1, [3], negative=1)))  # above 2 and up to 4
    found = samples_of(exporter)
    by_bound = {labels["le"]: value for labels, value in found.all("app_size_bucket")}
    assert (by_bound["1.0"], by_bound["2.0"], by_bound["4.0"], by_bound["+Inf"]) == (3, 5, 10, 10)


def test_a_summary_is_shown_as_sent(exporter: PrometheusExporter) -> None:
    metric = Metric(name="app.wait")
    point = metric.summary.data_points.add(count=4, sum=10)
    point.quantile_values.add(quantile=0.5, value=2)
    point.quantile_values.add(quantile=0.99, value=9)
    export(exporter, push(1, metric))
    found = samples_of(exporter)
    assert (found.one("app_wait", quantile="0.5"), found.one("app_wait", quantile="0.99")) == (2, 9)
    assert (found.one("app_wait_count"), found.one("app_wait_sum")) == (4, 10)


def test_of_distributions_below_0_is_told_what_openmetrics_has(exporter: PrometheusExporter) -> None:
    """Strict readers refuse a page with a sum that may fall, or with a quantile below 0."""
    metric = Metric(name="app.offset")
    point = metric.summary.data_points.add(count=4, sum=-10)
    point.quantile_values.add(quantile=0.5, value=-2)
    point.quantile_values.add(quantile=0.99, value=9)
    below = histogram([1, 2, 3], [-10, 20], total=90)
    export(exporter, push(1, metric, below))
    found = samples_of(exporter)
    assert math.isnan(found.one("app_offset", quantile="0.5"))
    assert (found.one("app_offset", quantile="0.99"), found.one("app_offset_count")) == (9, 4)
    assert found.one("app_latency_milliseconds_bucket", le="+Inf") == 6
    for missing in ("app_offset_sum", "app_latency_milliseconds_sum", "app_latency_milliseconds_count"):
        assert found.all(missing) == []


def test_a_malformed_push_is_refused_and_the_others_are_taken(exporter: PrometheusExporter) -> None:
    outcome = export(exporter, push(1, counter(5)), push(2)._replace(metrics=b"\x0a\xff"), push(3, counter(2)))
    assert isinstance(outcome, Delivered)
    assert [record.push_id for record in outcome.refused] == [push(2).push_id]
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 7


def test_a_push_with_too_many_points_is_cut_and_the_rest_counted(exporter: PrometheusExporter) -> None:
    metric = Metric(name="app.many")
    for number in range(20_010):
        attributes(metric.gauge.data_points.add(as_int=number), {"n": number % 7})
    export(exporter, push(1, metric))
    found = samples_of(exporter)
    assert len(found.all("app_many")) == 7
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="push_too_large") == 10


def test_a_clock_that_is_set_back_loses_nothing(exporter: PrometheusExporter, clock: MockTime) -> None:
    """The client's alone, then the node's alone."""
    export(exporter, push(10, counter(1, start=940, at=1_000)))
    export(exporter, push(11, counter(2, start=340, at=400)))
    export(exporter, push(5, counter(4, start=400, at=460)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 7
