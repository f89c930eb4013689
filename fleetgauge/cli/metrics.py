"""`fleetgauge metrics`: the metrics that clients are known to send, and which of them a prefix would select."""

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from base.errors import FleetgaugeError
from telemetry.catalogue.prefix_advice import nearest_prefix
from telemetry.catalogue.standard_metrics import KnownMetric, selected
from terminal.options import Columns
from terminal.table import UnknownColumnError, chosen_columns, print_rows, wide_console
from terminal.text import printable

Role = Literal["producer", "consumer", "share-consumer", "admin", "streams"]
Client = Literal["java", "librdkafka", "franz-go"]

_HEADINGS = ("metric", "type", "KIP-714", "attributes", "clients", "Kafka's group", "Kafka's name")
_LEAST = ("type", "Kafka's group", "attributes", "Kafka's name", "KIP-714", "clients")
"""The first is left out first where the terminal is too narrow."""


def metrics(
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", "-p", help="Only what a subscription with this prefix selects; repeatable; * is all."),
    ] = None,
    role: Annotated[Role | None, typer.Option("--role", help="Only metrics of this kind of client.")] = None,
    client: Annotated[Client | None, typer.Option("--client", help="Only metrics that this client sends.")] = None,
    standard: Annotated[bool, typer.Option("--standard", help="Only those that KIP-714 calls standard.")] = False,
    required: Annotated[bool, typer.Option("--required", help="Only those that KIP-714 requires.")] = False,
    columns: Columns = None,
    form: Annotated[Literal["table", "json"], typer.Option("--format", "-f", help="How to print it.")] = "table",
) -> None:
    """Show the metrics that clients are known to send, by the names that subscriptions use.

    With --prefix, those that a subscription with it would ask for. Clients may have others: an application's own, and
    what a newer version brings. Exits with 1 where nothing is left, naming the nearest known prefix.
    """
    try:
        shown = chosen_columns(_HEADINGS, columns) if columns is not None else ()
    except UnknownColumnError as error:
        raise FleetgaugeError(str(error)) from error
    found = [
        metric
        for metric in selected(prefix or ("*",))
        if (role is None or role in metric.roles)
        and (client is None or client in metric.clients)
        and (metric.is_standard or not standard)
        and (metric.is_required or not required)
    ]
    if form == "json":
        typer.echo(json.dumps([asdict(metric) for metric in found], indent=2))
    elif found:
        rows = [_cells(metric) for metric in found]
        print_rows(wide_console(), shown or _HEADINGS, rows, least=() if shown else _LEAST)
        typer.echo(f"{len(found)} metrics")
    if not found:
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
