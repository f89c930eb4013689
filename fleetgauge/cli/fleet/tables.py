"""The commands that keep the tables: `fleet run`, `fleet maintain`."""

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleetgauge.base.durations import parse_duration_us
from fleetgauge.cli.fleet.options import (
    DEFAULT_SOURCE,
    DEFAULT_TABLES,
    Batches,
    RuleFile,
    ShowProgress,
    Source,
    SparkJob,
    StoreConf,
    Tables,
    needs_extra,
    now,
    parse_conf,
    sentences,
    shows,
    time_option,
)
from fleetgauge.cli.fleet.verdicts import load
from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.fleet.source.selection import Days, parse_day, parse_days, parse_time
from fleetgauge.terminal.answer import Format, PlainRows, print_answer, record_answer
from fleetgauge.terminal.options import AnswerOptions

if TYPE_CHECKING:
    from fleetgauge.fleet.pipeline.report import RunReport

EXIT_SET_ASIDE: Final = 3
"""Exit code with --fail-on-rejects: the run is done, but pushes or files were set aside, or records were lost."""

Window = Annotated[
    str | None,
    typer.Option(
        help="Length of the windows of the gold tables, which divides a day: 60s, 5m, 1h. By default that of the "
        "tables; of new ones 5m, and 60s where windows are judged as they end (--continuous, watch)."
    ),
]

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Days that are computed or read again."""

    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Compute clients and gold tables of all days anew from the silver ones.")
    ] = False
    days: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="With --rebuild, only these days: 2026-03-01..2026-03-05.")
    ] = None
    redecode: Annotated[
        str | None,
        typer.Option(
            metavar="DAY",
            help="Read the landing zone's pushes of a day of receipt (UTC) again, in place of what the tables have.",
        ),
    ] = None

    def days_rebuilt(self) -> Days | None:
        """The days whose tables are computed again; None where none are."""
        if self.days is not None and not self.rebuild:
            raise WrongOptionError("--days says which days --rebuild computes: give both")
        return parse_days(self.days or "..") if self.rebuild else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a continuous run looks for new input, and when it judges a window."""

    trigger: Annotated[str, typer.Option(help="Time between two looks for new input.")] = "20s"
    late: Annotated[
        str, typer.Option(help="Time after its end until a window is judged, by receipt times: pushes may come late.")
    ] = "1m"

    def trigger_s(self) -> float:
        """Time between rounds [s]."""
        return _duration_us("--trigger", self.trigger) / _SECOND_US

    def late_s(self) -> int:
        """Time that a window waits for late pushes [s]."""
        return _duration_us("--late", self.late, up_to_us=_DAY_US) // _SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuously(Pace):
    """A run that goes on."""

    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous",
            help="Go on until SIGTERM or SIGINT, by --trigger and --late; on Spark by Structured Streaming.",
        ),
    ] = False


