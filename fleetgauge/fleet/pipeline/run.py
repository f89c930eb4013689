"""`fleet run`: processes new input of a source into the tables."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from deltalake.exceptions import CommitFailedError, DeltaError
from rich.console import Console

from fleetgauge.base.clock import Time
from fleetgauge.fleet.engines.choice import EngineName, Kind, Work, choose
from fleetgauge.fleet.engines.engine import Batch, Engine, InProcess, OnSpark
from fleetgauge.fleet.engines.processes import InProcesses, processes_for
from fleetgauge.fleet.errors import BusyError, FleetError, NotInstalledError, SparkEndedError, TableError
from fleetgauge.fleet.pipeline import pending
from fleetgauge.fleet.pipeline.answers import Answers
from fleetgauge.fleet.pipeline.batch import BatchReport, BatchWriter
from fleetgauge.fleet.pipeline.folders import KnownFolders
from fleetgauge.fleet.pipeline.ledger import Ledger, Plan, cut_off
from fleetgauge.fleet.pipeline.memories import are_by_other_rules
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.pipeline.progress import RunProgress
from fleetgauge.fleet.pipeline.report import RunReport, Size
from fleetgauge.fleet.pipeline.side_rows import SAMPLES, TRAFFIC, SideReport, SideRows, SideRowsWriter
from fleetgauge.fleet.pipeline.source import MAX_BATCH_BYTES_A_PROCESS, Bounds, LandingSource, source_name
from fleetgauge.fleet.pipeline.spans import EPOCH, LIVE_WINDOW_S, days
from fleetgauge.fleet.source.selection import Days
from fleetgauge.fleet.source.topic.source import Source, TopicSource
from fleetgauge.fleet.source.zone_files import file_system
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.lock import only_run
from fleetgauge.fleet.tables.maintain import Upkeep, maintain
from fleetgauge.fleet.tables.paths import qualified, storage_options
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.rules import Rules, default_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fleetgauge.fleet.pipeline.topic_source import TopicStretch
    from fleetgauge.fleet.spark.session import SessionSettings

_TELEMETRY_IS_AWAY: Final = timedelta(minutes=15)
"""If samples of groups or traffic are newer than the latest push by more than this, they are judged without waiting for
pushes.
"""

WINDOW_S: Final = 300

_COLOURS: Final = re.compile("\x1b\\[[0-9;]*m|\u21b3")
"""Terminal colours and symbols in messages of delta-rs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Parameters of a run.

    Attributes:
        source: the landing zone or topic.
        tables: root of the tables, a path or a URI that both Spark and delta-rs know.
        bounds: how much one batch reads.
        window_s: length of the windows of gold tables [s]; None is that of the tables, and of new ones `WINDOW_S`, or
            `LIVE_WINDOW_S` where windows are judged as they end.
        rebuild: have clients and gold tables of these days computed anew.
        redecode: a day whose pushes are read again from the landing zone, in place of what is in the tables.
        rules: the figures of the verdicts.
        judge_after_s: judge a window once a push received this long after its end was read [s]; None judges all.
        is_continuous: the run is one of several rounds; a streaming query reads a topic, but on Spark Connect.
    """

    source: Source
    tables: str
    bounds: Bounds = field(default_factory=Bounds)
    window_s: int | None = None
    rebuild: Days | None = None
    redecode: date | None = None
    rules: Rules = field(default_factory=default_rules)
    judge_after_s: int | None = None
    is_continuous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Environment of a run.

    Attributes:
        settings: how to start Spark, where it is needed.
        engine: the one asked for; None leaves it to `engines.choice`.
        conf: settings of Spark, for object stores.
        clock: the time.
        notes: where progress goes, and a line on what was lost.
        progress: show it.
    """

    settings: Callable[[], "SessionSettings"]
    engine: EngineName | None
    conf: Mapping[str, str]
    clock: Time
    notes: Console
    progress: bool


