"""What sums grew by, series by series, in one run and over several."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from fleetgauge.fleet.schemas import DECODED, POINTS, SERIES
from fleetgauge.fleet.silver.deltas import Comparison, differ
from fleetgauge.fleet.silver.running import HORIZON_US, Remembered, StoredPoints
from fleetgauge.fleet.silver.series import distinct_maps, with_keys

SECOND_NANO: Final = 1_000_000_000
MARKS: Final = ("delta", "reset", "gap", "before_subscription", "covers_gap")
DAY: Final = datetime(2026, 3, 1, tzinfo=UTC)
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


def with_buckets(received_at: str, counts: list[int], bounds: Sequence[float] = (1.0,)) -> Point:
    """A point of a cumulative histogram."""
    return counted(received_at, sum(counts), distribution=[{"bucket_counts": counts, "bounds": bounds}])


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
    "a cumulative sum holds the growth of a push that is missing before it": Scenario(
        [total("12:00:00", 10.0), total("12:02:00", 14.0), total("12:04:00", 3.0)],
        [(10.0, False, False, True, False), (4.0, False, False, False, True), (3.0, True, False, False, True)],
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
    "a series that changes its temporality goes on from what its deltas add up to": Scenario(
        [
            delta("12:00:00", 5.0, 3540, 3600),
            delta("12:01:00", 7.0, 3600, 3660),
            total("12:02:00", 15.0, start_time_unix_nano=0),
            delta("12:03:00", 4.0, None, 3780),
            total("12:04:00", 20.0),
        ],
        [(growth, False, False, False, False) for growth in (5.0, 7.0, 3.0, 4.0, 1.0)],
    ),
    "a count below what the deltas before it add up to was reset": Scenario(
        [delta("12:00:00", 5.0, 3540, 3600), delta("12:01:00", 7.0, 3600, 3660), total("12:02:00", 3.0)],
        [(5.0, False, False, False, False), (7.0, False, False, False, False), (3.0, True, False, False, False)],
    ),
    "a point that says where it is from is another series": Scenario(
        [total("12:00:00", 10.0), total("12:01:00", 99.0, origin="a"), total("12:02:00", 98.0, unit="s")],
        [(value, False, False, True, False) for value in (10.0, 99.0, 98.0)],
    ),
    "a bucket that falls while the count grows was reset": Scenario(
        [with_buckets("12:00:00", [3, 2]), with_buckets("12:01:00", [1, 9]), with_buckets("12:02:00", [2, 9])],
        [(5.0, False, False, True, False), (10.0, True, False, False, False), (1.0, False, False, False, False)],
    ),
    "other bounds begin again": Scenario(
        [with_buckets("12:00:00", [3, 2]), with_buckets("12:01:00", [3, 2, 9], [1.0, 2.0])],
        [(5.0, False, False, True, False), (14.0, True, False, False, False)],
    ),
    "buckets that do not fit their bounds are malformed": Scenario(
        [with_buckets("12:00:00", [3, 2]), with_buckets("12:01:00", [3, 2, 9]), with_buckets("12:02:00", [3, 3])],
        [(5.0, False, False, True, False), NONE, (1.0, False, False, False, True)],
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


def decoded(points: list[Point]) -> pa.RecordBatch:
    """DECODED of points, each of a push of its own."""
    rows = []
    for point in points:
        at = datetime.combine(DAY, time.fromisoformat(point["received_at"]), UTC)
        rows.append({"push_id": at.isoformat(), "point_index": 0, **point, "received_at": at})
    return pa.RecordBatch.from_pylist(rows, schema=DECODED)


def instances(rows: pa.RecordBatch) -> Any:
    """A number for each instance that rows come of, one after the other."""
    ids = list(zip(rows["client_instance_id"].to_pylist(), rows["principal"].to_pylist(), strict=True))
    return np.cumsum([0, *(one != other for one, other in itertools.pairwise(ids))])


def compare(comparison: Comparison, points: list[Point]) -> tuple[list[Point], pa.RecordBatch]:
    """Points with their marks, and the series that are done with."""
    rows = decoded(points)
    sets = [point["attributes"] for point in points]
    compared = comparison.mark(rows, instances(rows), np.arange(len(sets)), sets)
    marks, settled = compared.marks, compared.settled
    assert {name: column.type for name, column in marks.items()} == {name: POINTS.field(name).type for name in marks}
    assert settled.schema == SERIES
    said = {name: column.to_pylist() for name, column in marks.items()}
    return [point | {name: said[name][row] for name in said} for row, point in enumerate(points)], settled


def marks(points: list[Point]) -> list[tuple[Any, ...]]:
    return [tuple(point[name] for name in MARKS) for point in points]


def of_instances(points: list[Point]) -> list[Point]:
    """In the order in which an instance's points come."""
    return sorted(points, key=lambda point: (point["principal"], point["client_instance_id"]))