def run(
    *,
    source: Source = DEFAULT_SOURCE,
    tables: Tables = DEFAULT_TABLES,
    batches: Batches,
    window: Window = None,
    again: Again,
    rules: RuleFile = None,
    rounds: Continuously,
    fail_on_rejects: Annotated[
        bool,
        typer.Option("--fail-on-rejects", help="Exit with 3 when pushes or files were set aside, or records lost."),
    ] = False,
    answer: AnswerOptions,
    spark: SparkJob,
) -> None:
    """Process new input of a landing zone or topic into the tables, exactly once across reruns.

    Silver (`pushes`, `points`, `clients`, `rejects`) and gold (`inventory`, `versions`, `latency`, `throttling`,
    `producers`, `rebalances`, `consumers`) are Delta Lake tables. The next run repairs one that was cut off at any
    moment. Spark starts where there is much to read, a topic or a file system other than S3, or with --engine spark.
    With --continuous it goes on until SIGTERM or SIGINT; on Spark by a streaming query, whose checkpoint is below the
    tables. `fleet watch` does the same, and delivers verdicts.

    Examples:
        fleetgauge fleet run --source ./fleetgauge-data/landing --tables ./fleet
        fleetgauge fleet run --source kafka://broker-1:9092/fleetgauge-pushes --tables s3a://lake/fleet --format json
    """
    from rich.console import Console

    notes, read_from, window_s = Console(stderr=True), batches.of(source), window_seconds(window)
    to = answer.to()
    with needs_extra("tables"):
        from fleetgauge.fleet.pipeline import run as pipeline
        from fleetgauge.fleet.views.summary import print_run, run_as_json
    request = pipeline.RunRequest(
        source=read_from,
        tables=tables,
        bounds=batches.bounds(),
        window_s=window_s,
        rebuild=again.days_rebuilt(),
        redecode=parse_day(again.redecode) if again.redecode else None,
        rules=load(rules),
        is_continuous=rounds.continuous,
        judge_after_s=rounds.late_s() if rounds.continuous else None,
    )
    context = spark.run_context(read_from, batches, notes, shows(spark.progress, notes))

    def show_report(report: "RunReport") -> None:
        done = record_answer(run_as_json(report), lambda console: print_run(console, report))
        print_answer(done, to, sys.stdout)

    if rounds.continuous:
        if request.rebuild is not None or request.redecode is not None or fail_on_rejects:
            raise WrongOptionError("--rebuild, --redecode and --fail-on-rejects are of one run: leave --continuous out")
        if to.form not in (Format.TEXT, Format.JSON) or to.output is not None:
            raise WrongOptionError("a continuous run prints each round as text or JSON: leave --continuous out")
        from fleetgauge.fleet.watch.watch import WatchRequest, watch

        shown = replace(context, progress=spark.progress is not False)
        rounds_of = WatchRequest(run=request, since=now(), trigger_s=rounds.trigger_s())
        watch(rounds_of, shown, sentences(notes), show_report if to.form is Format.JSON else None)
        return
    report = pipeline.run(request, context)
    show_report(report)
    if fail_on_rejects and (report.rejects or report.lost):
        raise typer.Exit(EXIT_SET_ASIDE)


def maintain(
    *,
    tables: Tables = DEFAULT_TABLES,
    retention: Annotated[
        str | None, typer.Option(metavar="AGE", help="Delete pushes, points, windows and clients older than this: 90d.")
    ] = None,
    vacuum_after: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Remove files that were replaced this long ago; readers and time travel need them."
        ),
    ] = "7d",
    answer: AnswerOptions,
    conf: StoreConf = None,
    progress: ShowProgress = None,
) -> None:
    """Compact the tables, delete what is too old, and remove files that nothing needs any more.

    It needs no Java and no Spark.

    Examples:
        fleetgauge fleet maintain --tables ./fleet --retention 90d
    """
    from rich.console import Console

    to, notes, at = answer.to(), Console(stderr=True), now()
    keep_from = time_option(retention, at)
    vacuum_after_hours = int((at - parse_time(vacuum_after, at)).total_seconds() // 3600)
    if vacuum_after_hours < 0 or (keep_from is not None and keep_from > at):
        raise WrongOptionError("--retention and --vacuum-after take an age such as 90d, not a future time")
    with needs_extra("tables"):
        from fleetgauge.fleet.pipeline.run import keep_up
        from fleetgauge.fleet.views.summary import print_upkeep, upkeep_as_json
    done = keep_up(
        tables,
        keep_from=keep_from,
        vacuum_after_hours=vacuum_after_hours,
        conf=parse_conf(conf),
        notes=notes,
        progress=shows(progress, notes),
    )
    whole = upkeep_as_json(done)
    rows = PlainRows([{"table": name, **each} for name, each in whole.items()])
    print_answer(record_answer(whole, lambda console: print_upkeep(console, done), rows), to, sys.stdout)


def _duration_us(option: str, text: str, up_to_us: int | None = None) -> int:
    """A duration; without a bound it may not be zero."""
    duration_us = parse_duration_us(text)
    if duration_us is None or (duration_us > up_to_us if up_to_us is not None else not duration_us):
        allowed = "up to 1d" if up_to_us is not None else "above zero and up to 30d"
        raise WrongOptionError(f"{option} is {text!r}: give a duration {allowed}, such as 10s, 5m or 1h")
    return duration_us


def window_seconds(text: str | None) -> int | None:
    """A window's length [s].

    >>> window_seconds("5m"), window_seconds("1h")
    (300, 3600)
    """
    if text is None:
        return None
    length_us = parse_duration_us(text)
    if not length_us or length_us % _SECOND_US or _DAY_US % length_us:
        raise WrongOptionError(f"{text!r} is not a window that divides a day: give --window 60s, 5m or 1h")
    return length_us // _SECOND_US