def run(request: RunRequest, context: RunContext) -> RunReport:
    """Reads new input and writes it to the tables.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    began_ms = context.clock.hi_res_clock_ms()
    with explained(f"fleet run of {request.source}"):
        options = storage_options(context.conf)
        store, spark = Store(qualified(request.tables), options), OnSpark(lambda: _started(context.settings))
        with only_run(store.root), RunProgress(context.notes, enabled=context.progress) as shown:
            job = _Run(store, request, options, context.engine, spark, context.clock, began_ms, shown)
            with closing(job):
                return job.run()


def _started(settings: Callable[[], "SessionSettings"]) -> "SparkSession":
    try:
        from fleetgauge.fleet.spark.session import start_session
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is not installed, and topics, other file systems and --master need "
            "PySpark: pip install 'fleetgauge[spark]'"
        ) from error
    return start_session(settings())


def keep_up(
    tables: str,
    *,
    keep_from: datetime | None,
    vacuum_after_hours: int,
    conf: Mapping[str, str],
    notes: Console,
    progress: bool,
) -> dict[str, Upkeep]:
    """Compaction and retention of the tables; see `fleet.tables.maintain`.

    Raises:
        FleetError: with one sentence on what is wrong.
    """
    with explained(f"fleet maintain of {tables}"):
        store = Store(qualified(tables), storage_options(conf))
        if not store.has(catalog.PUSHES):  # a lock in a directory of no tables would be left behind
            raise TableError(f"there is no table {catalog.PUSHES.name} in {tables}: {catalog.PUSHES.made_by}")
        with only_run(store.root), RunProgress(notes, enabled=progress) as shown:
            # The second try of a batch reads points as they were before the first.
            keep_files_of = (catalog.POINTS,) if cut_off(store) else ()
            return maintain(
                store,
                keep_from=keep_from,
                vacuum_after_hours=vacuum_after_hours,
                stage=shown.stage,
                keep_files_of=keep_files_of,
            )


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns exceptions of Spark and the JVM into one sentence."""
    try:
        yield
    except FleetError:
        raise
    except CommitFailedError as error:
        raise BusyError(
            f"{what} stopped because another run wrote the same tables: allow only one run at a time; "
            "nothing was written twice, and the next run continues from here"
        ) from error
    except (DeltaError, OSError) as error:
        raise FleetError(f"{what} failed: {' '.join(_COLOURS.sub('', str(error)).split())}") from error
    except Exception as error:
        if said := _said_by_spark(error):
            kind = SparkEndedError if type(error).__name__ == "Py4JNetworkError" else FleetError
            raise kind(f"{what} failed in Spark: {said}") from error
        raise


def _said_by_spark(error: Exception) -> str | None:
    """Spark's message in one sentence; None if the exception is not Spark's."""
    if "pyspark" not in sys.modules:
        return None
    from fleetgauge.fleet.spark.errors import SPARK_ERRORS, what_failed

    return what_failed(error) if isinstance(error, SPARK_ERRORS) else None


