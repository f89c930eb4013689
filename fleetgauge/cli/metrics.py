"""`fleetgauge metrics`: the metrics that clients are known to send, and which of them a prefix would select."""

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from telemetry.prefix_advice import nearest_prefix
from telemetry.standard_metrics import KnownMetric, selected
from terminal.text import printable

Role = Literal["producer", "consumer", "share-consumer", "admin", "streams"]
Client = Literal["java", "librdkafka", "franz-go"]


def metrics(
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", "-p", help="Only what a subscription with this prefix selects; repeatable; * is all."),
    ] = None,
    role: Annotated[Role | None, typer.Option("--role", help="Only metrics of this kind of client.")] = None,
    client: Annotated[Client | None, typer.Option("--client", help="Only metrics that this client sends.")] = None,
    standard: Annotated[bool, typer.Option("--standard", help="Only those that KIP-714 calls standard.")] = False,
    required: Annotated[bool, typer.Option("--required", help="Only those that KIP-714 requires.")] = False,
    form: Annotated[Literal["table", "json"], typer.Option("--format", "-f", help="How to print it.")] = "table",
) -> None:
    """Show the metrics that clients are known to send, by the names that subscriptions use.

    With --prefix, those that a subscription with it would ask for. Clients may have others: an application's own, and
    what a newer version brings. Exits with 1 where nothing is left, naming the nearest known prefix.
    """
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
        _print_whole(_table(found))
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


def _print_whole(table: Table) -> None:
    """One line a metric, however narrow the terminal: they are read with grep."""
    console = Console(markup=False)
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1_000)).maximum)
    console.print(table)


def _table(found: list[KnownMetric]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("metric", "type", "KIP-714", "attributes", "clients", "Kafka's group", "Kafka's name"):
        table.add_column(column, no_wrap=True)
    for metric in found:
        table.add_row(
            metric.name,
            metric.type,
            "required" if metric.is_required else "standard" if metric.is_standard else "",
            " ".join(metric.attributes),
            " ".join(metric.clients),
            metric.kafka_group,
            metric.kafka_name,
        )
    return table
