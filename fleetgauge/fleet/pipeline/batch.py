"""Writes one batch of a source into the silver tables, exactly once across reruns.

Tasks make the rows and write files of them (`fleet.silver.batch`), which count once a commit here names them. The
commits come in an order that makes a batch which was cut off between any two of them come out the same when it runs
again: with the same files or offsets and the same number, as its plan says (`fleet.pipeline.ledger`). What has the
batch's transaction is not written again.

1. `rejects` and `points`. A second try leaves the batch's own points out of what stands around late pushes.
2. `windows`: partial wide rows of the points, and those that correct earlier ones where pushes came late.
3. `batches` says what the batch held, for the gold tables.
4. `points` that late pushes change are corrected: from here on a second try finds nothing to correct, which is told
   in `windows` and `batches` already.
5. `series` takes the batch's last points: from here on it is not what the points were compared with.
6. `pushes`, by which repeats are told, comes last: what is in it is done altogether. A batch whose transaction is in it
   is passed over.

No batch of another source comes between two tries of one (`Ledger.check_others`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet import schemas, shards
from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.engines.engine import Batch, Engine
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.measures.rows import one
from fleetgauge.fleet.pipeline.ledger import day_of
from fleetgauge.fleet.pipeline.spans import from_micros
from fleetgauge.fleet.silver.batch import MakeSilver, SilverResult
from fleetgauge.fleet.silver.correct import CORRECTED, Correct, files_with
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile
from fleetgauge.telemetry.push_record import SCHEMA_VERSION

MAX_REASONS: Final = 50
"""Most reasons that are counted separately."""

_POINTS: Final = schemas.encoded(schemas.POINTS)
_EPOCH: Final = date(1970, 1, 1)
_WRITTEN: Final = (catalog.REJECTS, catalog.POINTS, catalog.WINDOWS, catalog.SERIES, catalog.PUSHES)
_READ: Final = (catalog.REJECTS, catalog.POINTS, catalog.SERIES, catalog.PUSHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """Content of one batch: `rejects` counts rejected pushes and files by reason; `days` are the days of receipt of its
    pushes; `windows` are the beginnings of windows with its pushes, or with points that it corrected.
    """

    number: int
    files: int = 0
    pushes: int = 0
    points: int = 0
    repeats: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    days: Sequence[date] = ()
    windows: Sequence[datetime] = ()

    @property
    def amount(self) -> int:
        """Files of a landing zone, or records of a topic."""
        return self.files or self.pushes + self.repeats + sum(self.rejects.values())


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Writes the batches of one source.

    Args:
        store: the tables.
        engine: runs the tasks.
        app_id: which transactions are counted under.
        source: for an operator.
        window_s: length of the windows of wide rows [s].
        stage: called with the current step.
    """

    store: Store
    engine: Engine
    app_id: str
    source: str
    window_s: int
    stage: Callable[[str], None]

    def write(self, batch: Batch) -> BatchReport | None:
        """Writes a batch; returns None if all of it was written before.

        Raises:
            LandingError: pushes are of a newer schema than this release reads, or too many files cannot be read.
        """
        if self._has(catalog.PUSHES, batch):
            return None
        self.stage("decoding")
        bad = {**batch.unfit, **self._known_bad(batch)}
        task = self._task(batch)
        results = self.engine.make(batch, bad, task)
        _refuse_newer(batch, task, results)
        report = _report(batch, results, bad)
        self._commit(batch, report, results, bad)
        return report

    def _has(self, table: catalog.Table, batch: Batch) -> bool:
        return self.store.last_version(table, self.app_id) >= batch.number

    def _task(self, batch: Batch) -> MakeSilver:
        store = self.store
        self._part_series()
        stored = {table.name: store.snapshot(table) for table in _READ if store.has(table)}
        if catalog.POINTS.name in stored:  # without what an earlier try of the batch wrote and corrected
            points = store.log(catalog.POINTS)
            stored[catalog.POINTS.name] = points.snapshot_before(self._transaction(batch), _POINTS)
        write = {table.name: store.files_of(table) for table in _WRITTEN if not self._has(table, batch)}
        return MakeSilver(write=write, stored=stored, window_s=self.window_s, shards=self.engine.shards)

    def _transaction(self, batch: Batch) -> Transaction:
        return Transaction(app_id=self.app_id, version=batch.number)

    def _commit(self, batch: Batch, report: BatchReport, of: Iterable[SilverResult], bad: Mapping[str, str]) -> None:
        store, transaction = self.store, self._transaction(batch)
        files = [file for each in of for file in each.files]
        files += self._bad_files(batch, bad)
        for table in (catalog.REJECTS, catalog.POINTS, catalog.WINDOWS):
            self.stage(table.name)
            store.change(table, files, transaction=transaction)
        store.append_rows(catalog.BATCHES, [self._batch_row(report)], transaction)
        self._correct(pa.Table.from_batches([rows for each in of for rows in each.corrected], schema=CORRECTED))
        self.stage(catalog.SERIES.name)
        written = set[int]().union(*(each.shards for each in of))
        old = [path for path, shard, _ in self._series() if shard in written]
        old = [] if self._has(catalog.SERIES, batch) else old
        store.change(catalog.SERIES, files, old, transaction)
        self.stage(catalog.PUSHES.name)
        store.change(catalog.PUSHES, files, transaction=transaction)

    def _correct(self, corrected: Table) -> None:
        """Corrects points in the tables; a second try of the batch makes the same corrections again."""
        if not corrected.num_rows:
            return
        self.stage("correcting points")
        points = self.store.log(catalog.POINTS).snapshot(_POINTS)
        paths = files_with(points, corrected)
        task = Correct(points, self.store.files_of(catalog.POINTS), corrected)
        written = dict(zip(paths, self.engine.map(task, paths), strict=True))
        files = [file for path in paths for file in written[path]]
        self.store.change(catalog.POINTS, files, [path for path in paths if written[path]])

    def _bad_files(self, batch: Batch, bad: Mapping[str, str]) -> list[WrittenFile]:
        """REJECTS rows of whole files, without those that an earlier ledger already had rejected."""
        if not bad or self._has(catalog.REJECTS, batch):
            return []
        known = self._set_aside(bad)
        rows = [_bad_file(path, reason) for path, reason in bad.items() if path not in known]
        with self.store.files_of(catalog.REJECTS).open() as writer:
            writer.write(pa.RecordBatch.from_pylist(rows, schema=schemas.REJECTS))
            return writer.take_all()

    def _series(self) -> list[tuple[str, int, int]]:
        """The files of SERIES, and the shards of the least and the greatest id in each."""
        files, count = self.store.log(catalog.SERIES).files(), self.engine.shards
        ends = (shards.shards_of(one(files[f"{end}.client_instance_id"]), count).tolist() for end in ("min", "max"))
        return list(zip(files["path"].to_pylist(), *ends, strict=True))

    def _part_series(self) -> None:
        """Splits files that have several shards, as a run with fewer shards or `maintain` writes them, since a task
        rewrites all SERIES of a shard.
        """
        if not self.store.has(catalog.SERIES):
            return
        mixed = [path for path, first, last in self._series() if first != last]
        if not mixed:
            return
        series = self.store.snapshot(catalog.SERIES)
        with self.store.files_of(catalog.SERIES).open() as writer:
            for path in mixed:
                table = pa.Table.from_batches(series.scan(paths=[path]), schemas.SERIES)
                for _, rows in shards.by_shard(table, self.engine.shards):
                    writer.write_table(rows.combine_chunks())
                    writer.finish()
            self.store.change(catalog.SERIES, writer.take_finished(), mixed)

    def _known_bad(self, batch: Batch) -> dict[str, str]:
        """Files that this batch rejected before it was interrupted, even if they have become readable."""
        return self._set_aside(batch.files) if self._has(catalog.REJECTS, batch) else {}

    def _set_aside(self, files: Iterable[str]) -> dict[str, str]:
        """The files among these that are rejected as a whole, with the reason."""
        if not self.store.has(catalog.REJECTS):
            return {}
        of_files = pc.field("source_row").is_null() & pc.field("source_file").isin(list(files))
        rejected = self.store.log(catalog.REJECTS).snapshot().scan(["source_file", "reason"], of_files)
        return {row["source_file"]: row["reason"] for rows in rejected for row in rows.to_pylist()}

    def _batch_row(self, report: BatchReport) -> dict[str, Any]:
        return {
            "app_id": self.app_id,
            "batch_id": report.number,
            "source": self.source,
            "dates": report.days,
            **{name: getattr(report, name) for name in ("files", "pushes", "points", "repeats", "rejects", "windows")},
            "window_s": self.window_s,
        }


