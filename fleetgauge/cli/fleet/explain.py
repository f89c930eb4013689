"""`fleet explain` and `fleet changes`: what lies behind the verdicts, and what is new since a time."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    StoreConf,
    SummaryForm,
    Tables,
    WholeRows,
    needs_extra,
    now,
    parse_conf,
    time_option,
)
from fleetgauge.cli.fleet.verdicts import FailOn, exit_code
from fleetgauge.fleet.report.form import SummaryFormat
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.terminal.table import wide_console
from fleetgauge.terminal.text import printable_json

if TYPE_CHECKING:
    from fleetgauge.fleet.explain.explanation import Explanation


Kind = Literal["client", "instance", "group", "node", "path", "version"]
"""Values of --kind."""


def explain(
    subject: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT",
            help="A client id, client instance id, group id, node (3 or node 3), path (CLIENT@NODE) or version "
            "(SOFTWARE/VERSION).",
        ),
    ],
    tables: Tables = DEFAULT_TABLES,
    kind: Annotated[Kind | None, typer.Option(help="Where several are called alike, only this one.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only in the cluster with this id.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Beginning of the plots: an age (30m, 2h, 7d) or a time (UTC). By default their last day."),
    ] = None,
    form: SummaryForm = SummaryFormat.TABLE,
    conf: StoreConf = None,
) -> None:
    """What the tables know of a client, instance, group, node, path or version.

    Its verdicts, what it did over time beside its peers and before, its versions and instances, and what cannot be
    judged of it and why. All subjects of the name are explained.

    `fleetgauge fleet explain orders --tables ./fleet`

    `fleetgauge fleet explain node 3 --tables ./fleet --since 2h --format json`
    """
    with needs_extra("tables"):
        from fleetgauge.fleet.explain.explanation import ExplainRequest
        from fleetgauge.fleet.explain.explanation import explain as explained
    request = ExplainRequest(
        text=" ".join(subject),
        tables=tables,
        kind=kind,
        cluster_id=cluster,
        since=time_option(since, now()),
        conf=parse_conf(conf),
    )
    _print(explained(request), form)


def changes(
    *,
    tables: Tables = DEFAULT_TABLES,
    since: Annotated[
        str,
        typer.Option(help="An age (30m, 2h, 7d), a time (2026-01-31T08:00, UTC), today or yesterday (its midnight)."),
    ] = "yesterday",
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            help="Exit with 4 when a verdict that opened since then is this severe, or more, even if it is over.",
        ),
    ] = None,
    rows: WholeRows,
    conf: StoreConf = None,
) -> None:
    """What is new since a time: clients and versions that came and left, verdicts that opened and cleared.

    `fleetgauge fleet changes --tables ./fleet --since yesterday`

    `fleetgauge fleet changes --tables ./fleet --since 7d --format json`
    """
    with needs_extra("tables"):
        from fleetgauge.fleet.explain.show_changes import show_changes
        from fleetgauge.fleet.views.show_verdicts import VerdictsRequest
    request = VerdictsRequest(tables=tables, to=rows, conf=parse_conf(conf))
    raise typer.Exit(exit_code(fail_on, show_changes(request, parse_time(since, now()), sys.stdout)))


def _print(found: "Sequence[Explanation]", form: SummaryFormat) -> None:
    from fleetgauge.fleet.explain.page import print_explanation

    if form is SummaryFormat.JSON:
        text = json.dumps([each.as_object() for each in found], ensure_ascii=False)
        sys.stdout.write(printable_json(text) + "\n")
        return
    console = wide_console(sys.stdout)
    for number, each in enumerate(found):
        if number:
            console.print()
        print_explanation(console, each)
