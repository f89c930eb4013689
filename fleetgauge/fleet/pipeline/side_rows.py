"""Rows beside the pushes of a landing zone (samples of consumer groups, traffic of gateways), written into their own
tables exactly once across reruns.

As with pushes, a batch is written down in the ledger before it begins. Its rows are one commit, and the batch is done
once `batches` says which windows they are of.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from fleetgauge.fleet import schemas
from fleetgauge.fleet.arrow import Table, conformed, pa, pc, pq
from fleetgauge.fleet.pipeline.ledger import OF_OFFSETS, OF_TRAFFIC, Ledger, Part, Plan, day_of
from fleetgauge.fleet.pipeline.source import Bounds, LandingSource, cut_files, source_name
from fleetgauge.fleet.pipeline.spans import from_micros
from fleetgauge.fleet.source.zone_files import GROUP_OFFSETS_FOLDER, TRAFFIC_FOLDER, opened
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRows:
    """A kind of side rows.

    Attributes:
        folder: below the zone.
        table: of the same columns, and `date`.
        at: the column of the time that they are of.
        of_source: what names of their sources begin with.
        name: for messages.
    """

    folder: str
    table: catalog.Table
    at: str
    of_source: str
    name: str


SAMPLES: Final = SideRows(
    folder=GROUP_OFFSETS_FOLDER, table=catalog.GROUP_OFFSETS, at="sampled_at", of_source=OF_OFFSETS, name="samples"
)
TRAFFIC: Final = SideRows(
    folder=TRAFFIC_FOLDER, table=catalog.TRAFFIC, at="window_start", of_source=OF_TRAFFIC, name="traffic"
)


@dataclass(slots=True, kw_only=True)
class SideReport:
    """Result of reading: files, their rows, and rejected files by reason."""

    files: int = 0
    rows: int = 0
    rejects: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class SideRowsWriter:
    """Reads new rows of a kind from a zone.

    Args:
        kind: of rows.
        store: the tables.
        source: the zone.
        name: the zone as it was given.
        window_s: length of the windows [s].
        start: gives the session, which only a zone that Spark alone reads needs.
    """

    kind: SideRows
    store: Store
    source: LandingSource
    name: str
    window_s: int
    start: Callable[[], "SparkSession"]
    _report: SideReport = field(default_factory=SideReport)

    @property
    def _sizes(self) -> Mapping[str, int]:
        return self.source.beside[self.kind.folder]

    def write(self) -> SideReport:
        """Writes all batches."""
        if not self._sizes and not self.store.has(self.kind.table):
            return self._report
        ledger = Ledger(self.store, f"{self.kind.of_source}{source_name(self.name)}", catalog.BATCHES)
        read_to = ledger.read_to(self.kind.folder) if self._sizes else {}
        new = {path: size for path, size in self._sizes.items() if path not in read_to}
        for plan in chain(ledger.unfinished(), map(ledger.plan, cut_files(new, Bounds(max_bytes=_BATCH_BYTES)))):
            self._write(plan, Transaction(app_id=ledger.app_id, version=plan.number))
        return self._report

    def _write(self, plan: Plan, transaction: Transaction) -> None:
        store, table, windows, days = self.store, self.kind.table, set[int](), set[Any]()
        bad: list[dict[str, Any]] = []
        count = 0
        with store.files_of(table).open() as writer:
            for part in plan.parts:
                rows = self._read(part)
                if isinstance(rows, str):
                    bad.append({"source_file": part.path, "reason": rows, "date": day_of(part.path)})
                    continue
                count += rows.num_rows
                writer.write_table(rows)
                windows |= self._windows(rows)
                days |= set(rows["date"].unique().to_pylist())
            if not self._has(table, transaction):
                store.change(table, add=writer.take_all(), transaction=transaction)
        if bad and not self._has(catalog.REJECTS, transaction):
            with store.files_of(catalog.REJECTS).open() as writer:
                writer.write(pa.RecordBatch.from_pylist(bad, schema=schemas.REJECTS))
                store.change(catalog.REJECTS, add=writer.take_all(), transaction=transaction)
        self._report.files += len(plan.parts)
        self._report.rows += count
        self._report.rejects.update(row["reason"] for row in bad)
        starts: Sequence[datetime] = [from_micros(each) for each in sorted(windows)]
        row = {
            "app_id": transaction.app_id, "batch_id": plan.number, "source": self.name, "files": len(plan.parts),
            "pushes": 0, "points": 0, "repeats": 0, "rejects": dict(Counter(each["reason"] for each in bad)),
            "dates": sorted(days), "windows": starts, "window_s": self.window_s,
        }  # fmt: skip
        store.append_rows(catalog.BATCHES, [row], transaction)

    def _has(self, table: catalog.Table, transaction: Transaction) -> bool:
        return self.store.last_version(table, transaction.app_id) >= transaction.version

    def _read(self, part: Part) -> "Table | str":
        """The rows of a file, or the reason why it is rejected."""
        name = f"the file of {self.kind.name}"
        size = self._sizes.get(part.path)
        taken_away = "the file was removed before it was read"
        if size != part.end:
            return taken_away if size is None else "the file has changed"
        path, system = f"{self.source.root}/{part.path}", self.source.system
        if system is None:
            rows = self.start().read.parquet(path).toArrow()
        else:
            try:
                file = opened(system, path)
            except FileNotFoundError:
                return taken_away
            try:
                rows = pq.read_table(file, partitioning=None)
            except (OSError, pa.ArrowException) as error:
                return f"{name} cannot be read: {next(iter(str(error).splitlines()), 'it is not Parquet')}"
        missing = [name for name in self.kind.table.schema.names[1:] if name not in rows.column_names]
        if missing:
            return f"{name} has no column {', '.join(missing)}"
        try:
            return self._conformed(rows)
        except pa.ArrowException as error:
            return f"{name} has other columns: {next(iter(str(error).splitlines()))}"

    def _conformed(self, rows: Table) -> Table:
        """The table's columns, without rows that lack a time."""
        at, schema = self.kind.at, self.kind.table.schema
        rows = rows.filter(pc.is_valid(rows[at]))
        columns = {name: rows[name] for name in schema.names if name != "date"}
        columns["date"] = columns[at].cast(schema.field(at).type).cast(pa.date32())
        return conformed(schema, columns, rows.num_rows)

    def _windows(self, rows: Table) -> set[int]:
        """Beginnings of the rows' windows [us]."""
        length = timedelta(seconds=self.window_s) // timedelta(microseconds=1)
        times = rows[self.kind.at].cast(pa.int64()).to_numpy()
        return {int(each) * length for each in set((times // length).tolist())}
