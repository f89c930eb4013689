"""What sums grew by, series by series, in one run and over several."""

from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertSchemaEqual

from fleet.schemas import POINTS, SENT_POINTS, SERIES
from fleet.silver.deltas import latest, mark
from fleet.small_tables import table

SECOND_NANO: Final = 1_000_000_000
MARKS: Final = ("delta", "reset", "gap", "before_subscription", "late")
COLUMNS: Final = (
    *("client_instance_id", "received_at", "metric_name", "metric_type", "temporality", "is_monotonic", "value"),
    *("start_time_unix_nano", "time_unix_nano", "count", "sum", "push_interval_ms", "principal", "attributes"),
    "occurrence",
)
NONE: Final = (None,) * 5

Point = dict[str, Any]


class Scenario(NamedTuple):
    """Points of one client in the order of their receipt, and the marks of each."""

    points: list[Point]
    marks: list[tuple[Any, ...]]


def delta(received_at: str, value: float | None, start_s: float | None, end_s: float, **more: Any) -> Point:
    """A point of a delta sum; times by the client's own clock, which is nobody else's."""
    start = None if start_s is None else int(start_s * SECOND_NANO)
    times = {"start_time_unix_nano": start, "time_unix_nano": int(end_s * SECOND_NANO)}
    return total(received_at, value, temporality="delta", **times, **more)


def total(received_at: str, value: float | None, **more: Any) -> Point:
    """A point of a cumulative sum."""
    kind = {"metric_name": "m", "metric_type": "sum", "temporality": "cumulative", "is_monotonic": True}
    usual = {"principal": "User:app", "push_interval_ms": 60_000, "attributes": {}, "occurrence": 0}
    return usual | kind | {"received_at": received_at, "value": value} | more


def counted(received_at: str, count: int, of_sum: float | None = None, **more: Any) -> Point:
    """A point of a distribution."""
    kind = {"metric_type": "histogram", "is_monotonic": None, "count": count, "sum": of_sum}
    return total(received_at, None) | kind | more


