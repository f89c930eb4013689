"""One batch of a source into the silver tables, once however often it runs.

The writes come in an order that makes a batch which was cut off between any two of them come out the same when it runs
again: with the same files or offsets and the same number, as its plan says (`fleet.pipeline.ledger`).

1. `rejects` and `points` are appended under the batch's transaction. Points are compared with `series` as the batch
   before left it. Their files are written while the batch is decoded, and count once the transaction names them. Where
   pushes came late, the standing points that follow them are corrected: a second try of the batch leaves the batch's
   own points out of what stands, so that it makes the same corrections, and a second write of them is nothing.
   The partial wide rows of all these go to `windows`, with those that correct earlier ones.
2. `series` takes the batch's last points. From here on it is not what the points were compared with, but they are
   written, and a second write of them is nothing.
3. `batches` says what the batch held, for the gold tables.
4. `pushes`, by which repeats are told, comes last: what is in it is done altogether. A batch whose transaction is in it
   is passed over.

No batch of another source comes between two tries of one (`Ledger.check_others`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from fleet import schemas
from fleet.decode.arrow import pa
from fleet.decode.rows import POINT_ROWS
from fleet.errors import LandingError
from fleet.local_rows import local_rows
from fleet.pipeline.late import small, standing
from fleet.pipeline.ledger import day_of
from fleet.pipeline.source import MAX_BAD_FILES, Batch
from fleet.pipeline.spans import Span, from_micros, within
from fleet.session import conf_for, session_conf
from fleet.silver import batch as silver
from fleet.silver import points, pushes
from fleet.silver.rejects import rejects
from fleet.spark_errors import unreadable_file
from fleet.tables import catalog
from fleet.tables.log import Transaction
from fleet.tables.store import Store
from fleet.tables.written_file import WrittenFile
from telemetry.push_record import SCHEMA_VERSION

MAX_REASONS: Final = 50
"""Reasons that are counted one by one."""

TIMES: Final = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
"""Between which a push can have been received."""

# Rows of PACKED, up to some MB each, that are handed to Python together.
_FEW_CHUNKS: Final = {"spark.sql.execution.arrow.maxRecordsPerBatch": "4"}
_POSITION: Final = ("source_file", "source_row")
_POSITIONS: Final = pa.schema([schemas.BRONZE.field(name) for name in _POSITION])
_MARKS: Final = ("delta", "delta_sum", "reset", "gap", "covers_gap", "before_subscription")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch held: `rejects` counts pushes set aside by reason, and files by theirs, and `spans` has the first
    and last time of receipt of each day.
    """

    number: int
    files: int = 0
    pushes: int = 0
    points: int = 0
    repeats: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    spans: Sequence[tuple[datetime, datetime]] = ()

    @property
    def amount(self) -> int:
        """Files of a landing zone, or records of a topic."""
        return self.files or self.pushes + self.repeats + sum(self.rejects.values())