def _refuse_newer(batch: Batch, task: MakeSilver, results: Sequence[SilverResult]) -> None:
    """Raises LandingError for pushes of a newer sink: rejecting them would lose what a later release can read."""
    version = max((each.schema_version for each in results), default=0)
    if batch.records is None and version > SCHEMA_VERSION:
        for to in task.write.values():
            to.remove(file for each in results for file in each.files)
        raise LandingError(
            f"the landing zone has pushes of schema_version {version}, and this release reads up to {SCHEMA_VERSION}: "
            "upgrade Fleetgauge and run again; nothing of this batch was written"
        )


def _bad_file(path: str, reason: str) -> dict[str, Any]:
    """A REJECTS row for a whole file: without push, dated by the file's directory in the landing zone."""
    return {"source_file": path, "reason": reason, "date": day_of(path)}


def _report(batch: Batch, results: Sequence[SilverResult], bad: dict[str, str]) -> BatchReport:
    days = set[int]().union(*(each.days for each in results))
    windows = set[int]().union(*(each.windows for each in results))
    rejects = sum((each.rejects for each in results), Counter(bad.values()))
    return BatchReport(
        number=batch.number,
        files=len(batch.files),
        pushes=sum(each.pushes for each in results),
        points=sum(each.points for each in results),
        repeats=sum(each.repeats for each in results),
        rejects=_most(rejects),
        days=[_EPOCH + timedelta(days=day) for day in sorted(days)],
        windows=[from_micros(window) for window in sorted(windows)],
    )


def _most(rejects: Counter[str]) -> dict[str, int]:
    """Counts by reason; if there are many reasons, the rarest are merged into one."""
    ordered = sorted(rejects.items(), key=lambda item: (-item[1], item[0]))
    counts = dict(ordered[:MAX_REASONS])
    if rest := sum(count for _, count in ordered[MAX_REASONS:]):
        counts["others"] = rest
    return counts
