"""`fleet traffic`: what clients did according to the gateways that they passed."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from fleetgauge.fleet.cli_options import (
    DEFAULT_LIMIT,
    ClientIds,
    Form,
    Limit,
    Output,
    needs_extra,
    said_in_a_sentence,
    selection,
)
from fleetgauge.fleet.cli_verdicts import RuleFile, load
from fleetgauge.fleet.report.form import Format
from fleetgauge.terminal.options import Columns


def traffic(
    source: Annotated[
        str, typer.Option("--source", "-s", help="Landing zone that gateways write to: a directory.")
    ] = "./fleetgauge-data/landing",
    since: Annotated[
        str | None,
        typer.Option(help="Intervals from then on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC)."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Intervals before then; forms as for --since.")] = None,
    client_id: ClientIds = None,
    group: Annotated[str | None, typer.Option(help="Only this consumer group.")] = None,
    seen_only: Annotated[bool, typer.Option("--seen", help="Only rows in which something is conspicuous.")] = False,
    rules: RuleFile = None,
    form: Form = Format.TABLE,
    output: Output = None,
    limit: Limit = DEFAULT_LIMIT,
    columns: Columns = None,
) -> None:
    """Requests of every client that passed a gateway, with or without telemetry, the most frequent first.

    One row per principal, client id, API and group, over all instances of the client id. `seen` names small requests
    or responses, no compression, throttled, joins (of a group) and errors, by the figures of `fleetgauge fleet rules`.
    Needs no Java and no Spark.

    `fleetgauge fleet traffic --since 1h --seen`

    `fleetgauge fleet traffic --client-id orders --format json`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        _traffic(options)


def _traffic(options: dict[str, Any]) -> None:
    selected = selection({**options, "instance": None})
    with needs_extra("tables"):
        from fleetgauge.fleet.report.traffic import TrafficRequest, traffic
    request = TrafficRequest(
        source=options["source"],
        selection=selected,
        group_id=options["group"],
        seen_only=options["seen_only"],
        rules=load(options["rules"]),
        form=options["form"],
        output=options["output"],
        limit=options["limit"],
        columns=options["columns"],
    )
    traffic(request, sys.stdout)
