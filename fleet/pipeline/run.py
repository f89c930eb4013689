"""`fleet run`: what is new of a source into the standing tables, from the start of Spark to the summary."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Final

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from base.clock import Time
from fleet.errors import FleetError, TableError
from fleet.pipeline import pending
from fleet.pipeline.answers import Answers
from fleet.pipeline.batch import BatchReport, BatchWriter
from fleet.pipeline.ledger import Ledger, Plan
from fleet.pipeline.progress import RunProgress
from fleet.pipeline.report import RunReport, Size
from fleet.pipeline.source import Bounds, LandingSource, TopicStretch, source_name
from fleet.selection import Days
from fleet.session import SessionSettings, conf_for, session_conf, start_session
from fleet.sources import Source
from fleet.spark_errors import what_failed
from fleet.tables import catalog, delta
from fleet.tables.lock import only_run
from fleet.tables.maintain import Upkeep, maintain
from fleet.tables.paths import qualified
from fleet.tables.store import Store
from fleet.topic.source import TopicSource

_COLOURS: Final = re.compile("\x1b\\[[0-9;]*m|\u21b3")
"""What delta-rs has in its messages for terminals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What an operator asked for.

    Attributes:
        source: the landing zone or topic.
        tables: root of the tables, a path or a URI that both Spark and delta-rs know.
        bounds: how much one batch reads.
        window_s: length of the windows of gold tables [s].
        rebuild: have clients and gold tables of these days computed anew.
        redecode: a day whose pushes are read again from the landing zone, in place of what is in the tables.
    """

    source: Source
    tables: str
    bounds: Bounds = field(default_factory=Bounds)
    window_s: int = 300
    rebuild: Days | None = None
    redecode: date | None = None


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
        store = _store(request.tables, settings)
        with only_run(store.root), RunProgress(notes, enabled=progress) as shown:
            return _Run(store, request, clock, began_ms, shown).run()


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
        store = _store(tables, settings)
        store.read(catalog.PUSHES)  # a lock in a directory of no tables would be left behind
        with only_run(store.root), RunProgress(notes, enabled=progress) as shown:
            return maintain(store, keep_from=keep_from, vacuum_after_hours=vacuum_after_hours, stage=shown.stage)


def _store(tables: str, settings: SessionSettings) -> Store:
    """The tables; Spark starts when it is first needed, which takes longer than to find that nothing is new."""

    def start() -> SparkSession:
        spark = start_session(settings)
        delta.check_session(spark)
        return spark

    return Store(start, qualified(tables), settings.options)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns what Spark and the JVM throw into one sentence."""
    try:
        yield
    except FleetError:
        raise
    except (PySparkException, Py4JError, DeltaError, OSError) as error:
        if delta.is_conflict(error):
            raise TableError(
                f"{what} gave way to another run that wrote the same tables meanwhile: let only one run at a time; "
                "nothing was written twice, and the next run goes on from here"
            ) from error
        if isinstance(error, PySparkException | Py4JError):
            raise FleetError(f"{what} failed in Spark: {what_failed(error)}") from error
        raise FleetError(f"{what} failed: {' '.join(_COLOURS.sub('', str(error)).split())}") from error


class _Run:
    """One run."""

    def __init__(self, store: Store, request: RunRequest, clock: Time, began_ms: int, progress: RunProgress) -> None:
        self._store = store
        self._request = request
        self._clock = clock
        self._progress = progress
        self._began_ms = began_ms
        self._reports: list[BatchReport] = []

    def run(self) -> RunReport:
        self._progress.stage("looking for what is new")
        self._store.has(catalog.POINTS)  # refuses tables of an earlier release before any of them is written
        ledger = Ledger(self._store, source_name(self._request.source))
        ledger.check_others()
        source = self._open(ledger)
        self._write(source, ledger, ledger.unfinished())
        self._redecode(source, ledger)
        news = source.news()
        self._progress.expect(news)
        self._write(source, ledger, map(ledger.plan, source.cut(self._request.bounds)))
        self._progress.begin(None)
        days = self._compute()
        sizes = self._sizes() if self._reports or days else {}
        return replace(self._report(), lost=news.lost, changed=news.changed, days=days, sizes=sizes)

    def _open(self, ledger: Ledger) -> LandingSource | TopicStretch:
        source, store = self._request.source, self._store
        if isinstance(source, TopicSource):
            return TopicStretch(store.spark, source, ledger, catalog.LEDGER.path(store.root))
        return LandingSource(lambda: store.spark, source, ledger)

    def _report(self) -> RunReport:
        """What was read so far."""
        took_s = (self._clock.hi_res_clock_ms() - self._began_ms) / 1000
        return RunReport(
            source=str(self._request.source), tables=self._store.root, took_s=took_s, batches=tuple(self._reports)
        )

    def _write(self, source: LandingSource | TopicStretch, ledger: Ledger, plans: Iterable[Plan]) -> None:
        """Writes one batch after the other."""
        request = self._request
        writer = BatchWriter(self._store, ledger.app_id, str(request.source), request.window_s, self._progress.stage)
        for plan in plans:
            self._progress.begin(plan.number)
            report = writer.write(source.batch(plan))
            if report is not None:
                self._reports.append(report)
                self._progress.done(report, report.amount)

    def _redecode(self, source: LandingSource | TopicStretch, ledger: Ledger) -> None:
        """Takes away what the tables have of days that are to be read again, also of one that was cut off here."""
        day, name = self._request.redecode, str(self._request.source)
        if day is not None:
            source.check_day(day)
            if others := pending.other_sources(self._store, source_name(self._request.source), day):
                raise TableError(
                    f"the tables have pushes of {day} from other sources too ({', '.join(sorted(others))}), which "
                    "--redecode would lose: read all sources into other --tables"
                )
            ledger.begin_again(day)
        for day in list(ledger.redecoding):
            self._progress.stage(f"taking {day} out of the tables")
            pending.clear_day(self._store, name, day)
            ledger.forget(day)

    def _compute(self) -> int:
        """Computes clients and gold; how many days there were to be computed."""
        request = self._request
        self._progress.stage("looking for what changed")
        now = datetime.fromtimestamp(self._clock.milliseconds() / 1000, UTC)
        found = pending.pending(self._store, window_s=request.window_s, now=now, days=request.rebuild)
        if found.spans:
            answers = Answers(self._store, request.window_s, self._progress.stage)
            with session_conf(self._store.spark, conf_for(found.points)):
                answers.refresh(found.spans, found.read_up_to, found.remade)
        if found.spans or self._reports:
            pending.close(self._store, self._row(found, now))
        return len(found.spans)

    def _row(self, found: pending.Pending, now: datetime) -> dict[str, Any]:
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
            found = self._store.log(table).size()
            written = self._store.rows_written[table.name]
            sizes[table.name] = Size(rows_written=written, files=found.files, size_bytes=found.size_bytes)
        return sizes
