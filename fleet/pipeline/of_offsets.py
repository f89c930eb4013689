"""Samples of consumer groups from a landing zone into the table `group_offsets`, once however often a run is cut off.

As with pushes, a batch is written down in the ledger before it begins. Its rows are one commit, and the batch is done
once `batches` says which windows they are of.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from fleet import schemas
from fleet.decode.arrow import Table, pa, pc, pq
from fleet.pipeline.ledger import OF_OFFSETS, Ledger, Part, Plan, day_of
from fleet.pipeline.source import LandingSource, source_name
from fleet.pipeline.spans import from_micros
from fleet.tables import catalog
from fleet.tables.log import Transaction
from fleet.tables.paths import local_path
from fleet.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class OffsetsReport:
    """What was read: files, their samples, and files that were set aside, by reason."""

    files: int = 0
    samples: int = 0
    rejects: Counter[str] = field(default_factory=Counter)


class OffsetsWriter:
    """Reads what is new of a zone's `group_offsets/`.

    Args:
        store: the tables.
        source: the zone.
        name: the zone as it was given.
        window_s: length of the windows [s].
        start: gives the session, which only a zone on another file system needs.
    """

    def __init__(
        self, store: Store, source: LandingSource, name: str, window_s: int, start: Callable[[], "SparkSession"]
    ) -> None:
        self._store, self._source, self._name, self._window_s = store, source, name, window_s
        self._start = start
        self._report = OffsetsReport()

    def write(self) -> OffsetsReport:
        """Writes batch after batch."""
        if not self._source.group_offsets and not self._store.has(catalog.GROUP_OFFSETS):
            return self._report
        ledger = Ledger(self._store, f"{OF_OFFSETS}{source_name(self._name)}", catalog.BATCHES)
        for plan in chain(ledger.unfinished(), map(ledger.plan, self._cut(ledger))):
            self._write(plan, Transaction(app_id=ledger.app_id, version=plan.number))
        return self._report

    def _cut(self, ledger: Ledger) -> Iterator[list[Part]]:
        """New files in the order of their paths; those that were read stay read, whatever their size is by now."""
        sizes = self._source.group_offsets
        batch: list[Part] = []
        for path in sorted(sizes.keys() - ledger.read_to):
            if batch and sum(part.end for part in batch) + sizes[path] > _BATCH_BYTES:
                yield batch
                batch = []
            batch.append(Part(path=path, begin=0, end=sizes[path]))
        if batch:
            yield batch

    def _write(self, plan: Plan, transaction: Transaction) -> None:
        store, windows, days = self._store, set[int](), set[Any]()
        bad: list[dict[str, Any]] = []
        count = 0
        with store.files_of(catalog.GROUP_OFFSETS).open() as writer:
            for part in plan.parts:
                found = self._read(part)
                if isinstance(found, str):
                    bad.append({"source_file": part.path, "reason": found, "date": day_of(part.path)})
                    continue
                count += found.num_rows
                for batch in found.to_batches():
                    writer.write(batch)
                windows |= _windows(found, self._window_s)
                days |= set(found["date"].unique().to_pylist())
            writer.finish()
            if not self._has(catalog.GROUP_OFFSETS, transaction):
                store.change(catalog.GROUP_OFFSETS, add=writer.take_finished(), transaction=transaction)
        if bad and not self._has(catalog.REJECTS, transaction):
            with store.files_of(catalog.REJECTS).open() as writer:
                writer.write(pa.RecordBatch.from_pylist(bad, schema=schemas.REJECTS))
                writer.finish()
                store.change(catalog.REJECTS, add=writer.take_finished(), transaction=transaction)
        self._report.files += len(plan.parts)
        self._report.samples += count
        self._report.rejects.update(row["reason"] for row in bad)
        starts: Sequence[datetime] = [from_micros(each) for each in sorted(windows)]
        row = {
            "app_id": transaction.app_id, "batch_id": plan.number, "source": self._name, "files": len(plan.parts),
            "pushes": 0, "points": 0, "repeats": 0, "rejects": dict(Counter(each["reason"] for each in bad)),
            "dates": sorted(days), "windows": starts, "window_s": self._window_s,
        }  # fmt: skip
        store.append_rows(catalog.BATCHES, [row], transaction)

    def _has(self, table: catalog.Table, transaction: Transaction) -> bool:
        last = self._store.last_version(table, transaction.app_id)
        return last is not None and last >= transaction.version

    def _read(self, part: Part) -> "Table | str":
        """The samples of a file, or why it is set aside."""
        size = self._source.group_offsets.get(part.path)
        if size != part.end:
            return "the file was taken away before it was read" if size is None else "the file has changed"
        path = f"{self._source.root}/{part.path}"
        if local_path(path) is None:
            found = self._start().read.parquet(path).toArrow()
        else:
            try:
                found = pq.read_table(local_path(path), partitioning=None)
            except (OSError, pa.ArrowException) as error:
                return f"the file of samples cannot be read: {next(iter(str(error).splitlines()), 'it is no Parquet')}"
        missing = [name for name in schemas.GROUP_OFFSETS.names[1:] if name not in found.column_names]
        if missing:
            return f"the file of samples has no column {', '.join(missing)}"
        try:
            return _conformed(found)
        except pa.ArrowException as error:
            return f"the file of samples has other columns: {next(iter(str(error).splitlines()))}"


def _conformed(found: Table) -> Table:
    """GROUP_OFFSETS, without rows that have no time."""
    found = found.filter(pc.is_valid(found["sampled_at"]))
    columns = {
        field.name: found[field.name].cast(field.type) for field in schemas.GROUP_OFFSETS if field.name != "date"
    }
    columns["date"] = columns["sampled_at"].cast(pa.date32())
    return pa.table({name: columns[name] for name in schemas.GROUP_OFFSETS.names}, schema=schemas.GROUP_OFFSETS)


def _windows(found: Table, window_s: int) -> set[int]:
    """Beginnings of the windows [us]."""
    length = timedelta(seconds=window_s) // timedelta(microseconds=1)
    times = found["sampled_at"].cast(pa.int64()).to_numpy()
    return {int(each) * length for each in set((times // length).tolist())}