ALL: Final = of_instances(
    [point | {"client_instance_id": name} for name in SCENARIOS for point in SCENARIOS[name].points]
)


@pytest.fixture(scope="module")
def marked() -> list[Point]:
    """All scenarios at once, each under its name as the client instance's id."""
    return compare(Comparison(), ALL)[0]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_marks_of(name: str, marked: list[Point]) -> None:
    found = sorted((point for point in marked if point["client_instance_id"] == name), key=lambda p: p["received_at"])
    assert marks(found) == SCENARIOS[name].marks


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5])
def test_chunks_of_any_size_give_the_same_marks_and_series(size: int, marked: list[Point]) -> None:
    at_once, in_chunks = Comparison(), Comparison()
    _, settled = compare(at_once, ALL)
    expected = [settled, at_once.finish()]
    found, series = [], []
    number = 0
    for start in range(0, len(ALL), size):
        chunk = ALL[start : start + size]
        before = ALL[start - 1] if start else chunk[0]
        rows = decoded([before, *chunk])
        numbers = number + instances(rows)[1:]
        number = int(numbers[-1])
        compared = in_chunks.mark(
            rows.slice(1), numbers, np.arange(len(chunk)), [point["attributes"] for point in chunk]
        )
        said, done = compared.marks, compared.settled
        found += [tuple(said[name][row].as_py() for name in MARKS) for row in range(len(chunk))]
        series.append(done)
    assert found == marks(marked)
    assert of_tables([*series, in_chunks.finish()]) == of_tables(expected)


