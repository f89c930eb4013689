"""Questions to a landing zone or topic: `fleet inventory`, `summary`, `latency`, `points`, `rejects`."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from fleetgauge.cli.fleet.options import (
    DEFAULT_SOURCE,
    Form,
    KafkaClient,
    Limit,
    OutputPath,
    Rows,
    Selecting,
    Source,
    Spark,
    listed,
    needs_extra,
    sentences,
)
from fleetgauge.fleet.metric_names import advice
from fleetgauge.fleet.report.form import Format


def inventory(
    *, source: Source = DEFAULT_SOURCE, kafka: KafkaClient, selecting: Selecting, rows: Rows, spark: Spark
) -> None:
    """Who is in the fleet: one row a client instance, the latest seen first.

    Software, principal, address, pushes and data points, first and last seen, and whether it ended with a
    terminating push.

    `fleetgauge fleet inventory --since 24h`

    `fleetgauge fleet inventory --source kafka://broker-1:9092,broker-2:9092/fleetgauge-pushes --since 24h`

    `fleetgauge fleet inventory --format parquet --output ./inventory`
    """
    _answer("inventory", source, kafka, selecting, rows, spark)


def summary(
    *,
    source: Source = DEFAULT_SOURCE,
    kafka: KafkaClient,
    selecting: Selecting,
    form: Form = Format.TABLE,
    output: OutputPath = None,
    limit: Limit = 50,
    spark: Spark,
) -> None:
    """Inventory and latency one after the other, and how many pushes could not be read.

    With --output every row is also written there, to `inventory` and `latency`, in the form of --format.

    `fleetgauge fleet summary --since 24h`

    `fleetgauge fleet summary --since 24h --format parquet --output ./today`
    """
    _answer("summary", source, kafka, selecting, Rows(form=form, output=output, limit=limit), spark)


def latency(
    *, source: Source = DEFAULT_SOURCE, kafka: KafkaClient, selecting: Selecting, rows: Rows, spark: Spark
) -> None:
    """How long each broker takes to answer each client, in ms as the client sees it, the slowest first.

    Node -1 stands for the links to bootstrap servers. A client appears once it pushes the standard metrics
    `org.apache.kafka.{producer,consumer}.node.request.latency.{avg,max}`. A Java consumer that is away from `poll()`
    for long reads responses late: `slow by` says so, and such rows come last.

    `fleetgauge fleet latency --client-id checkout-service --since 1h`
    """
    _answer("latency", source, kafka, selecting, rows, spark)


def points(
    *,
    source: Source = DEFAULT_SOURCE,
    kafka: KafkaClient,
    selecting: Selecting,
    metric: Annotated[str, typer.Option("--metric", "-m", help="Only metrics whose names begin with this.")] = "",
    rows: Rows,
    spark: Spark,
) -> None:
    """Every data point that clients pushed, the oldest first; the clients' dialects read as one, the original kept.

    `fleetgauge fleet points --metric org.apache.kafka.consumer. --instance-id Tm-1TLjmRReIm-FbmcCcIA --limit 20`

    `fleetgauge fleet points --since 7d --format parquet --output s3a://lake/points`
    """
    _answer("points", source, kafka, selecting, rows, spark, metric)


def rejects(
    *, source: Source = DEFAULT_SOURCE, kafka: KafkaClient, selecting: Selecting, rows: Rows, spark: Spark
) -> None:
    """Pushes that could not be read: in which file and row, or partition and offset, they lie, and why.

    `fleetgauge fleet rejects --format json`
    """
    _answer("rejects", source, kafka, selecting, rows, spark)


def _answer(
    command: str, source: str, kafka: KafkaClient, selecting: Selecting, rows: Rows, spark: Spark, metric: str = ""
) -> None:
    notes, selected, read_from = Console(stderr=True), selecting.selection(), kafka.of(source)
    with needs_extra("tables"):
        from fleetgauge.fleet.engines.questions import question
        from fleetgauge.fleet.report.request import Request
        from fleetgauge.fleet.report.run import run, summarise
    request = Request(
        title=command,
        source=read_from,
        kafka_jars=listed(kafka.kafka_jars),
        engine=spark.asked,
        master=spark.master,
        to=rows,
        show_progress=spark.progress,
        spark_log_level=spark.spark_log_level,
    )
    if unknown := advice(metric):
        sentences(notes)(unknown)
    if command == "summary":
        parts = {name: question(name) for name in ("inventory", "latency")}
        return summarise(request, selected, parts, out=sys.stdout, notes=notes)
    return run(request, selected, question(command, metric), out=sys.stdout, notes=notes)
