"""What is read of the table of points for late pushes: around them, of their instances, and some of these at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from spark.landing_zone import NOON_US, push
from support.fleet.fleet_in_disorder import CONSUMED, sums
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.decode.rows import joined
from fleetgauge.fleet.schemas import BRONZE, SERIES
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.late import Late, Standing
from fleetgauge.fleet.silver.running import HORIZON_US
from fleetgauge.fleet.tables import catalog

SECOND_US = 1_000_000
Group = tuple[pa.RecordBatch, list[int], Standing]


@pytest.fixture
def tables(tmp_path: Path) -> SilverTables:
    return SilverTables(tmp_path)


def of(instance: str, at_us: int, value: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A push of one point, at a time after noon."""
    payload = sums({CONSUMED: value}, "cumulative", None, NOON_US + at_us).SerializeToString()
    return push(payload, received_at=NOON_US + at_us) | {"client_instance_id": f"{instance:A<22}"} | fields


def remembered(tables: SilverTables) -> pa.RecordBatch:
    rows: pa.RecordBatch = joined(list(tables.store.snapshot(catalog.SERIES).scan()), SERIES)
    return rows


def groups(tables: SilverTables, pushes: Iterable[dict[str, Any]]) -> list[Group]:
    """Of late pushes in the order of their instances."""
    rows = sorted(pushes, key=lambda row: (row["client_instance_id"], row["received_at"]))
    late = check(pa.RecordBatch.from_pylist(rows, schema=BRONZE))
    found = [
        (chunk, number_of.tolist(), stands)
        for chunk, number_of, stands in Late(tables.store.log(catalog.POINTS).snapshot(), remembered(tables)).groups(
            late
        )
    ]
    assert pa.Table.from_batches([chunk for chunk, _, _ in found]).to_pylist() == late.to_pylist()
    return found


def told(of_rows: Any, rows: pa.RecordBatch) -> list[tuple[int, int]]:
    """The number of its instance and the time after noon [us] of each row."""
    times: list[Any] = rows.column("received_at").cast(pa.int64()).to_pylist()
    return sorted((number, at - NOON_US) for number, at in zip(of_rows.tolist(), times, strict=True))


def test_all_points_around_late_pushes_stand_and_what_is_remembered_of_their_instances(tables: SilverTables) -> None:
    minute = 60 * SECOND_US
    tables.read([of(instance, at) for instance in "ac" for at in (0, minute, 3 * minute, 5 * minute)])
    tables.read([of("b", at) for at in (minute, 5 * minute)])
    ((_, number_of, stands),) = groups(
        tables, [of("a", 2 * minute), of("a", 3 * minute), of("a", 4 * minute), of("c", 4 * minute)]
    )
    assert number_of == [0, 0, 0, 1]
    assert told(stands.points_of, stands.points) == [(number, at * minute) for number in (0, 1) for at in (0, 1, 3, 5)]
    assert [row["client_instance_id"][0] for row in stands.remembered.to_pylist()] == ["a", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("within", [True, False])
def test_no_more_is_read_before_than_points_are_compared_and_all_after(within: bool, tables: SilverTables) -> None:
    horizon = HORIZON_US - 1 if within else HORIZON_US
    tables.read([of("a", -horizon), of("a", SECOND_US + horizon)])
    ((_, _, stands),) = groups(tables, [of("a", 0), of("a", SECOND_US)])
    before = [(0, -horizon)] if within else []
    assert told(stands.points_of, stands.points) == [*before, (0, SECOND_US + horizon)]


def test_each_instance_has_the_horizon_of_its_own_pushes(tables: SilverTables) -> None:
    """Whatever others of the group make be read."""
    tables.read([of(instance, at) for instance in "ab" for at in (0, 3 * HORIZON_US)])
    ((_, _, stands),) = groups(tables, [of("a", SECOND_US), of("b", 3 * HORIZON_US - SECOND_US)])
    assert told(stands.points_of, stands.points) == [(0, 0), (0, 3 * HORIZON_US), (1, 3 * HORIZON_US)]


def test_other_instances_and_gauges_are_left_out(tables: SilverTables) -> None:
    gauge = MetricsData()
    metric = gauge.resource_metrics.add().scope_metrics.add().metrics.add(name=CONSUMED)
    metric.gauge.data_points.add(as_double=1.0)
    tables.read(
        [
            of("a", 5 * SECOND_US),
            of("a", 6 * SECOND_US, cluster_id="other"),
            of("a", 7 * SECOND_US, principal="User:other"),
            of("b", 8 * SECOND_US),
            of("a", 9 * SECOND_US, metrics=gauge.SerializeToString()),
        ]
    )
    assert len(tables.points) == 5
    ((_, _, stands),) = groups(tables, [of("a", 0)])
    assert told(stands.points_of, stands.points) == [(0, 5 * SECOND_US)]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "sizes"), [(1, [2, 1, 1, 1, 1, 1, 1]), (16, [2, 4, 2]), (1_000, [2, 6])])
def test_so_many_instances_are_read_at_once_as_have_about_so_many_points(
    rows: int, sizes: list[int], tables: SilverTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how many those before them had."""
    monkeypatch.setattr(Late, "first_instances", 2)
    monkeypatch.setattr(Late, "rows_at_once", rows)
    ids = "abcdefgh"
    tables.read([of(instance, at) for instance in ids for at in (0, SECOND_US, 2 * SECOND_US, 3 * SECOND_US)])
    pushes = [of(instance, SECOND_US + half) for instance in ids for half in (1, 2)]
    found = groups(tables, pushes)
    assert [len(set(number_of)) for _, number_of, _ in found] == sizes
    for chunk, number_of, stands in found:
        assert number_of == [number for number in range(len(chunk) // 2) for _ in range(2)]
        points = [(number, at * SECOND_US) for number in range(len(chunk) // 2) for at in range(4)]
        assert told(stands.points_of, stands.points) == points


def test_where_nothing_stands_the_next_groups_are_larger(tables: SilverTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Late, "first_instances", 1)
    monkeypatch.setattr(Late, "rows_at_once", 3)
    tables.read([of("z", 0)])
    assert [len(chunk) for chunk, _, _ in groups(tables, [of(instance, 0) for instance in "abcdefgh"])] == [1, 3, 4]
