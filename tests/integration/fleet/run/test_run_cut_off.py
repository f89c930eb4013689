"""A run that ends between any two of its writes, and the next one that mends it."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from spark.landing_zone import LandingZone
from support.fleet.killed_runs import ON_SPARK, RUN_S, fill, kill_at_random, start_run
from support.fleet.standing_tables import assert_equal, contents
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.tables.catalog import POINTS, Table
from fleetgauge.fleet.tables.store import Store

WRITES = (
    *("ledger", "rejects", "points", "windows", "batches", "points corrected", "series", "pushes"),
    *("clients", "activity", "inventory", "versions", "metrics"),
    *("latency", "throttling", "rebalances", "consumers", "groups", "runs"),
)


class CutOffError(Exception):
    """In place of a power cut."""


class Saboteur:
    """Ends runs after the write of one table after the other, each once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *tables: str) -> None:
        self.waiting = list(tables)
        self.cut_off_after: list[str] = []
        for name in ("change", "append_rows", "replace"):
            monkeypatch.setattr(Store, name, self._cutting(getattr(Store, name)))

    def _cutting(self, write: Any) -> Any:
        def cut_off(store: Store, table: Table, *more: Any, **named: Any) -> Any:
            found = write(store, table, *more, **named)
            corrects = table is POINTS and "transaction" not in named
            if self.waiting and self.waiting[0] == table.name + (" corrected" if corrects else ""):
                self.cut_off_after.append(self.waiting.pop(0))
                raise CutOffError
            return found

        return cut_off


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    return LandingZone(tmp_path / "landing")


def run(zone: LandingZone, tables: Path) -> Result:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleetgauge.fleet.pipeline.run._started", lambda _: pytest.fail("Spark was started"))
        return CliRunner().invoke(app, ["run", "--source", str(zone.root), "--tables", str(tables), "--max-files", "1"])


@dataclass(frozen=True, slots=True)
class Clean:
    """A zone of two files, and its tables."""

    zone: LandingZone
    tables: dict[str, list[str]]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    root = tmp_path_factory.mktemp("clean")
    zone = LandingZone(root / "landing")
    fill(zone, 2)
    result = run(zone, root / "tables")
    assert result.exit_code == 0, result.output
    return Clean(zone, contents(root / "tables"))


def test_a_run_cut_off_after_any_write_is_mended_by_the_next(
    clean: Clean, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        saboteur = Saboteur(patched, *WRITES)
        for name in WRITES:
            result = run(clean.zone, tmp_path / "mended")
            assert isinstance(result.exception, CutOffError), (name, result.output)
        assert tuple(saboteur.cut_off_after) == WRITES
        last = run(clean.zone, tmp_path / "mended")
    assert last.exit_code == 0, last.output
    assert_equal(contents(tmp_path / "mended"), clean.tables)


def test_upkeep_after_a_run_was_cut_off_leaves_what_the_next_one_reads(clean: Clean, tmp_path: Path) -> None:
    """The points as they were before the batch, which corrected them: their files are no part of the table any more."""
    tables = tmp_path / "mended"
    with pytest.MonkeyPatch.context() as patched:
        Saboteur(patched, "points corrected")
        assert isinstance(run(clean.zone, tables).exception, CutOffError)
    assert maintain(tables).exit_code == 0
    files = len(list(tables.rglob("points/**/*.parquet")))
    last = run(clean.zone, tables)
    assert last.exit_code == 0, last.output
    assert_equal(contents(tables), clean.tables)
    assert maintain(tables).exit_code == 0
    assert len(list(tables.rglob("points/**/*.parquet"))) < files


def maintain(tables: Path) -> Result:
    return CliRunner().invoke(app, ["maintain", "--tables", str(tables), "--vacuum-after", "0h"])


def test_runs_killed_at_random_moments_leave_the_tables_of_a_clean_one(zone: LandingZone, tmp_path: Path) -> None:
    kill_and_compare(zone, tmp_path, rounds=5)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("engine", [(), ON_SPARK], ids=["in-process", "on-spark"])
def test_many_runs_killed_at_random_moments_leave_the_tables_of_a_clean_one(
    zone: LandingZone, tmp_path: Path, engine: tuple[str, ...]
) -> None:
    kill_and_compare(zone, tmp_path, *engine, rounds=10 if engine else 20)


def kill_and_compare(zone: LandingZone, root: Path, *more: str, rounds: int) -> None:
    """At least half of so many runs are killed before their end, as many as that takes; the last one is left alone.

    Tables that a run has finished are compared, and others begun: a killed run needs something to do.
    """
    fill(zone, 6)
    result = run(zone, root / "clean")
    assert result.exit_code == 0, result.output
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    tables, kills, number = root / "mended", 0, 0
    while number < rounds or kills < rounds // 2:
        process = start_run(str(zone.root), tables, "--max-files", "1", *more)
        if kill_at_random(process, tables, chance, with_jvm=number % 2 == 0, linger_s=1.0 if more else 0.1):
            kills += 1
        else:
            assert_equal(contents(tables), contents(root / "clean"))
            tables = root / f"mended-{number}"
        number += 1
        assert number < 10 * rounds, f"only {kills} runs were killed before their end"
    last = start_run(str(zone.root), tables, "--max-files", "1", *more)
    out, err = last.communicate(timeout=RUN_S)
    assert last.returncode == 0, err or out
    print(f"{kills} of {number} runs were killed before their end")
    assert_equal(contents(tables), contents(root / "clean"))
