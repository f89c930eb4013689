"""A run that ends between any two of its writes, and the next one that mends it."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.fleet_in_disorder import CONSUMED, sums
from support.killed_runs import ENDED_WITHIN_S, QUICK_SPARK, kill_at_random, start_run
from support.standing_tables import assert_equal, contents, for_every_table
from typer.testing import CliRunner, Result

from fleet.cli import app
from fleet.tables.catalog import Table
from fleet.tables.store import Store
from tests.spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

pytestmark = pytest.mark.soak  # minutes

WRITES = (
    *("rejects", "points", "points corrected", "windows", "series", "batches", "pushes"),
    *("clients", "activity", "inventory", "versions", "metrics"),
    *("latency", "throttling", "rebalances", "consumers", "groups", "runs"),
)


class CutOffError(Exception):
    """In place of a power cut."""


class Saboteur:
    """Ends runs after the write of one table after the other, each once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = list(WRITES)
        self.cut_off_after: list[str] = []
        for name in ("append", "append_rows", "add_files", "merge", "replace"):
            monkeypatch.setattr(Store, name, self._cutting(getattr(Store, name)))
        monkeypatch.setattr(Store, "update", self._cutting(Store.update, " corrected"))

    def _cutting(self, write: Any, what: str = "") -> Any:
        def cut_off(store: Store, table: Table, frame: DataFrame, *more: Any) -> None:
            write(store, table, frame, *more)
            if self.waiting and self.waiting[0] == table.name + what:
                self.cut_off_after.append(self.waiting.pop(0))
                raise CutOffError

        return cut_off


def run(zone: LandingZone, tables: Path) -> Result:
    return CliRunner().invoke(
        app, ["run", "--source", str(zone.root), "--tables", str(tables), "--max-files", "1", *QUICK_SPARK]
    )


def fill(zone: LandingZone, files: int) -> None:
    """Files of a few clients, so that each batch's deltas lean on the series before; each with what is set aside and a
    repeat of the file's before. One client's pushes come in pairs, the later one first.
    """
    again = push(dialect.java_producer({"node-1": 3.5}))
    for number in range(files):
        later = {"received_at": NOON_US + number * 60_000_000}
        own = push(dialect.java_producer({"node-1": 4.5 + number}), **later)
        consumer = push(
            dialect.java_consumer(["a.b"]), client_id="consumer", client_instance_id=OTHER_INSTANCE, **later
        )
        other = push(for_every_table(number + 1.0), client_id="other", **later)
        at_us = NOON_US + (number ^ 1) * 60_000_000
        total = sums({CONSUMED: 10.0 * (number ^ 1)}, "cumulative", None, at_us).SerializeToString()
        disorderly = push(total, client_id="late", client_instance_id="AAAAAAAAAAAAAAAAAAAAAA", received_at=at_us)
        rows = [again, own, own, push(dialect.MALFORMED, **later), consumer, other, disorderly]
        zone.write(rows, name=f"part-{number}")
        again = own


@dataclass(frozen=True, slots=True)
class Clean:
    """A zone of two files, and its tables."""

    zone: LandingZone
    tables: dict[str, list[str]]


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    root = tmp_path_factory.mktemp("clean")
    zone = LandingZone(root / "landing")
    fill(zone, 2)
    result = run(zone, root / "tables")
    assert result.exit_code == 0, result.output
    return Clean(zone, contents(root / "tables"))


@pytest.mark.timeout(4 * ENDED_WITHIN_S)
def test_a_run_cut_off_after_any_write_is_mended_by_the_next(
    clean: Clean, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        saboteur = Saboteur(patched)
        for name in WRITES:
            result = run(clean.zone, tmp_path / "mended")
            assert isinstance(result.exception, CutOffError), (name, result.output)
        assert tuple(saboteur.cut_off_after) == WRITES
        last = run(clean.zone, tmp_path / "mended")
    assert last.exit_code == 0, last.output
    assert_equal(contents(tmp_path / "mended"), clean.tables)


@pytest.mark.timeout(7_200)
def test_a_run_killed_ten_times_at_random_moments_leaves_the_tables_of_a_clean_one(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    fill(zone, 6)
    result = run(zone, tmp_path / "clean")
    assert result.exit_code == 0, result.output
    kills = kill_and_finish(zone, tmp_path / "mended", rounds=10, seed=random.randrange(2**32))
    print(f"{kills} of 10 runs were killed before their end")
    assert kills >= 5
    assert_equal(contents(tmp_path / "mended"), contents(tmp_path / "clean"))


def kill_and_finish(zone: LandingZone, tables: Path, *, rounds: int, seed: int) -> int:
    """How many of the runs were killed before their end; the last one is left alone."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    kills = 0
    for number in range(rounds):
        process = start_run(str(zone.root), tables, "--max-files", "1")
        kills += kill_at_random(process, tables, chance, with_jvm=number % 2 == 0)
    last = start_run(str(zone.root), tables, "--max-files", "1")
    out, err = last.communicate(timeout=ENDED_WITHIN_S)
    assert last.returncode == 0, err or out
    return kills