def of_tables(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


def test_a_distributions_sum_grows_beside_its_count_and_a_summary_says_what_it_said(marked: list[Point]) -> None:
    found = [point["delta_sum"] for point in marked if point["metric_type"] == "histogram" and point["sum"]]
    assert found == [10.0, 0.5, 0.25]
    assert {point["temporality"] for point in marked if point["metric_type"] == "summary"} == {None}


ONE: Final = {"client_instance_id": "one"}


def remembering(*points: Point) -> tuple[Comparison, pa.RecordBatch]:
    """A later run, and what an earlier one left to it."""
    earlier, later = Comparison(), Comparison()
    compare(earlier, [point | ONE for point in points])
    series = earlier.finish()
    later.remember(0, np.zeros(len(series), dtype=np.int64), series)
    return later, series


def compare_again(stored: list[Point], new: list[Point]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The marks of new points, and of the stored ones that they change what these were and are."""
    points = sorted([point | ONE for point in (*stored, *new)], key=lambda point: point["received_at"])
    is_stored = np.array([point["received_at"] in {each["received_at"] for each in stored} for point in points])
    stood = [point for point, stands in zip(points, is_stored, strict=True) if stands]
    earlier = Comparison()
    marked, _ = compare(earlier, stood)
    before = dict(zip(np.flatnonzero(is_stored).tolist(), marks(marked), strict=True))
    grown = np.full((2, len(points)), np.nan)
    for row, point in zip(before, marked, strict=True):
        grown[:, row] = np.nan if point["reset"] else (point["delta"], point["delta_sum"] or np.nan)
    series = earlier.finish()
    remembered = Remembered(series, np.zeros(len(series), dtype=np.int64))
    stored_points = StoredPoints(is_stored=is_stored, delta=grown[0], delta_sum=grown[1], remembered=remembered)
    rows = decoded(points)
    instance_of, set_of = np.zeros(len(points), dtype=np.int64), np.arange(len(points))
    compared = Comparison().mark(rows, instance_of, set_of, [point["attributes"] for point in points], stored_points)
    now = list(zip(*(compared.marks[name].to_pylist() for name in MARKS), strict=True))
    moved = compared.moved.tolist()
    for row in before.keys() - set(moved):
        assert now[row] == before[row], "a point that no new one comes before is as it was"
    changed = [row for row in moved if before[row] != now[row]]
    differs = differ(of_marks(before, moved), of_marks(now, moved))
    assert [row for row, is_other in zip(moved, differs, strict=True) if is_other] == changed
    return (
        [said for said, stands in zip(now, is_stored, strict=True) if not stands],
        [each for row in changed for each in (before[row], now[row])],
    )


def of_marks(said: Any, rows: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(MARKS, said[row], strict=True)) for row in rows],
        schema=pa.schema([POINTS.field(name) for name in MARKS]),
    )


def test_a_late_delta_has_its_growth_and_corrects_the_next_one() -> None:
    stored = [
        delta("12:00:00", 5.0, 3540, 3600),
        delta("12:02:00", 6.0, 3660, 3720),
        delta("12:03:00", 7.0, 3720, 3780),
    ]
    assert compare_again(stored, [delta("12:01:00", 9.0, 3600, 3660)]) == (
        [(9.0, False, False, False, False)],
        [(6.0, False, True, False, False), (6.0, False, False, False, False)],
    )


def test_a_late_total_takes_its_growth_from_the_next_one() -> None:
    stored = [total("12:00:00", 5.0), total("12:04:00", 9.0), total("12:05:00", 9.0)]
    assert compare_again(stored, [total("12:03:00", 7.0)]) == (
        [(2.0, False, False, False, True)],
        [(4.0, False, False, False, True), (2.0, False, False, False, False)],
    )


def test_a_late_delta_is_contained_in_the_count_that_came_after_it() -> None:
    stored = [
        total("12:00:00", 10.0),
        delta("12:01:00", 4.0, None, 3660),
        delta("12:03:00", 6.0, None, 3780),
        total("12:04:00", 23.0),
    ]
    assert compare_again(stored, [delta("12:02:00", 1.0, None, 3720)]) == (
        [(1.0, False, False, False, False)],
        [(growth, False, gap, False, False) for growth, gap in ((6.0, True), (6.0, False), (3.0, False), (2.0, False))],
    )


def test_a_late_point_before_all_others_makes_the_first_one_a_second() -> None:
    assert compare_again([total("12:01:00", 9.0)], [total("12:00:00", 7.0)]) == (
        [(7.0, False, False, True, False)],
        [(9.0, False, False, True, False), (2.0, False, False, False, False)],
    )


def test_a_late_point_that_changes_no_mark_corrects_nothing() -> None:
    stored = [delta("12:00:00", 5.0, 3540, 3600), delta("12:02:00", 6.0, 3600, 3660)]
    assert compare_again(stored, [delta("12:01:00", 9.0, None, 3600)]) == ([(9.0, False, False, False, False)], [])


@pytest.mark.parametrize(("earlier_us", "growth"), [(HORIZON_US - 1, 4.0), (HORIZON_US, 14.0)])
def test_a_point_that_was_received_a_day_earlier_counts_no_more(earlier_us: int, growth: float) -> None:
    rows = decoded([total("12:00:00", 10.0), total("12:00:00", 14.0)])
    place, kind = rows.schema.get_field_index("received_at"), rows.schema.field("received_at")
    received: list[Any] = rows[place].to_pylist()
    times = [at - timedelta(microseconds=us) for at, us in zip(received, (earlier_us, 0), strict=True)]
    rows = rows.set_column(place, kind, pa.array(times, kind.type))
    compared = Comparison().mark(rows, np.zeros(2, np.int64), np.zeros(2, np.int64), [{}])
    assert compared.marks["delta"].to_pylist() == [10.0, growth]
    assert compared.marks["before_subscription"].to_pylist() == [True, growth == 14.0]


def test_of_pushes_of_one_moment_the_later_id_is_later() -> None:
    points = [
        total("12:00:00", 10.0, push_id="a", point_index=9, **ONE),
        total("12:00:00", 12.0, push_id="b", point_index=3, **ONE),
    ]
    assert [found for found, *_ in marks(compare(Comparison(), points)[0])] == [10.0, 2.0]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_points_of_a_series_in_one_push_come_by_their_time(order: tuple[int, ...]) -> None:
    ones = [
        total("12:01:00", value, time_unix_nano=at, push_id="p", **ONE)
        for at, value in ((1, 14.0), (2, 20.0), (3, 4.0))
    ]
    push = [ones[which] | {"point_index": place} for place, which in enumerate(order)]
    later, _ = remembering(total("12:00:00", 10.0, time_unix_nano=9))
    found = {point["time_unix_nano"]: point for point in compare(later, push)[0]}
    assert [found[at]["delta"] for at in (1, 2, 3)] == [4.0, 6.0, 4.0]
    assert [found[at]["reset"] for at in (1, 2, 3)] == [False, False, True]
    assert [point["delta"] for point in compare(later, [total("12:02:00", 5.0, **ONE)])[0]] == [1.0]


def test_what_is_remembered_is_not_written_again_unless_it_went_on() -> None:
    later, series = remembering(total("12:00:00", 10.0), total("12:00:00", 20.0, metric_name="n"))
    held = later.held
    assert [found for found, *_ in marks(compare(later, [total("12:01:00", 14.0, **ONE)])[0])] == [4.0]
    assert (held, later.held) == (None, 0)
    (row,) = later.finish().to_pylist()
    (before,) = [row for row in series.to_pylist() if row["amount"] == 10.0]
    assert (row["series"], row["amount"], row["client_instance_id"]) == (before["series"], 14.0, "one")


def test_series_of_an_earlier_form_go_on_and_count_nothing_twice() -> None:
    """That form kept deltas apart from counts, by another key, and not what they add up to."""
    _, series = remembering(
        total("12:00:00", 10.0), delta("12:00:00", 4.0, 3540, 3600, metric_name="n"), total("12:00:00", 7.0, origin="a")
    )
    old = series.set_column(SERIES.get_field_index("series"), SERIES.field("series"), pa.nulls(3, pa.int64()))
    assert with_keys(series) is series
    later = Comparison()
    later.remember(0, np.zeros(3, dtype=np.int64), with_keys(old))
    points = [
        total("12:01:00", 14.0, **ONE),
        total("12:01:00", 90.0, metric_name="n", **ONE),
        delta("12:01:00", 2.0, 3600, 3660, origin="a", **ONE),
    ]
    found = marks(compare(later, points)[0])
    assert [(growth, reset, gap) for growth, reset, gap, *_ in found] == [
        (4.0, False, False),
        (0.0, False, True),
        (2.0, False, False),
    ]


def test_what_is_remembered_of_instances_to_come_stays_until_their_points_come() -> None:
    ids = ("a", "b", "c")
    earlier, later = Comparison(), Comparison()
    _, settled = compare(earlier, [total("12:00:00", 10.0, client_instance_id=name) for name in ids])
    series = pa.Table.from_batches([settled, earlier.finish()]).combine_chunks().to_batches()[0]
    later.remember(0, np.arange(3), series)
    points = [total("12:01:00", 11.0 + number, client_instance_id=name) for number, name in enumerate(ids)]
    found = []
    for number, point in enumerate(points):
        compared = later.mark(decoded([point]), np.array([number]), np.array([0]), [{}])
        found.append(compared.marks["delta"][0].as_py())
    assert found == [1.0, 2.0, 3.0]


def test_what_is_remembered_of_instances_without_points_is_forgotten_when_others_come() -> None:
    comparison = Comparison()
    _, series = remembering(total("12:00:00", 10.0))
    for number in range(3):
        comparison.remember(number, np.array([number]), series)
    assert len(comparison._known.instance) == 1


def test_infinite_values_and_counts_below_0_are_malformed_and_counted_nowhere() -> None:
    wild = {"start_time_unix_nano": 2**63 - 1, "time_unix_nano": -(2**63)}
    points = [total("12:00:00", float("inf"), **wild), total("12:01:00", -1.0)]
    assert marks(compare(Comparison(), [point | ONE for point in points])[0]) == [
        NONE,
        NONE,
    ]


def test_equal_maps_have_one_number() -> None:
    maps = [{"a": "1", "b": "2"}, {}, None, {"a": "1"}, {"a": None}, {"a": "1", "b": "2"}, {"b": "1"}]
    column = pa.array(
        [None if each is None else list(each.items()) for each in maps], pa.map_(pa.string(), pa.string())
    )
    for start in (0, 2):
        number_of, sets = distinct_maps(column[start:])
        assert [sets[number] for number in number_of] == [each or {} for each in maps[start:]]
        assert len(sets) == len({str(each or {}) for each in maps[start:]})