class BatchWriter:
    """Writes the batches of one source.

    Args:
        store: the tables.
        app_id: which transactions are counted under.
        source: for an operator.
        window_s: length of the windows of wide rows [s].
        stage: told what is being done.
    """

    def __init__(self, store: Store, app_id: str, source: str, window_s: int, stage: Callable[[str], None]) -> None:
        self._store = store
        self._app_id = app_id
        self._source = source
        self._window_s = window_s
        self._stage = stage

    def write(self, batch: Batch) -> BatchReport | None:
        """Writes a batch; None if all of it was there.

        Raises:
            LandingError: pushes are of a newer schema than this release reads, or too many files cannot be read.
        """
        last = self._store.last_version(catalog.PUSHES, self._app_id)
        if last is not None and last >= batch.number:
            return None
        with self._read(batch) as read:
            self._write(batch, read)
            return read.report

    def _write(self, batch: Batch, read: "_Read") -> None:
        transaction = Transaction(app_id=self._app_id, version=batch.number)
        if read.report.rejects or not self._store.has(catalog.REJECTS):
            self._append(catalog.REJECTS, self._new_rejects(read), transaction)
        if read.report.points:
            self._add_points(read, transaction)
            self._correct_points(read, transaction)
            self._append(catalog.WINDOWS, silver.unpack(read.packed, "windows"), transaction)
            self._stage(catalog.SERIES.name)
            self._store.merge(catalog.SERIES, silver.unpack(read.packed, "series"), transaction)
        self._store.append_rows(catalog.BATCHES, [self._batch_row(read.report)], transaction)
        self._append(catalog.PUSHES, pushes.pushes(read.counted), transaction)

    def _add_points(self, read: "_Read", transaction: Transaction) -> None:
        self._stage(catalog.POINTS.name)
        if read.files:
            files = [WrittenFile(**row.asDict()) for row in read.files]
            self._store.add_files(catalog.POINTS, files, transaction)
        else:
            self._store.append(catalog.POINTS, silver.unpack(read.packed, "marked"), transaction)

    def _correct_points(self, read: "_Read", transaction: Transaction) -> None:
        if not read.corrected:
            return
        self._stage("correcting points")
        # Beside the points of the same batch, which the table counts under the source's own id.
        own = replace(transaction, app_id=f"{transaction.app_id}-corrections")
        corrected = silver.unpack(read.packed, "corrected_to")
        where = within(_by_day(corrected.select(F.col("received_at").alias("at"))), "received_at")
        self._store.update(catalog.POINTS, corrected, _MARKS, where, own)

    def _points_to(self, batch: Batch) -> silver.PointsTo:
        """Files of the table, where executors can write them without Spark; none where an earlier try committed its."""
        written = self._store.last_version(catalog.POINTS, self._app_id)
        if written is not None and written >= batch.number:
            return silver.Nowhere()
        self._store.make(catalog.POINTS)
        return self._store.files_of(catalog.POINTS, POINT_ROWS) or silver.InRows()

    def _append(self, table: catalog.Table, frame: DataFrame, transaction: Transaction) -> None:
        self._stage(table.name)
        self._store.append(table, frame, transaction)

    def _previous(self, checked: DataFrame) -> DataFrame | None:
        """The remembered series of the instances that have pushes in this batch."""
        if not self._store.has(catalog.SERIES):
            return None
        instances = checked.where(F.col("reason").isNull()).select(*schemas.INSTANCE).distinct()
        # The batch is still read when it has been merged into them.
        remembered = self._store.read(catalog.SERIES, pinned=True)
        return remembered.join(instances, on=list(schemas.INSTANCE), how="left_semi")

    def _new_rejects(self, read: "_Read") -> DataFrame:
        """What lies where an earlier ledger has had it set aside already is not set aside again."""
        found = rejects(read.counted)
        if read.report.rejects and read.report.repeats:
            # A row that cannot be read is one for itself, however often its push is there.
            again = read.repeated.join(found.select("push_id"), on="push_id", how="left_semi")
            found = found.unionByName(rejects(points.count(again)))
        found = found.unionByName(read.bad_files)
        if not read.report.rejects or not self._store.has(catalog.REJECTS):
            return found
        known = self._store.read(catalog.REJECTS).select(*_POSITION).distinct()
        same = [F.col(f"found.{name}").eqNullSafe(F.col(f"known.{name}")) for name in _POSITION]
        return found.alias("found").join(known.alias("known"), on=same[0] & same[1], how="left_anti")

    def _batch_row(self, report: BatchReport) -> dict[str, Any]:
        return {
            "app_id": self._app_id,
            "batch_id": report.number,
            "source": self._source,
            "files": report.files,
            "pushes": report.pushes,
            "points": report.points,
            "repeats": report.repeats,
            "rejects": report.rejects,
            "dates": [first.date() for first, _ in report.spans],
            "spans": [{"first": first, "last": last} for first, last in report.spans],
        }

    @contextmanager
    def _read(self, batch: Batch) -> Iterator["_Read"]:
        """The batch, decoded, and kept by Spark's workers on disk while it is written."""
        bad = {**batch.unfit, **self._known_bad(batch)}
        while True:
            kept = _Kept()
            try:
                read = self._decode(batch, bad, kept)
            except (PySparkException, Py4JError) as error:
                kept.release()
                _set_aside(batch, bad, error)
                continue
            except BaseException:
                kept.release()
                raise
            try:
                with session_conf(read.packed.sparkSession, {**_FEW_CHUNKS, **conf_for(read.report.points)}):
                    yield read
            finally:
                kept.release()
            return

    def _known_bad(self, batch: Batch) -> dict[str, str]:
        """Files that this very batch has set aside before it was cut off, even if they can be read by now."""
        last = self._store.last_version(catalog.REJECTS, self._app_id)
        if not batch.files or last is None or last < batch.number:
            return {}
        of_files = self._store.read(catalog.REJECTS).where(F.col("source_row").isNull())
        rows = of_files.select("source_file", "reason").collect()
        return {row.source_file: row.reason for row in rows if row.source_file in batch.files}

    def _decode(self, batch: Batch, bad: dict[str, str], kept: "_Kept") -> "_Read":
        self._stage("reading")
        spark = self._store.spark
        bronze = batch.bronze(spark, bad)
        if batch.records is not None:
            bronze = kept.keep(bronze)  # a topic is read once
        checked = pushes.check(_with_known_times(bronze))
        span = _span(checked)
        if batch.records is None:
            _refuse_newer(span.schema_version)
        everything = checked
        repeats = kept.keep(self._repeats(checked, span, kept))
        repeated = repeats.count()
        if repeated:
            repeats = small(repeats, repeated)
            checked = pushes.drop_repeats(checked, repeats)
        self._stage("decoding")
        points_to = self._points_to(batch)
        packed = kept.keep(silver.make(checked, self._previous(checked), points_to, self._window_s))
        totals = _totals(packed)
        if totals.late_pushes:
            self._stage("comparing late pushes")
            with session_conf(spark, _FEW_CHUNKS):
                late = kept.keep(silver.unpack(packed, "late"))
                late.count()
            neighbours = standing(self._store.read(catalog.POINTS, pinned=True), late)
            packed = packed.unionByName(kept.keep(silver.make_late(late, *neighbours, points_to, self._window_s)))
            totals = _totals(packed)
        rows = [_bad_file(path, reason) for path, reason in bad.items()]
        report = _report(batch, packed, totals, repeated, bad)
        bad_files = local_rows(spark, rows, schemas.REJECTS)
        files = packed.select(F.inline("files")).collect()
        return _Read(
            packed=packed,
            repeated=everything.join(repeats, on=list(_POSITION), how="left_semi"),
            bad_files=bad_files,
            report=report,
            files=files,
            corrected=totals.corrected_points,
        )

    def _repeats(self, checked: DataFrame, span: Row, kept: "_Kept") -> DataFrame:
        """Positions of pushes that are there more than once in this batch, or came in an earlier one.

        A push id names a time of receipt, and repeats have the same: only the time that the batch spans is looked at.
        """
        ids = kept.keep(pushes.repeated_ids(checked))
        if repeated := ids.count():
            within = pushes.find_repeats(checked, small(ids, repeated))
        else:
            within = local_rows(self._store.spark, [], _POSITIONS)
        if not self._store.has(catalog.PUSHES):
            return within
        in_span = F.col("date").isin(span.dates) & F.col("received_at").between(span.first, span.last)
        known = self._store.read(catalog.PUSHES).where(in_span).select("date", "push_id")
        good = checked.where(F.col("reason").isNull()).withColumn("date", F.to_date("received_at"))
        of_earlier = good.join(known, on=["date", "push_id"], how="left_semi").select(*_POSITION)
        return within.union(of_earlier).distinct()


