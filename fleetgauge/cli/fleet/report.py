"""`fleet report`: the state of the fleet as a page to be forwarded."""

from typing import Annotated

import typer

from fleetgauge.cli.fleet.explain import Kind, explain
from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    SELECTION,
    StoreConf,
    Tables,
    needs_extra,
    now,
    parse_conf,
    sentences,
)
from fleetgauge.fleet.errors import WrongOptionError
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.terminal.answer import Format
from fleetgauge.terminal.files import check_file, write_file
from fleetgauge.terminal.options import OUTPUT, AnswerOptions


def report(
    *,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="HTML file to write, in place of one that is there; - is stdout.",
            rich_help_panel=OUTPUT,
        ),
    ],
    tables: Tables = DEFAULT_TABLES,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="Beginning of the report's time: an age before the end of the tables (24h, 7d) or a time "
            "(2026-01-31T08:00, UTC). By default 24h.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    subject: Annotated[str | None, typer.Option(metavar="SUBJECT", hidden=True)] = None,
    kind: Annotated[Kind | None, typer.Option(hidden=True)] = None,
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", hidden=True)] = None,
    conf: StoreConf = None,
) -> None:
    """Write the state of the fleet as one HTML file that needs no network, to be forwarded, printed or archived.

    It has the verdicts with their times, who has to act and what to do; the evidence plotted; latency by client and
    broker, throttling, groups, versions, what cannot be judged, and what changed. It is made from the tables that
    `fleet run` keeps. For a page about one client, broker or group see `fleet explain --format html`.

    Examples:
        fleetgauge fleet report --tables ./fleet --output report.html --since 24h
    """
    from rich.console import Console

    say, settings, at = sentences(Console(stderr=True)), parse_conf(conf), now()
    if since is not None:
        parse_time(since, at)  # a time in no known form is reported before the tables are read
    if subject is None and (kind, cluster_id) != (None, None):
        raise WrongOptionError("--kind and --cluster-id choose among the subjects of --subject: give that too")
    check_file(output)
    if subject is not None:
        say("fleetgauge fleet report --subject is now: fleetgauge fleet explain SUBJECT --format html --output FILE")
        page_of = AnswerOptions(form=Format.HTML, output=output)
        explain(
            subject=[subject], tables=tables, kind=kind, cluster_id=cluster_id, since=since, answer=page_of, conf=conf
        )
        return
    with needs_extra("tables"):
        from fleetgauge.fleet.html.page import page
        from fleetgauge.fleet.html.report import ReportRequest
        from fleetgauge.fleet.html.report import report as fleet_report
    summary = fleet_report(ReportRequest(tables=tables, since=since, conf=settings, made_at=at))
    say(f"{summary.verdict} {write_file(output, page(summary))}")
