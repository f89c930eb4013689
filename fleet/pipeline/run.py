"""`fleet run`: what is new of a source into the standing tables, from the start of Spark to the summary."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from base.clock import Time
from fleet.errors import FleetError, TableError
from fleet.pipeline import ledger
from fleet.pipeline.answers import Answers
from fleet.pipeline.batch import BatchReport, BatchWriter
from fleet.pipeline.files import qualified
from fleet.pipeline.progress import RunProgress
from fleet.pipeline.report import RunReport, Size
from fleet.pipeline.stream import Bounds, Stream, checkpoint_id, last_finished_batch, open_stream
from fleet.session import SessionSettings, conf_for, session_conf, start_session
from fleet.sources import Source
from fleet.spark_errors import what_failed
from fleet.tables import catalog, delta
from fleet.tables.lock import only_run
from fleet.tables.maintain import Upkeep, maintain
from fleet.tables.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What an operator asked for.

    Attributes:
        source: the landing zone or topic.
        tables: root of the tables, a path or any URI that Hadoop knows.
        checkpoint: where the place in the source is kept; None is under the tables.
        bounds: how much one batch reads.
        window_s: length of the windows of gold tables [s].
        rebuild: have clients and gold tables of all days computed anew.
    """

    source: Source
    tables: str
    checkpoint: str | None = None
    bounds: Bounds = field(default_factory=Bounds)
    window_s: int = 300
    rebuild: bool = False