def _set_aside(batch: Batch, bad: dict[str, str], error: Exception) -> None:
    """Notes the file that could not be read, or raises what is no file's fault."""
    path = unreadable_file(error)
    if path is None or path not in batch.files or path in bad:
        raise error
    if len(bad) == MAX_BAD_FILES:
        raise LandingError(
            f"more than {MAX_BAD_FILES} files cannot be read, {path} among them: is this a landing zone, and may they "
            "be read?"
        ) from error
    bad[path] = "the file cannot be read: it is damaged, or gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A batch as it is written: PACKED, CHECKED of repeats, REJECTS of whole files, what there is, FILES of its points.

    `corrected` counts the standing points that it corrects.
    """

    packed: DataFrame
    repeated: DataFrame
    bad_files: DataFrame
    report: BatchReport
    files: list[Row]
    corrected: int

    @property
    def counted(self) -> DataFrame:
        """COUNTED of it."""
        return silver.unpack(self.packed, "counted")


class _Kept:
    """Frames that Spark's workers keep on disk until they are released."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame.persist(StorageLevel.DISK_ONLY))
        return self._frames[-1]

    def release(self) -> None:
        for frame in self._frames:
            frame.unpersist()


def _span(checked: DataFrame) -> Row:
    """The newest `schema_version` of all rows, and of the good ones the `first` and `last` time and the `dates`."""
    received_at = F.when(F.col("reason").isNull(), F.col("received_at"))
    return checked.select(
        F.max("schema_version").alias("schema_version"),
        F.min(received_at).alias("first"),
        F.max(received_at).alias("last"),
        F.collect_set(F.to_date(received_at)).alias("dates"),
    ).collect()[0]


