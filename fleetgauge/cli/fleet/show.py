"""`fleet show`: rows of the tables, and answers from a landing zone or topic, which need no tables."""

import sys
from typing import Annotated

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    SELECTION,
    SOURCE,
    ConsumerGroup,
    KafkaClient,
    Selecting,
    Spark,
    StoreConf,
    Tables,
    listed,
    needs_extra,
    parse_conf,
    sentences,
)
from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.fleet.metric_names import advice
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.terminal.answer import Format, Output, print_answer
from fleetgauge.terminal.options import TableOptions

QUESTIONS = ("inventory", "latency", "points", "rejects")
"""Names with an answer from a landing zone or topic."""


def show(
    *,
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="inventory, latency, points or rejects; without --source also pushes, clients, versions, throttling, "
            "..., groups.",
        ),
    ],
    tables: Tables = DEFAULT_TABLES,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            help="Answer from this landing zone or topic instead of the tables: a directory, s3://bucket/path, a URI "
            "that Spark can read, or kafka://host:port[,host:port]/topic.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    kafka: KafkaClient,
    selecting: Selecting,
    group: ConsumerGroup = None,
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            "-m",
            help="With --source, of points: only metrics whose names begin with this.",
            rich_help_panel=SELECTION,
        ),
    ] = "",
    answer: TableOptions,
    spark: Spark,
    conf: StoreConf = None,
) -> None:
    """Show rows of the tables, or answers from a landing zone or topic: inventory, latency, points, rejects.

    From the tables of fleet run the latest rows come first, and neither Java nor Spark is needed. With --source no
    tables are needed. inventory: one row per client instance, the latest seen first, with software, principal, address,
    pushes and points. latency: the time that each broker takes to answer each client [ms], the slowest first. points:
    every data point, the oldest first. rejects: pushes that could not be read, with their place and the reason.

    Examples:
        fleetgauge fleet show inventory latency --source ./fleetgauge-data/landing --since 24h
        fleetgauge fleet show points --source kafka://broker-1:9092/fleetgauge-pushes --format parquet -o ./points
        fleetgauge fleet show consumers --tables ./fleet --group billing --format csv
    """
    to, selection = answer.to(), selecting.selection()
    if len(table) > 1 and to.form is not Format.TEXT and to.output is None:
        raise WrongOptionError(
            "several tables are for the terminal: with --format, add --output PATH, or name one table"
        )
    if source is not None:
        if group is not None:
            raise WrongOptionError("--group chooses among rows of tables: leave it out, or --source")
        _ask(list(dict.fromkeys(table)), source, kafka, selection, metric, to, spark)
        return
    if metric:
        raise WrongOptionError("--metric chooses among the points of a landing zone or topic: give --source too")
    with needs_extra("tables"):
        from fleetgauge.fleet.views import show as rows_of_tables
    for number, name in enumerate(table):
        if len(table) > 1 and to.form is Format.TEXT:
            sys.stdout.write(f"{chr(10) if number else ''}{name}\n")
        place = to if len(table) == 1 else to.below(name)
        request = rows_of_tables.ShowRequest(
            table=name, tables=tables, selection=selection, group_id=group, to=place, conf=parse_conf(conf)
        )
        print_answer(rows_of_tables.show(request), place, sys.stdout)


def _ask(
    questions: list[str], source: str, kafka: KafkaClient, selection: Selection, metric: str, to: Output, spark: Spark
) -> None:
    """Answers from a landing zone or topic."""
    from rich.console import Console

    for name in questions:
        if name not in QUESTIONS:
            raise WrongOptionError(
                f"{name} is a table of fleet run: leave --source out; with it show {', '.join(QUESTIONS)}"
            )
    notes, read_from = Console(stderr=True), kafka.of(source)
    with needs_extra("tables"):
        from fleetgauge.fleet.engines.questions import question
        from fleetgauge.fleet.report.request import Request
        from fleetgauge.fleet.report.run import run, summarise
    request = Request(
        title=" and ".join(questions),
        source=read_from,
        kafka_jars=listed(kafka.kafka_jars),
        engine=spark.asked,
        master=spark.master,
        to=to,
        show_progress=spark.progress,
        spark_log_level=spark.spark_log_level,
    )
    if unknown := advice(metric):
        sentences(notes)(unknown)
    parts = {name: question(name, metric) for name in questions}
    if len(parts) > 1:
        summarise(request, selection, parts, out=sys.stdout, notes=notes)
    else:
        run(request, selection, parts[request.title], out=sys.stdout, notes=notes)
