"""`fleet run` gives the same tables in whatever order files come, and in whatever runs and batches they are read."""

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.landing_zone import LandingZone, push
from support.fleet.fleet_in_disorder import (
    CONSUMED,
    INTERVAL_US,
    NOON_US,
    SECOND_US,
    Push,
    fleet_pushes,
    group_samples,
    shuffled_batches,
    sums,
)
from support.fleet.standing_tables import OF_SIDE_ROWS, assert_equal, contents, rows
from support.gateway.traffic_rows import Row, produced, write_traffic
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.exporters.group_offsets.schema import Sample, record_batch

FILES = 6
HERE = "landing"


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def run(zone: LandingZone, tables: Path, *more: str) -> None:
    result = CliRunner().invoke(app, ["run", "--source", str(zone.root), "--tables", str(tables), *more])
    assert result.exit_code == 0, result.output


@dataclass(frozen=True, slots=True)
class Files:
    """What a landing zone holds when all has come, one of its files damaged; and the tables of one run over it."""

    pushes: list[list[Push]]
    samples: list[list[Sample]]
    traffic: list[list[Row]]
    tables: dict[str, list[str]]


def write(
    zone: LandingZone, pushes: list[list[Push]], samples: list[list[Sample]], traffic: list[list[Row]], number: int
) -> None:
    path = zone.write(pushes[number], name=f"part-{number}")
    write_traffic(zone.root, traffic[number], str(number))
    of_groups = zone.root / "group_offsets" / "date=2026-03-01" / "hour=12"
    of_groups.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([record_batch(samples[number])]), of_groups / f"offsets-{number}.parquet")
    if number == FILES - 1:
        path.write_bytes(path.read_bytes()[:-100])


def found(root: Path) -> dict[str, list[str]]:
    """The tables; a reject names the file that it lies in."""
    here = str(root / HERE)
    return {name: [row.replace(here, HERE) for row in table] for name, table in contents(root / "tables").items()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    chance = random.Random(20)
    pushes = shuffled_batches(chance, fleet_pushes(chance, pushes_each=25), batches=FILES - 1)
    pushes[1] += pushes[0][:5]
    pushes.append([push()])
    sampled = group_samples(chance)
    chance.shuffle(sampled)
    samples = [sampled[number::FILES] for number in range(FILES)]
    passed = [produced(minute, node_id=node) for minute in range(40) for node in (1, 2)]
    chance.shuffle(passed)
    traffic = [passed[number::FILES] for number in range(FILES)]
    root = tmp_path_factory.mktemp("at-once")
    zone = LandingZone(root / HERE)
    for number in range(FILES):
        write(zone, pushes, samples, traffic, number)
    run(zone, root / "tables")
    tables = found(root)
    assert all(tables[name] for name in OF_SIDE_ROWS)
    return Files(pushes, samples, traffic, tables)


def read_in_disorder(files: Files, root: Path, seed: int) -> None:
    """Runs over files that come in any order, with times of change in any other, in batches of any size."""
    chance = random.Random(seed)
    zone = LandingZone(root / HERE)
    order = chance.sample(range(FILES), FILES)
    while order:
        coming = [order.pop() for _ in range(min(chance.randint(2, 4), len(order)))]
        for number in coming:
            write(zone, files.pushes, files.samples, files.traffic, number)
        for path in zone.root.rglob("*.parquet"):
            changed_s = chance.randrange(1_600_000_000, 1_700_000_000)
            os.utime(path, (changed_s, changed_s))
        run(zone, root / "tables", "--max-files", str(chance.randint(1, 3)))
    assert_equal(found(root), files.tables)


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_files_gives_the_same_tables(files: Files, tmp_path: Path, seed: int) -> None:
    read_in_disorder(files, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, 28))
def test_twenty_more_orders_of_files_give_the_same_tables(files: Files, tmp_path: Path, seed: int) -> None:
    read_in_disorder(files, tmp_path, seed)


def consumed(at_s: int, records: float) -> dict[str, Any]:
    """The records of the minute that ends `at_s` after noon."""
    at_us = NOON_US + at_s * SECOND_US
    payload = sums({CONSUMED: records}, "delta", at_us - INTERVAL_US, at_us).SerializeToString()
    return push(payload, received_at=at_us, push_interval_ms=60_000)


def test_records_of_a_late_push_count_and_its_gap_is_closed(zone: LandingZone, tmp_path: Path) -> None:
    def consumers() -> list[tuple[float, bool, bool]]:
        table = rows(tmp_path / "tables", "consumers")
        return [(row["records_consumed"], row["gap"], row["covers_gap"]) for row in table]

    zone.write([consumed(180, 20.0), consumed(300, 20.0)])
    run(zone, tmp_path / "tables", "--window", "1h")
    assert consumers() == [(40.0, True, False)]
    zone.write([consumed(240, 1_000.0)], name="part-1")
    run(zone, tmp_path / "tables", "--window", "1h")
    assert consumers() == [(1_040.0, False, False)]


def test_a_late_push_into_a_day_of_other_windows_has_all_of_it_computed_again(
    zone: LandingZone, tmp_path: Path
) -> None:
    def windows(day: int) -> list[tuple[int, float]]:
        table = rows(tmp_path / "tables", "consumers")
        return sorted((row["window_s"], row["records_consumed"]) for row in table if row["date"].day == day)

    day_s = 86_400
    zone.write([consumed(180, 20.0), consumed(3_660, 30.0)])
    run(zone, tmp_path / "tables", "--window", "2h")
    zone.write([consumed(day_s, 1.0)], name="part-1")
    run(zone, tmp_path / "tables", "--window", "1h")
    assert windows(1) == [(7_200, 50.0)]
    zone.write([consumed(240, 7.0)], name="part-2")
    run(zone, tmp_path / "tables", "--window", "1h")
    assert windows(1) == [(3_600, 27.0), (3_600, 30.0)]
