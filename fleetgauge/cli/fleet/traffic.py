"""`fleet traffic`: what clients did according to the gateways that they passed."""

from typing import Annotated

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_SOURCE,
    SOURCE,
    ClientIds,
    ConsumerGroup,
    RuleFile,
    Selecting,
    Since,
    Until,
    needs_extra,
)
from fleetgauge.cli.fleet.verdicts import load
from fleetgauge.terminal.options import TableOptions


def traffic(
    *,
    source: Annotated[
        str,
        typer.Option(
            "--source", "-s", help="Landing zone that gateways write to: a directory.", rich_help_panel=SOURCE
        ),
    ] = DEFAULT_SOURCE,
    since: Since = None,
    until: Until = None,
    client_id: ClientIds = None,
    group: ConsumerGroup = None,
    seen_only: Annotated[bool, typer.Option("--seen", help="Only rows in which something is conspicuous.")] = False,
    rules: RuleFile = None,
    answer: TableOptions,
) -> None:
    """Show the requests of every client that passed a gateway, with or without telemetry, the most frequent first.

    One row per principal, client id, API and group, over all instances of the client id. `seen` names small requests
    or responses, no compression, throttled, joins (of a group) and errors, by the figures of `fleetgauge fleet rules`.
    It needs no Java and no Spark.

    Examples:
        fleetgauge fleet traffic --since 1h --seen
        fleetgauge fleet traffic --client-id orders --format json
    """
    selected = Selecting(since=since, until=until, client_id=client_id).selection()
    with needs_extra("tables"):
        from fleetgauge.fleet.report.traffic import TrafficRequest
        from fleetgauge.fleet.report.traffic import traffic as show_traffic
    request = TrafficRequest(
        source=source, selection=selected, group_id=group, seen_only=seen_only, rules=load(rules), to=answer.to()
    )
    answer.print(show_traffic(request))
