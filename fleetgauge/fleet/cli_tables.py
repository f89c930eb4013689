"""The commands of the standing tables: `fleet run`, `fleet show`, `fleet maintain`."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.durations import parse_duration_us
from fleetgauge.fleet.cli_options import (
    DEFAULT_LIMIT,
    DEFAULT_SOURCE,
    DEFAULT_TABLES,
    Archives,
    ClientIds,
    Form,
    Instances,
    KafkaConfig,
    KafkaJars,
    KafkaOptions,
    Limit,
    MaxFiles,
    MaxRecords,
    OptionalMaster,
    Output,
    PyFiles,
    ShowProgress,
    Since,
    Source,
    SparkConf,
    SparkLog,
    StoreConf,
    SummaryForm,
    Tables,
    Until,
    bounds,
    listed,
    needs_extra,
    now,
    parse_conf,
    said_in_a_sentence,
    selection,
    sentences,
    session_settings,
    time_option,
)
from fleetgauge.fleet.cli_verdicts import RuleFile, load
from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.fleet.report.form import Format, SummaryFormat
from fleetgauge.fleet.source.selection import Days, parse_day, parse_days, parse_time
from fleetgauge.fleet.source.topic.source import TopicSource, parse_source
from fleetgauge.terminal.options import Columns

if TYPE_CHECKING:
    from fleetgauge.fleet.spark.session import SessionSettings

EXIT_SET_ASIDE: Final = 3
"""With --fail-on-rejects: the run is done, and some pushes or files were set aside, or some records were lost."""

Window = Annotated[
    str, typer.Option(help="Length of the windows of the gold tables, which divides a day: 60s, 5m, 1h.")
]

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US


def run(
    source: Source = DEFAULT_SOURCE,
    tables: Tables = DEFAULT_TABLES,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    max_files: MaxFiles = None,
    max_records: MaxRecords = None,
    window: Window = "5m",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Compute clients and gold tables of all days anew from the silver ones.")
    ] = False,
    days: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="With --rebuild, only these days: 2026-03-01..2026-03-05.")
    ] = None,
    redecode: Annotated[
        str | None,
        typer.Option(
            metavar="DAY",
            help="Read the landing zone's pushes of a day of receipt (UTC) again, in place of what the tables have.",
        ),
    ] = None,
    rules: RuleFile = None,
    fail_on_rejects: Annotated[
        bool,
        typer.Option("--fail-on-rejects", help="Exit with 3 when pushes or files were set aside, or records lost."),
    ] = False,
    form: SummaryForm = SummaryFormat.TABLE,
    master: OptionalMaster = None,
    conf: SparkConf = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Bring the standing tables up to date: what is new of the source, once, however often it runs.

    Silver (`pushes`, `points`, `clients`, `rejects`) and gold (`inventory`, `versions`, `latency`, `throttling`,
    `rebalances`, `consumers`) are Delta Lake tables. Exit code 0 when it is done, also when nothing was new; 1 on an
    error, 2 on a wrong option; a run that was cut off at any moment is mended by the next. Spark starts when there is
    much to read, a topic, another file system, or with --master.

    `fleetgauge fleet run --source ./fleetgauge-data/landing --tables ./fleet`

    `fleetgauge fleet run --source kafka://broker-1:9092/fleetgauge-pushes --tables s3a://lake/fleet --format json`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        code = _run(options, notes)
    raise typer.Exit(code)


def show(
    table: Annotated[
        str,
        typer.Argument(help="pushes, points, clients, rejects, inventory, versions, latency, throttling, ..., groups"),
    ],
    tables: Tables = DEFAULT_TABLES,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    group: Annotated[str | None, typer.Option(help="Only this consumer group.")] = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
    conf: StoreConf = None,
) -> None:
    """Rows of a standing table, the latest first. Needs no Java and no Spark.

    `fleetgauge fleet show latency --tables ./fleet --since 24h --client-id checkout-service`

    `fleetgauge fleet show consumers --tables ./fleet --group billing --format csv`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        _show(options)


