"""`fleetgauge quotas`: the quotas of brokers and nodes, declared in a file."""

from pathlib import Path
from typing import Annotated

import typer

from fleetgauge.cli.cluster.options import EXIT_CHANGE, ClusterAnswer, ClusterOptions, Yes
from fleetgauge.terminal.option_groups import App

app = App(help="Plan and apply the quotas of brokers or nodes, and show how far they are used.", no_args_is_help=True)

File = Annotated[
    Path, typer.Option("--file", "-f", help='TOML file with the tables [quotas."ENTITY"], as a node\'s has them.')
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete limits that are not in the file.")]
TablesRoot = Annotated[
    str | None,
    typer.Option("--tables", "-t", metavar="ROOT", help="Tables of fleet run: how far byte rates are used."),
]
Since = Annotated[
    str, typer.Option("--since", metavar="AGE", help="With --tables: usage in windows since then: 30m, 2h, 7d.")
]


@app.command("list")
def list_them(
    *, since: Since = "1h", tables: TablesRoot = None, options: ClusterOptions, answer: ClusterAnswer
) -> None:
    """List the quotas, and with --tables how far byte rates are used.

    Utilization is the highest rate at any broker, divided by the limit. It is unknown if no client of a limit reports
    bytes (librdkafka and franz-go report none), and for other keys, which no client reports.

    Examples:
        fleetgauge quotas list --bootstrap-server broker-1:9092
        fleetgauge quotas list --bootstrap-server broker-1:9092 --tables ./fleet
    """
    from fleetgauge.cli.cluster.quota_answers import list_answer

    answer.print(list_answer(options.settings(), tables, since))


@app.command("plan")
def plan_them(*, file: File, prune: Prune = False, options: ClusterOptions, answer: ClusterAnswer) -> None:
    """Show what a file would change. Changes nothing.

    Exits with 0 if nothing would change, and with 4 if something would.

    Examples:
        fleetgauge quotas plan -f quotas.toml --bootstrap-server broker-1:9092
    """
    from fleetgauge.cli.cluster.quota_answers import plan_answer

    plan, has_changes = plan_answer(options.settings(), file, prune=prune)
    answer.print(plan)
    if has_changes:
        raise typer.Exit(EXIT_CHANGE)


@app.command()
def apply(*, file: File, prune: Prune = False, yes: Yes = False, options: ClusterOptions) -> None:
    """Make the cluster's limits those of a file; others are left alone without --prune. Shows the plan first.

    Examples:
        fleetgauge quotas apply -f quotas.toml --bootstrap-server broker-1:9092
    """
    from fleetgauge.cli.cluster.quota_answers import apply_file

    apply_file(options.settings(), file, prune=prune, yes=yes)
