"""What sums grew by, series by series, in one run and over several."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertSchemaEqual

from fleet.schemas import POINTS, SENT_POINTS, SERIES
from fleet.silver.deltas import latest, mark
from fleet.small_tables import table

SECOND_NANO = 1_000_000_000
MARKS = ("delta", "reset", "gap", "before_subscription", "late")
COLUMNS = "received_at metric_name metric_type temporality is_monotonic value start_time_unix_nano time_unix_nano"


def delta_point(received_at: str, value: float | None, start_s: float | None, end_s: float, **more: Any) -> Row:
    """A point of a delta sum; times by the client's own clock, which is nobody else's."""
    start = None if start_s is None else int(start_s * SECOND_NANO)
    given = (received_at, "m", "sum", "delta", True, value, start, int(end_s * SECOND_NANO))
    return Row(**dict(zip(COLUMNS.split(), given, strict=True)) | more)


def cumulative_point(received_at: str, value: float, **more: Any) -> Row:
    given = (received_at, "m", "sum", "cumulative", True, value, None, None)
    return Row(**dict(zip(COLUMNS.split(), given, strict=True)) | more)


def sent(spark: SparkSession, *points: Row) -> DataFrame:
    names = list(dict.fromkeys(name for point in points for name in point.asDict()))
    usual = {"client_instance_id": "one", "attributes": {}, "occurrence": 0}
    rows = [tuple((usual | point.asDict()).get(name) for name in names) for point in points]
    return table(spark, SENT_POINTS, " ".join(names), *rows)


def marks(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Of each point in the order of its receipt."""
    return [tuple(row[name] for name in MARKS) for row in frame.orderBy("received_at", "push_id").collect()]


def test_deltas_that_follow_one_another_are_as_sent_and_the_first_reaches_back(spark: SparkSession) -> None:
    frame = sent(
        spark,
        delta_point("12:00:00", 90.0, 0, 3600),
        delta_point("12:01:00", 4.0, 3600, 3660),
        delta_point("12:02:00", 5.0, 3660.05, 3720),
    )
    assert marks(mark(frame)) == [
        (90.0, False, False, True, False),
        (4.0, False, False, False, False),
        (5.0, False, False, False, False),
    ]
    assertSchemaEqual(mark(frame).schema, POINTS)


def test_a_series_that_begins_between_two_pushes_reaches_back_no_further(spark: SparkSession) -> None:
    (found,) = marks(mark(sent(spark, delta_point("12:00:00", 2.0, 3560, 3600))))
    assert found == (2.0, False, False, False, False)


@pytest.mark.parametrize(("start_s", "gap"), [(3600, False), (3620, True), (None, False)])
def test_a_delta_that_begins_after_the_one_before_ended_has_a_gap(
    spark: SparkSession, start_s: float | None, gap: bool
) -> None:
    frame = sent(spark, delta_point("12:00:00", 1.0, 3540, 3600), delta_point("12:01:00", 1.0, start_s, 3660))
    assert marks(mark(frame))[1] == (1.0, False, gap, False, False)


def test_a_delta_without_a_start_has_a_gap_when_a_push_is_missing_by_the_interval(spark: SparkSession) -> None:
    frame = sent(spark, delta_point("12:00:00", 1.0, 3540, 3600), delta_point("12:02:00", 1.0, None, 3720))
    assert marks(mark(frame))[1] == (1.0, False, True, False, False)


def test_a_delta_that_covers_again_what_was_counted_says_so(spark: SparkSession) -> None:
    """A Java client that asks anew for its subscription may count from its start again."""
    frame = sent(spark, delta_point("12:00:00", 7.0, 3540, 3600), delta_point("12:01:00", 99.0, 0, 3660))
    assert marks(mark(frame))[1] == (99.0, False, False, True, False)


def test_a_cumulative_sum_that_falls_was_reset_and_one_that_may_fall_was_not(spark: SparkSession) -> None:
    counter = sent(spark, cumulative_point("12:00:00", 10.0), cumulative_point("12:01:00", 4.0))
    assert marks(mark(counter))[1] == (4.0, True, False, False, False)
    level = [cumulative_point(at, value, is_monotonic=False) for at, value in (("12:00:00", 10.0), ("12:01:00", 4.0))]
    assert marks(mark(sent(spark, *level)))[1] == (-6.0, False, False, False, False)