@dataclass(slots=True)
class _Run:
    """One run."""

    store: Store
    request: RunRequest
    options: Mapping[str, str]
    asked: EngineName | None
    spark: OnSpark
    clock: Time
    began_ms: int
    progress: RunProgress
    engine: Engine = field(init=False)
    window_s: int = field(init=False)
    _reports: list[BatchReport] = field(default_factory=list)
    _is_judged_anew: bool = False
    _beside: dict[SideRows, SideReport] = field(default_factory=lambda: dict.fromkeys((SAMPLES, TRAFFIC), SideReport()))

    def __post_init__(self) -> None:
        self.engine = self.spark if self.asked is EngineName.SPARK else InProcess()
        usual_s = WINDOW_S if self.request.judge_after_s is None else LIVE_WINDOW_S
        self.window_s = self.request.window_s or pending.window_of(self.store) or usual_s

    def run(self) -> RunReport:
        """Writes new input, then computes the tables that depend on it; returns the results."""
        self.progress.stage("looking for new input")
        self.store.has(catalog.POINTS)  # refuses tables of an earlier release before any of them is written
        ledger = Ledger(self.store, source_name(self.request.source))
        is_topic = isinstance(self.request.source, TopicSource)
        by_query = self.request.is_continuous and is_topic and self.spark.calls_back
        ledger.check_others(by_query=by_query)
        source = self._open(ledger)
        self._choose_engine(source)
        self._write(source, ledger, ledger.unfinished())
        self._redecode(source, ledger)
        self._choose_engine(source)  # a day that is read again may be large
        new = source.new_input()
        self.progress.expect(new)
        if by_query and not isinstance(source, LandingSource):
            self._stream(source, ledger)
        else:
            self._write(source, ledger, map(ledger.plan, source.cut(self._bounds())))
        self.progress.begin(None)
        self._read_beside(source)
        days = self._compute()
        sizes = self._sizes() if self._reports or days else {}
        return replace(self._report(), lost=new.lost, changed=new.changed, days=days, sizes=sizes)

    def _read_beside(self, source: "LandingSource | TopicStretch") -> None:
        """Reads samples of groups and traffic, which only landing zones have."""
        if isinstance(source, LandingSource):
            name = str(self.request.source)
            for kind in self._beside:
                self.progress.stage(kind.table.name)
                writer = SideRowsWriter(kind, self.store, source, name, self.window_s, lambda: self.spark.spark)
                self._beside[kind] = writer.write()
            source.known.save()

    def _open(self, ledger: Ledger) -> "LandingSource | TopicStretch":
        source = self.request.source
        if isinstance(source, TopicSource):
            choose(Work(kind=Kind.TABLES, out_of_reach=str(source)), self.asked)
            spark = self.spark.spark  # which says what is missing, if anything is
            from fleetgauge.fleet.pipeline.topic_source import TopicStretch

            return TopicStretch(spark, source, ledger, catalog.LEDGER.path(self.store.root))
        again = {*ledger.redecoding, *filter(None, [self.request.redecode])}
        known = KnownFolders(self.store, source_name(source), self._now(), but=again)
        system = file_system(source, self.options)
        return LandingSource(lambda: self.spark.spark, source, ledger, known, system)

    def _bounds(self) -> Bounds:
        given = self.request.bounds
        if isinstance(self.engine, InProcess | InProcesses):
            return replace(given, max_bytes=MAX_BATCH_BYTES_A_PROCESS * self.engine.count)
        return given if given.max_files is None else replace(given, max_bytes=sys.maxsize)

    def _choose_engine(self, source: "LandingSource | TopicStretch") -> None:
        if self.engine is self.spark:
            return
        work = self._work(source)
        if choose(work, self.asked) is EngineName.SPARK:
            self.engine = self.spark
            return
        count = processes_for(work.amount, self.request.bounds.max_processes)
        if count > 1 and isinstance(self.engine, InProcess):
            self.engine = InProcesses(count)

    def close(self) -> None:
        """Ends processes that it started."""
        if isinstance(self.engine, InProcesses):
            self.engine.close()

    def _work(self, source: "LandingSource | TopicStretch") -> Work:
        if not isinstance(source, LandingSource) or source.system is None:
            return Work(kind=Kind.TABLES, out_of_reach=str(self.request.source))
        anew = self.request.rebuild is not None and self.store.has(catalog.WINDOWS)
        rebuilt = self.store.log(catalog.WINDOWS).size().size_bytes if anew else 0
        return Work(kind=Kind.TABLES, amount=source.bytes_to_read() + rebuilt)

    def _report(self) -> RunReport:
        """Results so far."""
        took_s = (self.clock.hi_res_clock_ms() - self.began_ms) / 1000
        return RunReport(
            source=str(self.request.source),
            tables=self.store.root,
            took_s=took_s,
            batches=tuple(self._reports),
            offsets=self._beside[SAMPLES],
            traffic=self._beside[TRAFFIC],
            is_judged_anew=self._is_judged_anew,
        )

    def _write(self, source: "LandingSource | TopicStretch", ledger: Ledger, plans: Iterable[Plan]) -> None:
        """Writes one batch after the other."""
        for plan in plans:
            self._write_batch(ledger.app_id, source.batch(plan))

    def _write_batch(self, app_id: str, batch: Batch) -> None:
        self.progress.begin(batch.number)
        name = str(self.request.source)
        report = BatchWriter(self.store, self.engine, app_id, name, self.window_s, self.progress.stage).write(batch)
        if report is not None:
            self._reports.append(report)
            self.progress.done(report, report.amount)

    def _stream(self, source: "TopicStretch", ledger: Ledger) -> None:
        """Reads new input with a streaming query."""
        from fleetgauge.fleet.pipeline.stream import CHECKPOINTS, read_available

        def write(query_id: str, batch: Batch) -> None:
            ledger.note_query(query_id, {})
            self._write_batch(query_id, batch)

        # Removing the ledger, to read a topic that was recreated, makes the query start again, too.
        of_ledger = self.store.make(catalog.LEDGER).table_id()
        checkpoint = f"{self.store.root}/{CHECKPOINTS}/{source_name(self.request.source)}-{of_ledger}"
        query_id, end = read_available(source.stream(self._bounds()), checkpoint, write)
        ledger.note_query(query_id, source.read_to(end))

    def _redecode(self, source: "LandingSource | TopicStretch", ledger: Ledger) -> None:
        """Deletes days that are to be read again, including a day that an interrupted run left."""
        day, name = self.request.redecode, str(self.request.source)
        if day is not None:
            source.check_day(day)
            if others := pending.other_sources(self.store, source_name(self.request.source), day):
                raise TableError(
                    f"the tables have pushes of {day} from other sources too ({', '.join(sorted(others))}), which "
                    "--redecode would lose: read all sources into other --tables"
                )
            ledger.begin_again(day)
        for day in list(ledger.redecoding):
            self.progress.stage(f"removing {day} from the tables")
            pending.clear_day(self.store, name, day)
            source.read_again(day)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.milliseconds() / 1000, UTC)

    def _compute(self) -> int:
        """Computes clients and gold; returns the number of days computed."""
        request = self.request
        self.progress.stage("looking for changes")
        now = self._now()
        waiting = pending.pending(self.store, window_s=self.window_s, now=now, days=request.rebuild)
        after_s = request.judge_after_s
        is_away = waiting.sampled_up_to - waiting.read_up_to > _TELEMETRY_IS_AWAY
        latest = waiting.sampled_up_to if is_away else waiting.read_up_to
        judged_to = None if after_s is None else latest - timedelta(seconds=after_s)
        if waiting.spans:
            answers = Answers(self.store, self.engine, self.window_s, self.progress.stage, rules=request.rules)
            answers.refresh(waiting.spans, waiting.read_up_to, waiting.remade, judged_to)
        elif are_by_other_rules(self.store, request.rules, self.window_s):
            self.progress.stage(catalog.VERDICTS.name)
            self._is_judged_anew = replace_verdicts(
                self.store, self.engine, [(EPOCH, latest)], request.rules, self.window_s, judged_to
            )
        if waiting.spans or self._reports or any(each.files for each in self._beside.values()):
            pending.close(self.store, self._row(waiting, now))
        return len(days(waiting.spans))

    def _row(self, waiting: pending.Pending, now: datetime) -> dict[str, Any]:
        report = self._report()
        return {
            "finished_at": now,
            "source": report.source,
            "took_s": report.took_s,
            "read_up_to": waiting.read_up_to,
            "batches": len(report.batches),
            **{name: report.total(name) for name in ("files", "pushes", "points", "repeats")},
            "rejects": report.rejects,
            "covered": waiting.covered,
            "window_s": self.window_s,
        }

    def _sizes(self) -> dict[str, Size]:
        sizes = {}
        for table in catalog.TABLES.values():
            if table.layer == "state" or not self.store.has(table):
                continue
            size = self.store.log(table).size()
            written = self.store.rows_written[table.name]
            sizes[table.name] = Size(rows_written=written, files=size.files, size_bytes=size.size_bytes)
        return sizes
