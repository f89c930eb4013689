"""`fleetgauge fleet ...`: questions to a landing zone or topic, answered at once; `python -m fleetgauge.fleet.cli`.

What a command needs is loaded only when it runs, so that help is quick and its absence is one sentence.
"""

import importlib
import sys
from typing import Any

import typer
from rich.console import Console

from fleetgauge.fleet.cli_explain import changes, explain
from fleetgauge.fleet.cli_options import (
    DEFAULT_LIMIT,
    DEFAULT_SOURCE,
    ClientIds,
    Form,
    Instances,
    KafkaConfig,
    KafkaJars,
    KafkaOptions,
    Limit,
    Metric,
    OptionalMaster,
    Output,
    ShowProgress,
    Since,
    Source,
    SparkLog,
    Until,
    listed,
    needs_extra,
    said_in_a_sentence,
    selection,
    sentences,
)
from fleetgauge.fleet.cli_report import report
from fleetgauge.fleet.cli_tables import maintain, run, show
from fleetgauge.fleet.cli_traffic import traffic
from fleetgauge.fleet.cli_verdicts import rules, verdicts
from fleetgauge.fleet.cli_watch import watch
from fleetgauge.fleet.cli_whatif import WhatifCommand, whatif
from fleetgauge.fleet.metric_names import advice
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.source.topic.source import parse_source
from fleetgauge.terminal.options import HELP, Columns, Command

app = typer.Typer(
    name="fleet",
    help="Analyse the client fleet from a landing zone, a Kafka topic or standing tables. Tables and small zones are "
    "read at once; topics, large zones and those elsewhere need PySpark and Java 17 or 21.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings=HELP,
)


app.command(cls=Command)(run)
app.command(cls=Command)(show)
app.command(cls=Command)(maintain)
app.command(cls=Command)(verdicts)
app.command(cls=Command)(explain)
app.command(cls=Command)(changes)
app.command(cls=Command)(report)
app.command(cls=Command)(traffic)
app.command(cls=Command)(rules)
app.command(cls=Command)(watch)
app.command(cls=WhatifCommand)(whatif)
# Of a room above this one, so it is loaded by its name.
app.command(cls=Command)(importlib.import_module("fleetgauge.testkit.simulate_command").simulate)


@app.command(cls=Command)
def inventory(
    source: Source = DEFAULT_SOURCE,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
    master: OptionalMaster = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Who is in the fleet: one row a client instance, the latest seen first.

    Software, principal, address, pushes and data points, first and last seen, and whether it ended with a
    terminating push.

    `fleetgauge fleet inventory --since 24h`

    `fleetgauge fleet inventory --source kafka://broker-1:9092,broker-2:9092/fleetgauge-pushes --since 24h`

    `fleetgauge fleet inventory --format parquet --output ./inventory`
    """
    _run("inventory", locals())


@app.command(cls=Command)
def summary(
    source: Source = DEFAULT_SOURCE,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    master: OptionalMaster = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Inventory and latency one after the other, and how many pushes could not be read.

    With --output every row is also written there, to `inventory` and `latency`, in the form of --format.

    `fleetgauge fleet summary --since 24h`

    `fleetgauge fleet summary --since 24h --format parquet --output ./today`
    """
    _run("summary", locals())


@app.command(cls=Command)
def latency(
    source: Source = DEFAULT_SOURCE,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
    master: OptionalMaster = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """How long each broker takes to answer each client, in ms as the client sees it, the slowest first.

    Node -1 stands for the links to bootstrap servers. A client appears once it pushes the standard metrics
    `org.apache.kafka.{producer,consumer}.node.request.latency.{avg,max}`. A Java consumer that is away from `poll()`
    for long reads responses late: `slow by` says so, and such rows come last.

    `fleetgauge fleet latency --client-id checkout-service --since 1h`
    """
    _run("latency", locals())


@app.command(cls=Command)
def points(
    source: Source = DEFAULT_SOURCE,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    metric: Metric = "",
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
    master: OptionalMaster = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Every data point that clients pushed, the oldest first; the clients' dialects read as one, the original kept.

    `fleetgauge fleet points --metric org.apache.kafka.consumer. --instance-id Tm-1TLjmRReIm-FbmcCcIA --limit 20`

    `fleetgauge fleet points --since 7d --format parquet --output s3a://lake/points`
    """
    _run("points", locals())


@app.command(cls=Command)
def rejects(
    source: Source = DEFAULT_SOURCE,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    instance: Instances = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
    master: OptionalMaster = None,
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Pushes that could not be read: in which file and row, or partition and offset, they lie, and why.

    `fleetgauge fleet rejects --format json`
    """
    _run("rejects", locals())


def _run(command: str, options: dict[str, Any]) -> None:
    notes = Console(stderr=True)
    with said_in_a_sentence(notes):
        _answer(command, options, notes)


def _answer(command: str, options: dict[str, Any], notes: Console) -> None:
    selected = selection(options)
    source = parse_source(options["source"], options["kafka_option"] or (), options["kafka_config"])
    with needs_extra("tables"):
        from fleetgauge.fleet.engines.questions import question
        from fleetgauge.fleet.report.request import Request
        from fleetgauge.fleet.report.run import run, summarise
    request = Request(
        title=command,
        source=source,
        kafka_jars=listed(options["kafka_jars"]),
        master=options["master"],
        form=options["form"],
        output=options["output"],
        limit=options["limit"],
        columns=options.get("columns"),
        show_progress=options["progress"],
        spark_log_level=options["spark_log_level"],
    )
    if unknown := advice(options.get("metric", "")):
        sentences(notes)(unknown)
    if command == "summary":
        parts = {name: question(name) for name in ("inventory", "latency")}
        return summarise(request, selected, parts, out=sys.stdout, notes=notes)
    return run(request, selected, question(command, options.get("metric", "")), out=sys.stdout, notes=notes)


def main() -> None:
    """The entry point of `python -m fleetgauge.fleet.cli`."""
    app(prog_name="fleet")


if __name__ == "__main__":
    main()