def test_a_cumulative_sum_that_begins_later_was_reset_though_it_is_larger(spark: SparkSession) -> None:
    times = {"start_time_unix_nano": 0, "time_unix_nano": 60 * SECOND_NANO}
    later = {"start_time_unix_nano": 70 * SECOND_NANO, "time_unix_nano": 120 * SECOND_NANO}
    frame = sent(spark, cumulative_point("12:00:00", 10.0, **times), cumulative_point("12:01:00", 12.0, **later))
    assert marks(mark(frame)) == [(10.0, False, False, False, False), (12.0, True, False, False, False)]


def test_series_are_told_by_instance_metric_attributes_and_occurrence(spark: SparkSession) -> None:
    others: list[dict[str, Any]] = [
        {"client_instance_id": "two"},
        {"principal": "User:other"},
        {"metric_name": "n"},
        {"attributes": {"node_id": "node-1"}},
        {"occurrence": 1},
    ]
    points = [cumulative_point("12:00:00", 10.0), *(cumulative_point("12:01:00", 99.0, **other) for other in others)]
    points = [Row(**{"principal": "User:app"} | point.asDict()) for point in points]
    found = mark(sent(spark, *points, cumulative_point("12:01:00", 11.0, principal="User:app"))).collect()
    assert sorted(row.delta for row in found) == [1.0, 10.0, 99.0, 99.0, 99.0, 99.0, 99.0]


def test_attributes_in_another_order_are_the_same_series(spark: SparkSession) -> None:
    one, other = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    frame = sent(
        spark, cumulative_point("12:00:00", 10.0, attributes=one), cumulative_point("12:01:00", 11.0, attributes=other)
    )
    assert latest(frame).count() == 1


def test_what_has_no_value_and_what_is_no_sum_is_not_compared(spark: SparkSession) -> None:
    frame = sent(
        spark,
        cumulative_point("12:00:00", 10.0),
        Row(**cumulative_point("12:01:00", 0.0).asDict() | {"value": None}),
        Row(**cumulative_point("12:01:00", 3.0).asDict() | {"metric_type": "gauge", "temporality": None}),
        Row(**cumulative_point("12:01:00", 3.0).asDict() | {"temporality": None}),
        cumulative_point("12:02:00", 12.0, push_interval_ms=120_000),
    )
    found = marks(mark(frame))
    assert found[1:4] == [(None,) * 5] * 3
    assert found[4] == (2.0, False, False, False, False)
    assertSchemaEqual(latest(frame).schema, SERIES)
    assert [row.amount for row in latest(frame).collect()] == [12.0]


def test_a_distribution_grows_by_its_count_and_its_sum(spark: SparkSession) -> None:
    kind = {"metric_type": "histogram", "is_monotonic": None, "value": None}
    points = [
        Row(**cumulative_point(at, 0.0).asDict() | kind | {"count": count, "sum": total})
        for at, count, total in (("12:00:00", 5, 10.0), ("12:01:00", 8, 10.5), ("12:02:00", 1, 0.25))
    ]
    found = mark(sent(spark, *points)).orderBy("received_at").collect()
    assert [(row.delta, row.delta_sum, row.reset) for row in found] == [
        (5.0, 10.0, False),
        (3.0, 0.5, False),
        (1.0, 0.25, True),
    ]


def test_a_summary_is_cumulative_without_saying_so(spark: SparkSession) -> None:
    kind = {"metric_type": "summary", "temporality": None, "is_monotonic": None, "value": None}
    points = [
        Row(**cumulative_point(at, 0.0).asDict() | kind | {"count": count})
        for at, count in (("12:00:00", 5), ("12:01:00", 8))
    ]
    assert [row[0] for row in marks(mark(sent(spark, *points)))] == [5.0, 3.0]


def test_a_clients_clock_that_is_set_back_silences_no_series(spark: SparkSession) -> None:
    frame = sent(
        spark,
        delta_point("12:00:00", 1.0, 9_000_000, 9_000_060),
        delta_point("12:01:00", 2.0, 3600, 3660),
        delta_point("12:02:00", 3.0, 3660, 3720),
    )
    assert marks(mark(frame))[1:] == [(2.0, False, False, True, False), (3.0, False, False, False, False)]


def test_what_comes_after_a_later_point_is_late_and_changes_nothing(spark: SparkSession) -> None:
    remembered = latest(sent(spark, delta_point("12:02:00", 5.0, 3660, 3720)))
    frame = sent(spark, delta_point("12:01:00", 9.0, 3600, 3660), delta_point("12:03:00", 2.0, 3720, 3780))
    assert marks(mark(frame, remembered)) == [
        (None, None, None, None, True),
        (2.0, False, False, False, False),
    ]
    old = sent(spark, delta_point("12:01:00", 9.0, 3600, 3660))
    assert latest(old, remembered).collect() == remembered.collect()