def _refuse_newer(version: int | None) -> None:
    """A newer sink writes the zone: to set its pushes aside for good would lose what an upgrade can read."""
    if version is not None and version > SCHEMA_VERSION:
        raise LandingError(
            f"the landing zone has pushes of schema_version {version}, and this release reads up to {SCHEMA_VERSION}: "
            "upgrade Fleetgauge here, and run again; nothing of this batch was written"
        )


def _bad_file(path: str, reason: str) -> dict[str, Any]:
    """A row of REJECTS for a whole file: of no push, and of the day that its directory in the landing zone names."""
    return dict.fromkeys(schemas.REJECTS.names) | {"source_file": path, "reason": reason, "date": day_of(path)}


def _with_known_times(bronze: DataFrame) -> DataFrame:
    """Sets aside what no clock of a broker says: a day of its own for every such row would drown the tables."""
    in_time = F.col("received_at").between(*(F.lit(moment) for moment in TIMES))
    said = F.lit(f"received_at is not between the years {TIMES[0].year} and {TIMES[1].year}")
    bad = F.col("received_at").isNotNull() & ~in_time
    return bronze.withColumn("fault", F.coalesce("fault", F.when(bad, said))).withColumn(
        "received_at", F.when(~bad, F.col("received_at"))
    )


def _totals(packed: DataFrame) -> Row:
    """Counts what there is, which has Spark keep it."""
    counts = ("pushes", "points", "rejects", "late_pushes", "corrected_points")
    return packed.select(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts)).collect()[0]


def _report(batch: Batch, packed: DataFrame, totals: Row, repeats: int, bad: dict[str, str]) -> BatchReport:
    return BatchReport(
        number=batch.number,
        files=len(batch.files),
        pushes=totals.pushes,
        points=totals.points,
        repeats=repeats,
        rejects=_by_reason(silver.unpack(packed, "counted"), totals.rejects, list(bad.values())),
        spans=_spans(packed),
    )


def _spans(packed: DataFrame) -> list[Span]:
    """First and last time of receipt of each day."""
    return sorted(_by_day(packed.select(F.explode("seen_at").alias("at"))).values())


def _by_day(times: DataFrame) -> dict[date, Span]:
    ends = F.unix_micros(F.min("at")).alias("first"), F.unix_micros(F.max("at")).alias("last")
    rows = times.groupBy(F.to_date("at").alias("day")).agg(*ends).collect()
    return {row.day: (from_micros(row["first"]), from_micros(row["last"])) for row in rows}


def _by_reason(counted: DataFrame, total: int, of_files: list[str]) -> dict[str, int]:
    """Counts by reason, what a reason quotes left out; the rarest as one where there are many."""
    found = dict(Counter(of_files))
    if not total:
        return found
    kind = F.regexp_replace("reason", r"'[^']*'|\d{3,}", "...")
    rows = counted.where(F.col("reason").isNotNull()).groupBy(kind.alias("kind")).count()
    for row in rows.orderBy(F.desc("count"), "kind").limit(MAX_REASONS).collect():
        found[row.kind] = row["count"]
    if rest := total - sum(found.values()) + len(of_files):
        found["others"] = rest
    return found
