"""`fleetgauge fleet ...`: questions to a landing zone or topic, answered at once. Also `python -m fleet.cli`.

PySpark is loaded only when a command runs, so that help is quick and its absence is one sentence.
"""

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fleet.errors import FleetError
from fleet.report.form import Format
from fleet.selection import Selection, parse_instance_ids, parse_time
from fleet.topic.source import parse_source
from quotas.clock import SystemTime

DEFAULT_SOURCE = "./fleetgauge-data/landing"
DEFAULT_LIMIT = 50

app = typer.Typer(
    name="fleet",
    help="Analyse the client fleet from a landing zone or a Kafka topic with PySpark (needs Java 17 or 21).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


Source = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        help="Landing zone: a directory, or any URI that Spark can read; or the push log's topic: "
        "kafka://host:port[,host:port]/topic.",
    ),
]
KafkaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="KEY=VALUE",
        help="Setting of Kafka's client for a topic, e.g. security.protocol=SASL_SSL; may be repeated.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        help="Properties file with settings of Kafka's client (passwords!), as Kafka's tools' --command-config.",
    ),
]
KafkaJars = Annotated[
    str | None,
    typer.Option(
        "--kafka-jars",
        help="Jars of Spark's Kafka connector, or directories of them, comma-separated; without it they are fetched "
        "from Maven Central once.",
    ),
]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[*], local[2], spark://host:port, yarn, ...")]
Form = Annotated[Format, typer.Option("--format", "-f", help="JSON is one object a line.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Directory to write to. Without it json and csv go to stdout.")
]
Limit = Annotated[int, typer.Option(min=1, help="Rows of the table.")]
Since = Annotated[
    str | None,
    typer.Option(help="Pushes received from then on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC)."),
]
Until = Annotated[
    str | None,
    typer.Option(
        help="Pushes received before then; forms as for --since. Of a topic, those that reached it within an hour."
    ),
]
ClientIds = Annotated[list[str] | None, typer.Option("--client-id", help="Only this client.id; may be repeated.")]
Instances = Annotated[
    list[str] | None,
    typer.Option(
        "--instance",
        help="Only this client instance, its id in any form that clients log (base64, hex, UUID); may be repeated.",
    ),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Progress on stderr; by default when that is a terminal."),
]
SparkLog = Annotated[
    str, typer.Option("--spark-log-level", help="Spark's own log on stderr: OFF, ERROR, WARN, INFO, DEBUG.")
]
Metric = Annotated[str, typer.Option("--metric", "-m", help="Only metrics whose names begin with this.")]


@app.command()
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
    master: Master = "local[*]",
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


@app.command()
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
    master: Master = "local[*]",
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Inventory and latency one after the other, in one start of Spark, and how many pushes could not be read.

    With --output every row is also written there, to `inventory` and `latency`, in the form of --format.

    `fleetgauge fleet summary --since 24h`

    `fleetgauge fleet summary --since 24h --format parquet --output ./today`
    """
    _run("summary", locals())


@app.command()
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
    master: Master = "local[*]",
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """How long each broker takes to answer each client, in ms as the client sees it, the slowest first.

    Node -1 stands for the links to bootstrap servers. A client appears once it pushes the standard metrics
    `org.apache.kafka.{producer,consumer}.node.request.latency.{avg,max}`.

    `fleetgauge fleet latency --client-id checkout-service --since 1h`
    """
    _run("latency", locals())


@app.command()
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
    master: Master = "local[*]",
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Every data point that clients pushed, the oldest first; the clients' dialects read as one, the original kept.

    `fleetgauge fleet points --metric org.apache.kafka.consumer. --instance Tm-1TLjmRReIm-FbmcCcIA --limit 20`

    `fleetgauge fleet points --since 7d --format parquet --output s3a://lake/points`
    """
    _run("points", locals())


@app.command()
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
    master: Master = "local[*]",
    progress: ShowProgress = None,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Pushes that could not be read: in which file and row, or partition and offset, they lie, and why.

    `fleetgauge fleet rejects --format json`
    """
    _run("rejects", locals())


def _run(command: str, options: dict[str, Any]) -> None:
    """Runs a command; what is wrong is one sentence on stderr and exit code 1."""
    notes = Console(stderr=True)
    try:
        _answer(command, options, notes)
    except FleetError as error:
        notes.print(f"Error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def _answer(command: str, options: dict[str, Any], notes: Console) -> None:
    selection = _selection(options)
    source = parse_source(options["source"], options["kafka_option"] or (), options["kafka_config"])
    try:
        from fleet import jobs
        from fleet.report.run import Request, run, summarise
    except ModuleNotFoundError as error:
        raise FleetError(
            f"{error.name} is not installed: pip install 'fleetgauge[spark]' brings PySpark and what it needs"
        ) from error
    request = Request(
        title=command,
        source=source,
        kafka_jars=tuple(jar for jar in (options["kafka_jars"] or "").split(",") if jar),
        master=options["master"],
        form=options["form"],
        output=options["output"],
        limit=options["limit"],
        show_progress=options["progress"],
        spark_log_level=options["spark_log_level"],
    )
    if command == "summary":
        parts = {"inventory": jobs.answer_inventory, "latency": jobs.answer_latency}
        return summarise(request, selection, parts, out=sys.stdout, notes=notes)
    job = getattr(jobs, f"answer_{command}")
    if "metric" in options:
        job = partial(job, metric_prefix=options["metric"])
    return run(request, selection, job, out=sys.stdout, notes=notes)


def _selection(options: dict[str, Any]) -> Selection:
    now = datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)
    since, until = (parse_time(text, now) if (text := options[name]) else None for name in ("since", "until"))
    return Selection(
        since=since,
        until=until,
        client_ids=tuple(options["client_id"] or ()),
        instance_ids=parse_instance_ids(options["instance"] or ()),
    )


def main() -> None:
    """The entry point of `python -m fleet.cli`."""
    app(prog_name="fleet")


if __name__ == "__main__":
    main()