def maintain(
    tables: Tables = DEFAULT_TABLES,
    keep: Annotated[
        str | None, typer.Option(help="Delete pushes, points, windows and clients older than this: 90d.")
    ] = None,
    vacuum_after: Annotated[
        str, typer.Option(help="Remove files that were replaced so long ago; readers and time travel need them.")
    ] = "7d",
    form: SummaryForm = SummaryFormat.TABLE,
    conf: StoreConf = None,
    progress: ShowProgress = None,
) -> None:
    """Compact the standing tables, delete what is too old, and remove files that nothing needs any more.

    Needs no Java and no Spark.

    `fleetgauge fleet maintain --tables ./fleet --keep 90d`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        _maintain(options, notes)


def _run(options: dict[str, Any], notes: Console) -> int:
    source = parse_source(options["source"], options["kafka_option"] or (), options["kafka_config"])
    window_s = window_seconds(options["window"])
    with needs_extra("tables"):
        from fleetgauge.fleet.pipeline import run as pipeline
        from fleetgauge.fleet.views.summary import print_json, print_run, run_as_json
    request = pipeline.RunRequest(
        source=source,
        tables=options["tables"],
        bounds=bounds(options),
        window_s=window_s,
        rebuild=_rebuilt(options["rebuild"], options["days"]),
        redecode=parse_day(options["redecode"]) if options["redecode"] else None,
        rules=load(options["rules"]),
    )
    report = pipeline.run(
        request,
        lambda: spark_settings(options, notes, with_topic=isinstance(source, TopicSource)),
        on_spark=any(options[name] is not None for name in ("master", "py_files", "archives")),
        conf=parse_conf(options["conf"] or ()),
        clock=SystemTime(),
        notes=notes,
        progress=_shows(options, notes),
    )
    if options["form"] is SummaryFormat.JSON:
        print_json(sys.stdout, run_as_json(report))
    else:
        print_run(sys.stdout, report)
    return EXIT_SET_ASIDE if options["fail_on_rejects"] and (report.rejects or report.lost) else 0


def _show(options: dict[str, Any]) -> None:
    selected = selection(options)
    with needs_extra("tables"):
        from fleetgauge.fleet.views.show import ShowRequest, show
    request = ShowRequest(
        table=options["table"],
        tables=options["tables"],
        selection=selected,
        group_id=options["group"],
        form=options["form"],
        output=options["output"],
        limit=options["limit"],
        columns=options["columns"],
        conf=parse_conf(options["conf"] or ()),
    )
    show(request, sys.stdout)


def _maintain(options: dict[str, Any], notes: Console) -> None:
    at = now()
    keep_from = time_option(options["keep"], at)
    vacuum_after_hours = int((at - parse_time(options["vacuum_after"], at)).total_seconds() // 3600)
    if vacuum_after_hours < 0 or (keep_from is not None and keep_from > at):
        raise WrongOptionError("--keep and --vacuum-after are ages, such as 90d: a time to come is none")
    with needs_extra("tables"):
        from fleetgauge.fleet.pipeline.run import keep_up
        from fleetgauge.fleet.views.summary import print_json, print_upkeep, upkeep_as_json
    done = keep_up(
        options["tables"],
        keep_from=keep_from,
        vacuum_after_hours=vacuum_after_hours,
        conf=parse_conf(options["conf"] or ()),
        notes=notes,
        progress=_shows(options, notes),
    )
    if options["form"] is SummaryFormat.JSON:
        print_json(sys.stdout, upkeep_as_json(done))
    else:
        print_upkeep(sys.stdout, done)


def spark_settings(options: dict[str, Any], notes: Console, *, with_topic: bool = False) -> "SessionSettings":
    """How to start Spark, with the connector's jars where a topic is read."""
    from fleetgauge.fleet.source.topic.connector import connector_jars

    settings = session_settings(options)
    if not with_topic:
        return settings
    return replace(settings, jars=connector_jars(listed(options["kafka_jars"]), note=sentences(notes)))


def window_seconds(text: str) -> int:
    """A window's length [s].

    >>> window_seconds("5m"), window_seconds("1h")
    (300, 3600)
    """
    length_us = parse_duration_us(text)
    if not length_us or length_us % _SECOND_US or _DAY_US % length_us:
        raise WrongOptionError(f"{text!r} is no window that divides a day: give --window 60s, 5m or 1h")
    return length_us // _SECOND_US


def _rebuilt(rebuild: bool, days: str | None) -> Days | None:
    if days is not None and not rebuild:
        raise WrongOptionError("--days says which days --rebuild computes: give both")
    return parse_days(days or "..") if rebuild else None


def _shows(options: dict[str, Any], notes: Console) -> bool:
    return notes.is_terminal if options["progress"] is None else bool(options["progress"])
