"""What is read of the table of points for late pushes: around them, of their instances, and some of these at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from spark.landing_zone import NOON_US, push
from support.fleet.fleet_in_disorder import CONSUMED, sums
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.schemas import BRONZE, POINTS, encoded
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.late import Late, Stored
from fleetgauge.fleet.silver.running import HORIZON_US
from fleetgauge.fleet.tables import catalog

SECOND_US = 1_000_000
Group = tuple[pa.RecordBatch, list[int], Stored]


@pytest.fixture
def tables(tmp_path: Path) -> SilverTables:
    return SilverTables(tmp_path)


def of(instance: str, at_us: int, value: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A push of one point, at a time after noon."""
    payload = sums({CONSUMED: value}, "cumulative", None, NOON_US + at_us).SerializeToString()
    return push(payload, received_at=NOON_US + at_us) | {"client_instance_id": f"{instance:A<22}"} | fields


def groups(tables: SilverTables, pushes: Iterable[dict[str, Any]]) -> list[Group]:
    """Of late pushes in the order of their instances: these, the number of each one's instance, and what is near."""
    rows = sorted(pushes, key=lambda row: (row["client_instance_id"], row["received_at"]))
    late = check(pa.RecordBatch.from_pylist(rows, schema=BRONZE))
    reads = late_points(tables)
    found = [(group.pushes, group.number_of.tolist(), group.near) for group in reads.groups(late)]
    assert pa.Table.from_batches([chunk for chunk, _, _ in found]).to_pylist() == late.to_pylist()
    return found


def late_points(tables: SilverTables) -> Late:
    return Late(tables.store.log(catalog.POINTS).snapshot(encoded(POINTS)))


def before(tables: SilverTables, pushes: list[dict[str, Any]], numbers: list[int], metric: str = CONSUMED) -> Stored:
    """What is read of series that have no point near."""
    late = late_points(tables)
    (group,) = late.groups(check(pa.RecordBatch.from_pylist(pushes, schema=BRONZE)))
    return late.before(group, np.array(numbers), pa.array([metric]))


def after(tables: SilverTables, pushes: list[dict[str, Any]], numbers: list[int], metric: str = CONSUMED) -> Stored:
    """What is read of series that go on later."""
    late = late_points(tables)
    (group,) = late.groups(check(pa.RecordBatch.from_pylist(pushes, schema=BRONZE)))
    return late.after(group, np.array(numbers), pa.array([metric]))


def told(of_rows: Any, rows: pa.RecordBatch) -> list[tuple[int, int]]:
    """The number of its instance and the time after noon [us] of each row."""
    times: list[Any] = rows.column("received_at").cast(pa.int64()).to_pylist()
    return sorted((number, at - NOON_US) for number, at in zip(of_rows.tolist(), times, strict=True))


def test_what_is_near_are_points_of_three_intervals_before_and_after(tables: SilverTables) -> None:
    minute = 60 * SECOND_US
    tables.read([of(instance, at) for instance in "ac" for at in (0, minute, 3 * minute, 5 * minute, 7 * minute + 1)])
    tables.read([of("b", at) for at in (minute, 5 * minute)])
    pushes = [of("a", 4 * minute - 1), of("a", 3 * minute), of("a", 4 * minute), of("c", 4 * minute)]
    ((_, number_of, stands),) = groups(tables, [each | {"push_interval_ms": 60_000} for each in pushes])
    assert number_of == [0, 0, 0, 1]
    of_a, of_c = ([(number, at * minute) for at in times] for number, times in enumerate([(1, 3, 5), (3, 5)]))
    assert told(stands.points_of, stands.points) == [*of_a, *of_c]


@pytest.mark.slow
@pytest.mark.parametrize("within", [True, False])
def test_no_more_is_read_before_than_points_are_compared_and_all_after(within: bool, tables: SilverTables) -> None:
    horizon = HORIZON_US - 1 if within else HORIZON_US
    tables.read([of("a", -horizon), of("a", SECOND_US + horizon)])
    pushes = [of("a", 0), of("a", SECOND_US)]
    stands = after(tables, pushes, [0])
    assert told(stands.points_of, stands.points) == [(0, SECOND_US + horizon)]
    stands = before(tables, pushes, [0])
    assert told(stands.points_of, stands.points) == ([(0, -horizon)] if within else [])


