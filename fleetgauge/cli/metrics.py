"""`fleetgauge metrics`: the known metrics of clients, and those that a prefix selects."""

from dataclasses import asdict, fields
from typing import Annotated, Literal

import typer
from rich.console import Console

from fleetgauge.telemetry.catalogue.nearest_prefix import nearest_prefix
from fleetgauge.telemetry.catalogue.standard_metrics import REQUIRED_SOURCE, KnownMetric, selected
from fleetgauge.terminal.answer import Answer, PlainRows
from fleetgauge.terminal.options import ColumnOptions
from fleetgauge.terminal.table import print_rows
from fleetgauge.terminal.text import printable

Role = Literal["producer", "consumer", "share-consumer", "admin", "streams"]
Client = Literal["java", "librdkafka", "franz-go"]

_HEADINGS = ("metric", "type", "KIP-714", "attributes", "clients", "Kafka's group", "Kafka's name")
_LEAST = ("type", "Kafka's group", "attributes", "Kafka's name", "KIP-714", "clients")
"""Columns to leave out on a narrow terminal, the first one first."""


def metrics(
    *,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix", "-p", help="Only metrics that this subscription prefix selects; may be repeated; *: all."
        ),
    ] = None,
    role: Annotated[Role | None, typer.Option("--role", help="Only metrics of this kind of client.")] = None,
    client: Annotated[Client | None, typer.Option("--client", help="Only metrics that this client sends.")] = None,
    standard: Annotated[bool, typer.Option("--standard", help="Only standard metrics of KIP-714.")] = False,
    required: Annotated[
        bool, typer.Option("--required", help=f"Only metrics that KIP-714 requires of every client, {REQUIRED_SOURCE}.")
    ] = False,
    answer: ColumnOptions,
) -> None:
    """Show the known metrics of clients, by the names that subscriptions use.

    With --prefix, only those that a subscription with it selects. Clients may have others: an application's own, and
    those of newer versions. Exits with 1 if no metric matches, and names the nearest known prefix.

    Examples:
        fleetgauge metrics --role consumer --client librdkafka
        fleetgauge metrics --prefix org.apache.kafka.consumer.fetch.manager. --format json
    """
    shown = answer.to().headings(_HEADINGS)
    matching = [
        metric
        for metric in selected(prefix or ("*",))
        if (role is None or role in metric.roles)
        and (client is None or client in metric.clients)
        and (metric.is_standard or not standard)
        and (metric.is_required or not required)
    ]

    def text(console: Console) -> None:
        if matching:
            rows = [_cells(metric) for metric in matching]
            print_rows(console, shown or _HEADINGS, rows, least=() if shown else _LEAST)
            console.print(f"{len(matching)} metrics")

    names = [field.name for field in fields(KnownMetric)]
    answer.print(Answer(text=text, rows=PlainRows([asdict(metric) for metric in matching], names), is_array=True))
    if not matching:
        typer.echo(_nothing(prefix or []), err=True)
        raise typer.Exit(1)


def _nothing(prefixes: list[str]) -> str:
    for prefix in prefixes:
        nearest = "" if selected((prefix,)) else nearest_prefix(prefix)
        if nearest:
            return f"fleetgauge: no known client has a metric under {printable(prefix)}; did you mean {nearest}?"
    return "fleetgauge: no known metric is selected by these options"


def _cells(metric: KnownMetric) -> dict[str, str]:
    level = "required" if metric.is_required else "standard" if metric.is_standard else ""
    cells = (
        *(metric.name, metric.type, level, " ".join(metric.attributes), " ".join(metric.clients)),
        *(metric.kafka_group, metric.kafka_name),
    )
    return dict(zip(_HEADINGS, cells, strict=True))
