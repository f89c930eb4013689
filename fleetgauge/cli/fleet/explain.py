"""`fleet explain` and `fleet changes`: all that is known of a subject, and the changes since a time."""

from typing import Annotated, Literal

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    SELECTION,
    ClusterId,
    StoreConf,
    Tables,
    needs_extra,
    now,
    parse_conf,
    sentences,
    time_option,
)
from fleetgauge.cli.fleet.verdicts import FailOn, exit_code
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.terminal.answer import Answer, Format, PlainRows
from fleetgauge.terminal.files import STDOUT, write_file
from fleetgauge.terminal.options import AnswerOptions, TableOptions

Kind = Literal["client", "instance", "group", "node", "path", "version"]
"""Values of --kind."""


def explain(
    *,
    subject: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT",
            help="A client id, client instance id, group id, node (3 or node 3), path (CLIENT@NODE) or version "
            "(SOFTWARE/VERSION).",
        ),
    ],
    tables: Tables = DEFAULT_TABLES,
    kind: Annotated[
        Kind | None, typer.Option(help="Only this kind, if several have the name.", rich_help_panel=SELECTION)
    ] = None,
    cluster_id: ClusterId = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="Beginning of the plots: an age (30m, 2h, 7d) or a time (UTC). By default their last day.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    answer: AnswerOptions,
    conf: StoreConf = None,
) -> None:
    """Explain a client, instance, group, node, path or version: all that the tables know of it.

    Its verdicts, its measures over time beside those of its peers and before, its versions and instances, and what
    cannot be judged and why. All subjects of the name are explained. HTML is the page of the report about it.

    Examples:
        fleetgauge fleet explain orders --tables ./fleet
        fleetgauge fleet explain node 3 --tables ./fleet --since 2h --format json
        fleetgauge fleet explain orders --tables ./fleet --format html --output orders.html
    """
    from rich.console import Console

    to, text, at, settings = answer.to(), " ".join(subject), now(), parse_conf(conf)
    begin = time_option(since, at)
    if to.form is Format.HTML:
        with needs_extra("tables"):
            from fleetgauge.fleet.html.page import subject_page
            from fleetgauge.fleet.html.report import ReportRequest, subject_report
        request = ReportRequest(tables=tables, since=since, conf=settings, made_at=at)
        written = write_file(to.output or STDOUT, subject_page(subject_report(request, text, kind, cluster_id)))
        sentences(Console(stderr=True))(written)
        return
    with needs_extra("tables"):
        from fleetgauge.fleet.explain.explanation import ExplainRequest
        from fleetgauge.fleet.explain.explanation import explain as explained
        from fleetgauge.fleet.explain.page import print_explanations
    explanations = explained(
        ExplainRequest(text=text, tables=tables, kind=kind, cluster_id=cluster_id, since=begin, conf=settings)
    )
    rows = PlainRows([each.as_object() for each in explanations])
    answer.print(Answer(text=lambda console: print_explanations(console, explanations), rows=rows, is_array=True))


def changes(
    *,
    tables: Tables = DEFAULT_TABLES,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            help="An age (30m, 2h, 7d), a time (2026-01-31T08:00, UTC), today or yesterday (its midnight).",
            rich_help_panel=SELECTION,
        ),
    ] = "yesterday",
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            help="Exit with 4 if a verdict that opened since then is this severe, or more, even if it has cleared.",
        ),
    ] = None,
    answer: TableOptions,
    conf: StoreConf = None,
) -> None:
    """List the changes since a time: clients and versions that came and left, verdicts that opened and cleared.

    The latest come first.

    Examples:
        fleetgauge fleet changes --tables ./fleet --since yesterday
        fleetgauge fleet changes --tables ./fleet --since 7d --format json
    """
    with needs_extra("tables"):
        from fleetgauge.fleet.explain.show_changes import show_changes
        from fleetgauge.fleet.views.show_verdicts import VerdictsRequest
    request = VerdictsRequest(tables=tables, to=answer.to(), conf=parse_conf(conf))
    changed = show_changes(request, parse_time(since, now()))
    answer.print(changed.answer)
    raise typer.Exit(exit_code(fail_on, changed.severities))