def run(request: RunRequest, settings: SessionSettings, *, clock: Time, notes: Console, progress: bool) -> RunReport:
    """Reads what is new and writes it to the tables.

    Args:
        request: what was asked.
        settings: how to start Spark; see `fleet.tables.session`.
        clock: the time.
        notes: where progress goes, and a line on what was lost.
        progress: show it.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    began_ms = clock.hi_res_clock_ms()
    with explained(f"fleet run of {request.source}"):
        spark = start_session(settings)
        delta.check_session(spark)
        root = qualified(spark, request.tables)
        with only_run(root), RunProgress(notes, enabled=progress) as shown:
            return _Run(Store(spark, root), request, clock, began_ms, shown).run()


def keep_up(
    tables: str,
    settings: SessionSettings,
    *,
    keep_from: datetime | None,
    vacuum_after_hours: int,
    notes: Console,
    progress: bool,
) -> dict[str, Upkeep]:
    """Compaction and retention of the tables; see `fleet.tables.maintain`.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    with explained(f"fleet maintain of {tables}"):
        spark = start_session(settings)
        delta.check_session(spark)
        root = qualified(spark, tables)
        store = Store(spark, root)
        store.read(catalog.PUSHES)  # a lock in a directory of no tables would be left behind
        with only_run(root), RunProgress(notes, enabled=progress) as shown:
            return maintain(store, keep_from=keep_from, vacuum_after_hours=vacuum_after_hours, stage=shown.stage)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns what Spark and the JVM throw into one sentence."""
    try:
        yield
    except FleetError:
        raise
    except (PySparkException, Py4JError) as error:
        if delta.is_conflict(error):
            raise TableError(
                f"{what} gave way to another run that wrote the same tables meanwhile: let only one run at a time; "
                "nothing was written twice, and the next run goes on from here"
            ) from error
        raise FleetError(f"{what} failed in Spark: {what_failed(error)}") from error


class _Run:
    """One run."""

    def __init__(self, store: Store, request: RunRequest, clock: Time, began_ms: int, progress: RunProgress) -> None:
        self._store = store
        self._spark = store.spark
        self._request = request
        self._clock = clock
        self._progress = progress
        self._began_ms = began_ms
        self._reports: list[BatchReport] = []
        self._failure: Exception | None = None

    def run(self) -> RunReport:
        request = self._request
        stream = open_stream(self._spark, request.source)
        given = request.checkpoint
        checkpoint = qualified(self._spark, given) if given else f"{self._store.root}/_checkpoints/{stream.name}"
        self._progress.stage("looking for what is new")
        self._check(checkpoint)
        waiting = stream.waiting(self._spark, checkpoint, count=self._progress.enabled)
        self._progress.expect(waiting)
        self._read(stream, checkpoint)
        self._progress.begin(None)
        days = self._compute()
        sizes = self._sizes() if self._reports or days else {}
        return replace(self._report(), lost=waiting.lost, days=days, sizes=sizes)

    def _report(self) -> RunReport:
        """What was read so far."""
        took_s = (self._clock.hi_res_clock_ms() - self._began_ms) / 1000
        return RunReport(
            source=str(self._request.source), tables=self._store.root, took_s=took_s, batches=tuple(self._reports)
        )

    def _check(self, checkpoint: str) -> None:
        """A checkpoint that goes beyond the tables would have pushes left out in silence."""
        self._store.has(catalog.POINTS)  # refuses tables of an earlier release before any of them is written
        app_id = checkpoint_id(self._spark, checkpoint)
        if app_id is None:
            return
        finished = last_finished_batch(self._spark, checkpoint)
        written = self._store.last_version(catalog.PUSHES, app_id)
        if finished is not None and (written is None or written < finished):
            raise TableError(
                f"the checkpoint {checkpoint} has read pushes that the tables in {self._store.root} do not have, as "
                "after their removal: remove it too, and everything is read again"
            )

    def _read(self, stream: Stream, checkpoint: str) -> None:
        """Has Spark hand over one batch after the other until nothing is left."""
        frame = stream.start(self._spark, self._request.bounds)
        writer: list[BatchWriter] = []

        def write(given: DataFrame, number: int) -> None:
            try:
                if not writer:
                    app_id = checkpoint_id(self._spark, checkpoint)
                    assert app_id is not None
                    writer.append(
                        BatchWriter(
                            self._store, app_id, str(self._request.source), self._request.window_s, self._progress.stage
                        )
                    )
                self._progress.begin(number)
                batch = stream.batch(self._spark, checkpoint, given, number)
                report = writer[0].write(batch)
                if report is not None:
                    self._reports.append(report)
                    self._progress.done(report, report.amount)
            except Exception as error:
                self._failure = error
                raise

        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        self._await(query)

    def _await(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except PySparkException:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            if query.isActive:
                query.stop()

    def _compute(self) -> int:
        """Computes clients and gold; how many days there were to be computed."""
        request = self._request
        self._progress.stage("looking for what changed")
        now = datetime.fromtimestamp(self._clock.milliseconds() / 1000, UTC)
        found = ledger.pending(self._store, window_s=request.window_s, now=now, everything=request.rebuild)
        if found.spans:
            answers = Answers(self._store, request.window_s, self._progress.stage)
            with session_conf(self._spark, conf_for(found.points)):
                answers.refresh(found.spans, found.read_up_to, rebuild=request.rebuild)
        if found.spans or self._reports:
            ledger.close(self._store, self._row(found, now))
        return len(found.spans)

    def _row(self, found: ledger.Pending, now: datetime) -> dict[str, Any]:
        report = self._report()
        return {
            "finished_at": now,
            "source": report.source,
            "took_s": report.took_s,
            "read_up_to": found.read_up_to,
            "batches": len(report.batches),
            **{name: report.total(name) for name in ("files", "pushes", "points", "repeats")},
            "rejects": report.rejects,
            "covered": found.covered,
            "window_s": self._request.window_s,
        }

    def _sizes(self) -> dict[str, Size]:
        sizes = {}
        for table in catalog.TABLES.values():
            if table.layer == "state" or not self._store.has(table):
                continue
            path = table.path(self._store.root)
            files, size_bytes = delta.size(self._spark, path)
            written = self._store.rows_written[table.name]
            sizes[table.name] = Size(rows_written=written, files=files, size_bytes=size_bytes)
        return sizes
