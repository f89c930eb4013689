"""`fleet traffic`: what clients did according to the gateways that they passed."""

import sys
from typing import Annotated

import typer

from fleetgauge.cli.fleet.options import ClientIds, ConsumerGroup, Rows, RuleFile, Selecting, needs_extra
from fleetgauge.cli.fleet.verdicts import load


def traffic(
    *,
    source: Annotated[
        str, typer.Option("--source", "-s", help="Landing zone that gateways write to: a directory.")
    ] = "./fleetgauge-data/landing",
    since: Annotated[
        str | None,
        typer.Option(help="Intervals from then on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC)."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Intervals before then; forms as for --since.")] = None,
    client_id: ClientIds = None,
    group: ConsumerGroup = None,
    seen_only: Annotated[bool, typer.Option("--seen", help="Only rows in which something is conspicuous.")] = False,
    rules: RuleFile = None,
    rows: Rows,
) -> None:
    """Requests of every client that passed a gateway, with or without telemetry, the most frequent first.

    One row per principal, client id, API and group, over all instances of the client id. `seen` names small requests
    or responses, no compression, throttled, joins (of a group) and errors, by the figures of `fleetgauge fleet rules`.
    Needs no Java and no Spark.

    `fleetgauge fleet traffic --since 1h --seen`

    `fleetgauge fleet traffic --client-id orders --format json`
    """
    selected = Selecting(since=since, until=until, client_id=client_id).selection()
    with needs_extra("tables"):
        from fleetgauge.fleet.report.traffic import TrafficRequest
        from fleetgauge.fleet.report.traffic import traffic as show_traffic
    request = TrafficRequest(
        source=source,
        selection=selected,
        group_id=group,
        seen_only=seen_only,
        rules=load(rules),
        to=rows,
    )
    show_traffic(request, sys.stdout)
