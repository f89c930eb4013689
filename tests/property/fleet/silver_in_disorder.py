"""Pushes of a small fleet into silver tables: at once, in any order and split, and by batches that are cut off."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from support.fleet.fleet_in_disorder import fleet_pushes, shuffled_batches
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.decode.stage import regroup
from fleetgauge.fleet.engines import parcels
from fleetgauge.fleet.pipeline.batch import BatchWriter
from fleetgauge.fleet.silver.late import Late
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

WRITES: Final = ("rejects", "points", "windows", "batches", "points corrected", "series", "pushes")
"""Of a batch that corrects points, in their order."""


class CutOffError(Exception):
    """In place of a power cut."""


def same(found: SilverTables, expected: SilverTables) -> None:
    """Fails unless they hold the same rows."""
    tables = found.tables()
    for name, rows in expected.tables().items():
        assert rows, f"{name} is empty: nothing would be compared"
        assert tables[name] == rows, name


def read_in_order(root: Path, seed: int) -> SilverTables:
    """All pushes of a seed at once."""
    tables = SilverTables(root)
    tables.read(fleet_pushes(random.Random(seed)))
    return tables


def read_in_disorder(
    root: Path, seed: int, monkeypatch: pytest.MonkeyPatch, *, batches: int, rows_at_once: int
) -> SilverTables:
    """All pushes of a seed in any order, some of them twice; fails if no late one corrects points.

    Args:
        root: where the tables are made.
        seed: of the pushes and their order.
        monkeypatch: for the sizes of chunks.
        batches: how many.
        rows_at_once: that a task is handed and decodes together; if they are few, late instances come one by one too.
    """
    if rows_at_once < 100:
        monkeypatch.setattr(parcels, "ROWS_AT_ONCE", rows_at_once)
        monkeypatch.setattr("fleetgauge.fleet.silver.batch.regroup", partial(regroup, max_rows=rows_at_once))
        monkeypatch.setattr(Late, "rows_at_once", 1)
    corrected = 0
    correct = BatchWriter._correct

    def counted(writer: BatchWriter, rows: pa.Table) -> None:
        nonlocal corrected
        corrected += rows.num_rows
        correct(writer, rows)

    monkeypatch.setattr(BatchWriter, "_correct", counted)
    chance = random.Random(seed)
    tables = SilverTables(root)
    for batch in shuffled_batches(chance, fleet_pushes(chance), batches=batches):
        tables.read(batch)
    assert corrected
    return tables


def read_cut_off(root: Path, seed: int, writes: Sequence[str]) -> SilverTables:
    """All pushes of a seed in any order, of which each batch but the first ends before one of the writes, and is read
    again.
    """
    chance = random.Random(seed)
    tables = SilverTables(root)
    first, *batches = shuffled_batches(chance, fleet_pushes(chance), batches=len(writes) + 1)
    tables.read(first)  # which corrects nothing
    for write, batch in zip(writes, batches, strict=True):
        with pytest.MonkeyPatch.context() as patched:
            _cut_off(patched, write)
            with pytest.raises(CutOffError):
                tables.read(batch)
        assert tables.read_again() is not None
    told = [row["batch_id"] for row in tables.rows(catalog.BATCHES)]
    assert sorted(told) == list(range(len(writes) + 1))
    return tables


def _cut_off(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    def cutting(write: Any) -> Any:
        def cut(store: Store, table: catalog.Table, add: Any, *more: Any, **named: Any) -> Any:
            corrects = table is catalog.POINTS and "transaction" not in named
            if before == table.name + (" corrected" if corrects else ""):
                raise CutOffError
            return write(store, table, add, *more, **named)

        return cut

    for name in ("change", "append_rows"):
        monkeypatch.setattr(Store, name, cutting(getattr(Store, name)))