SCENARIOS: Final[dict[str, Scenario]] = {
    "deltas that follow one another are as sent, and the first reaches back": Scenario(
        [delta("12:00:00", 90.0, 0, 3600), delta("12:01:00", 4.0, 3600, 3660), delta("12:02:00", 5.0, 3660.05, 3720)],
        [(90.0, False, False, True, False), (4.0, False, False, False, False), (5.0, False, False, False, False)],
    ),
    "a series that begins between two pushes reaches back no further": Scenario(
        [delta("12:00:00", 2.0, 3560, 3600)], [(2.0, False, False, False, False)]
    ),
    "a delta that begins after the one before ended has a gap": Scenario(
        [delta("12:00:00", 1.0, 3540, 3600), delta("12:01:00", 1.0, 3620, 3660)],
        [(1.0, False, False, False, False), (1.0, False, True, False, False)],
    ),
    "a delta without a start has no gap while no push is missing": Scenario(
        [delta("12:00:00", 1.0, 3540, 3600), delta("12:01:00", 1.0, None, 3660)],
        [(1.0, False, False, False, False), (1.0, False, False, False, False)],
    ),
    "a delta without a start has a gap when a push is missing": Scenario(
        [delta("12:00:00", 1.0, 3540, 3600), delta("12:02:00", 1.0, None, 3720)],
        [(1.0, False, False, False, False), (1.0, False, True, False, False)],
    ),
    # A Java client that asks anew for its subscription may count from its start again.
    "a delta that covers again what was counted says so": Scenario(
        [delta("12:00:00", 7.0, 3540, 3600), delta("12:01:00", 99.0, 0, 3660)],
        [(7.0, False, False, False, False), (99.0, False, False, True, False)],
    ),
    "a clients clock that is set back silences no series": Scenario(
        [
            delta("12:00:00", 1.0, 9_000_000, 9_000_060),
            delta("12:01:00", 2.0, 3600, 3660),
            delta("12:02:00", 3.0, 3660, 3720),
        ],
        [(1.0, False, False, False, False), (2.0, False, False, True, False), (3.0, False, False, False, False)],
    ),
    "a cumulative sum that falls was reset": Scenario(
        [total("12:00:00", 10.0), total("12:01:00", 4.0)],
        [(10.0, False, False, True, False), (4.0, True, False, False, False)],
    ),
    "a cumulative sum that may fall was not": Scenario(
        [total("12:00:00", 10.0, is_monotonic=False), total("12:01:00", 4.0, is_monotonic=False)],
        [(10.0, False, False, True, False), (-6.0, False, False, False, False)],
    ),
    "a cumulative sum that begins later was reset though it is larger": Scenario(
        [
            total("12:00:00", 10.0, start_time_unix_nano=0, time_unix_nano=60 * SECOND_NANO),
            total("12:01:00", 12.0, start_time_unix_nano=70 * SECOND_NANO, time_unix_nano=120 * SECOND_NANO),
        ],
        [(10.0, False, False, False, False), (12.0, True, False, False, False)],
    ),
    "another metric, other attributes and another occurrence are other series": Scenario(
        [
            total("12:00:00", 10.0),
            total("12:01:00", 99.0, metric_name="n"),
            total("12:02:00", 98.0, attributes={"node_id": "node-1"}),
            total("12:03:00", 97.0, occurrence=1),
            total("12:04:00", 96.0, principal="User:other"),
            total("12:05:00", 11.0, push_interval_ms=300_000),
        ],
        [(value, False, False, True, False) for value in (10.0, 99.0, 98.0, 97.0, 96.0)]
        + [(1.0, False, False, False, False)],
    ),
    "attributes in another order are the same series": Scenario(
        [
            total("12:00:00", 10.0, attributes={"a": "1", "b": "2"}),
            total("12:01:00", 11.0, attributes={"b": "2", "a": "1"}),
        ],
        [(10.0, False, False, True, False), (1.0, False, False, False, False)],
    ),
    "what has no value and what is no sum is not compared": Scenario(
        [
            total("12:00:00", 10.0),
            total("12:00:30", None),
            total("12:00:40", 3.0, metric_type="gauge", temporality=None),
            total("12:00:50", 3.0, temporality=None),
            total("12:01:00", 12.0),
        ],
        [(10.0, False, False, True, False), NONE, NONE, NONE, (2.0, False, False, False, False)],
    ),
    "a distribution grows by its count": Scenario(
        [counted("12:00:00", 5, 10.0), counted("12:01:00", 8, 10.5), counted("12:02:00", 1, 0.25)],
        [(5.0, False, False, True, False), (3.0, False, False, False, False), (1.0, True, False, False, False)],
    ),
    "a summary is cumulative without saying so": Scenario(
        [
            counted(at, count, metric_type="summary", temporality=None)
            for at, count in (("12:00:00", 5), ("12:01:00", 8))
        ],
        [(5.0, False, False, True, False), (3.0, False, False, False, False)],
    ),
}


def sent(spark: SparkSession, points: list[Point]) -> DataFrame:
    rows = [tuple(point.get(name) for name in COLUMNS) for point in points]
    return table(spark, SENT_POINTS, " ".join(COLUMNS), *rows)


def marks(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in MARKS) for row in sorted(rows, key=lambda row: row.received_at)]


@pytest.fixture(scope="module")
def marked(spark: SparkSession) -> list[Row]:
    """All scenarios in one run, each under its name as the client instance's id."""
    points = [point | {"client_instance_id": name} for name, found in SCENARIOS.items() for point in found.points]
    frame = mark(sent(spark, points))
    assertSchemaEqual(frame.schema, POINTS)
    return frame.collect()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_marks_of(name: str, marked: list[Row]) -> None:
    assert marks([row for row in marked if row.client_instance_id == name]) == SCENARIOS[name].marks


def test_a_distributions_sum_grows_beside_its_count_and_a_summary_says_what_it_said(marked: list[Row]) -> None:
    rows = sorted((row for row in marked if row.metric_type == "histogram"), key=lambda row: row.received_at)
    assert [row.delta_sum for row in rows] == [10.0, 0.5, 0.25]
    assert {row.temporality for row in marked if row.metric_type == "summary"} == {None}


def test_what_comes_after_a_later_point_is_late_and_changes_nothing(spark: SparkSession) -> None:
    one = {"client_instance_id": "one"}
    remembered = latest(sent(spark, [delta("12:02:00", 5.0, 3660, 3720, **one)])).localCheckpoint()
    assertSchemaEqual(remembered.schema, SERIES)
    old, new = delta("12:01:00", 9.0, 3600, 3660, **one), delta("12:03:00", 2.0, 3720, 3780, **one)
    assert marks(mark(sent(spark, [old, new]), remembered).collect()) == [
        (None, None, None, None, True),
        (2.0, False, False, False, False),
    ]
    assert latest(sent(spark, [old]), remembered).collect() == remembered.collect()