def test_each_instance_has_the_bounds_of_its_own_pushes_and_other_metrics_are_left_out(tables: SilverTables) -> None:
    """Whatever others of the group make be read."""
    tables.read([of(instance, at) for instance in "ab" for at in (0, 3 * HORIZON_US)])
    pushes = [of("a", SECOND_US), of("b", 3 * HORIZON_US - SECOND_US)]
    ((_, _, stands),) = groups(tables, pushes)
    assert told(stands.points_of, stands.points) == [(0, 0), (1, 3 * HORIZON_US)]
    stands = after(tables, pushes, [0])
    assert told(stands.points_of, stands.points) == [(0, 3 * HORIZON_US)]
    assert not len(after(tables, pushes, [0, 1], metric="another").points)
    pushes = [of(instance, 3 * HORIZON_US + HORIZON_US // 2) for instance in "ab"]
    stands = before(tables, pushes, [1])
    assert told(stands.points_of, stands.points) == [(1, 3 * HORIZON_US)]
    assert not len(before(tables, pushes, [1], metric="another").points)


def test_other_instances_and_gauges_are_left_out(tables: SilverTables) -> None:
    gauge = MetricsData()
    metric = gauge.resource_metrics.add().scope_metrics.add().metrics.add(name=CONSUMED)
    metric.gauge.data_points.add(as_double=1.0)
    tables.read(
        [
            of("a", SECOND_US),
            of("a", SECOND_US + 1, cluster_id="other"),
            of("a", SECOND_US + 2, principal="User:other"),
            of("b", SECOND_US + 3),
            of("a", SECOND_US + 4, metrics=gauge.SerializeToString()),
        ]
    )
    assert len(tables.points) == 5
    ((_, _, stands),) = groups(tables, [of("a", 0)])
    assert told(stands.points_of, stands.points) == [(0, SECOND_US)]


@pytest.mark.parametrize(
    ("rows", "pushes_at_once", "sizes"),
    [
        *((1, 100, [1] * 8), (8, 100, [2, 2, 2, 2]), (15, 100, [3, 3, 2]), (1_000, 100, [8])),
        *((1_000, 1, [1] * 8), (1_000, 5, [2, 2, 2, 2]), (15, 4, [2, 1, 2, 1, 2])),
    ],
)
def test_a_group_has_so_many_instances_as_have_so_many_points_and_pushes(
    rows: int, pushes_at_once: int, sizes: list[int], tables: SilverTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Late, "rows_at_once", rows)
    monkeypatch.setattr(Late, "bytes_at_once", pushes_at_once * len(of("a", 0)["metrics"]))
    ids = "abcdefgh"
    tables.read([of(instance, at) for instance in ids for at in (0, SECOND_US, 2 * SECOND_US, 3 * SECOND_US)])
    pushes = [of(instance, SECOND_US + half) for instance in ids for half in (1, 2)]
    found = groups(tables, pushes)
    assert [len(set(number_of)) for _, number_of, _ in found] == sizes
    for chunk, number_of, stands in found:
        assert number_of == [number for number in range(len(chunk) // 2) for _ in range(2)]
        points = [(number, at * SECOND_US) for number in range(len(chunk) // 2) for at in range(4)]
        assert told(stands.points_of, stands.points) == points


def test_where_nothing_stands_one_group_has_all_instances(tables: SilverTables) -> None:
    tables.read([of("z", 0)])
    assert [len(chunk) for chunk, _, _ in groups(tables, [of(instance, 0) for instance in "abcdefgh"])] == [8]


@pytest.mark.parametrize("kinds", ["dddddddd", "cccccccc", "ddddcddd", "ddddddcd", "cccccdcc", "dddddddc"])
@pytest.mark.parametrize("late", [{2}, {2, 3}, {1, 4}])
def test_tables_are_those_of_pushes_in_time_also_where_what_stands_later_is_not_near(
    kinds: str, late: set[int], tmp_path: Path
) -> None:
    """Deltas (d) and counts (c), ten intervals one after the other: what is remembered, and the next count, follow."""
    kept = {"d": "delta", "c": "cumulative"}
    interval_us = 10 * SECOND_US
    pushes = []
    for at, kind in enumerate(kinds):
        begin_us, end_us = NOON_US + at * interval_us, NOON_US + (at + 1) * interval_us
        value = 2.0**at if kind == "d" else 2.0 ** (at + 1) - 1
        names = [CONSUMED] if at == 5 else [CONSUMED, "n"]
        payload = sums(dict.fromkeys(names, value), kept[kind], begin_us if kind == "d" else NOON_US, end_us)
        pushes.append(push(payload.SerializeToString(), received_at=end_us))
    in_time, found = SilverTables(tmp_path / "in time"), SilverTables(tmp_path / "late")
    in_time.read(pushes)
    found.read([each for at, each in enumerate(pushes) if at not in late])
    found.read([pushes[at] for at in sorted(late)])
    assert found.tables() == in_time.tables()
