"""`fleetgauge quotas`: the quotas of brokers and nodes, declared in a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from fleetgauge.cli.cluster.options import ClusterOptions, Form, FormOption
from fleetgauge.cli.cluster.plan import SIGNS, STYLES, PlanCommand, Yes, carry_out, end_plan
from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cli.output import write_json
from fleetgauge.cli.units import number
from fleetgauge.cluster.plan import Change, has_changes
from fleetgauge.cluster.quotas.cluster import QuotaCluster
from fleetgauge.cluster.quotas.limits import QUOTAS, LimitName
from fleetgauge.cluster.quotas.usage import REPLAYED, Usage, usage
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.table import print_rows, wide_console
from fleetgauge.terminal.text import printable

app = App(help="Plan and apply the quotas of brokers or nodes, and see how far they are used.", no_args_is_help=True)

File = Annotated[
    Path, typer.Option("--file", "-f", help='TOML file with the tables [quotas."ENTITY"], as a node\'s has them.')
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete limits that are not in the file.")]
TablesRoot = Annotated[
    str | None,
    typer.Option("--tables", metavar="ROOT", help="Standing tables (fleet run): how far byte rates are used."),
]
Since = Annotated[
    str, typer.Option("--since", metavar="AGE", help="With --tables: usage in windows since then: 30m, 2h, 7d.")
]
_UNKNOWN: Final = "unknown"


@app.command("list")
def list_them(
    options: ClusterOptions,
    tables: TablesRoot = None,
    since: Since = "1h",
    form: FormOption = "table",
) -> None:
    """List the quotas, and with --tables how far byte rates are used.

    Utilization is the highest rate at any broker, divided by the limit. It is unknown if no client of a limit reports
    bytes (librdkafka and franz-go report none), and for other keys, which no client reports.

    `fleetgauge quotas list --bootstrap-server broker-1:9092 --tables ./fleet`
    """
    with QuotaCluster(options.settings()) as cluster:
        limits = cluster.list()
    used = {} if tables is None else usage(limits, tables, since)
    names = sorted(limits, key=QUOTAS.words)
    if form == "json":
        write_json([_as_json(name, limits[name], used.get(name)) for name in names])
        return
    rows = [_row(name, limits[name], used.get(name), is_asked=tables is not None) for name in names]
    if rows:
        print_rows(wide_console(), tuple(rows[0]), rows, right={"limit", "utilization", "clients", "without bytes"})
    else:
        wide_console().print("there is no quota")


@app.command("plan", cls=PlanCommand)
def plan_them(
    file: File,
    options: ClusterOptions,
    prune: Prune = False,
    form: FormOption = "table",
) -> None:
    """Show what a file would change. Changes nothing.

    Exits with 0 if nothing would change, with 2 if something would, with 1 after an error.

    `fleetgauge quotas plan -f quotas.toml --bootstrap-server broker-1:9092`
    """
    wanted = read_file(file, QUOTAS)
    with QuotaCluster(options.settings()) as cluster:
        changes = QUOTAS.plan(cluster.list(), wanted, prune=prune)
    _print_plan(changes, form)
    end_plan(changes)


@app.command()
def apply(
    file: File,
    options: ClusterOptions,
    prune: Prune = False,
    yes: Yes = False,
) -> None:
    """Make the cluster's limits those of a file; others are left alone without --prune. Shows the plan first.

    `fleetgauge quotas apply -f quotas.toml --bootstrap-server broker-1:9092`
    """
    wanted = read_file(file, QUOTAS)
    with QuotaCluster(options.settings()) as cluster:
        changes = QUOTAS.plan(cluster.list(), wanted, prune=prune)
        _print_plan(changes, "table")
        carry_out(QUOTAS, cluster, changes, yes=yes)


def _row(name: LimitName, limit: float, used: Usage | None, *, is_asked: bool) -> dict[str, str]:
    row = {**_name_as_json(name), "limit": number(limit)}
    if not is_asked:
        return row
    if used is None:
        no_clients = "no client" if name[1] in REPLAYED else ""
        return {**row, "utilization": _UNKNOWN, "clients": no_clients, "without bytes": "", "throttled": ""}
    return {
        **row,
        "utilization": _UNKNOWN if used.utilization is None else f"{used.utilization:.0%}",
        "clients": str(used.instances),
        "without bytes": str(used.without_bytes),
        "throttled": str(used.throttled or "none"),
    }


def _as_json(name: LimitName, limit: float, used: Usage | None) -> dict[str, Any]:
    return {
        **_name_as_json(name),
        "limit": limit,
        "utilization": None if used is None else used.utilization,
        "clients": None if used is None else used.instances,
        "clients_without_bytes": None if used is None else used.without_bytes,
        "throttled": None if used is None else used.throttled,
    }


def _name_as_json(name: LimitName) -> dict[str, str]:
    return dict(zip(("entity", "key"), QUOTAS.words(name), strict=True))


def _print_plan(changes: Sequence[Change[LimitName, float]], form: Form) -> None:
    if form == "json":
        write_json({"changes": [_change_as_json(each) for each in changes], "has_changes": has_changes(changes)})
        return
    console = wide_console()
    for each in changes:
        console.print(Text(f"{SIGNS[each.action]} {_described(each)}", style=STYLES.get(each.action, "")))
    if not has_changes(changes):
        console.print("Nothing would change.")


def _described(change: Change[LimitName, float]) -> str:
    limits = [number(each) for each in (change.before, change.after) if each is not None]
    shown = " -> ".join(dict.fromkeys(limits))
    return printable("  ".join((*QUOTAS.words(change.name), shown, f"({change.action})")))


def _change_as_json(change: Change[LimitName, float]) -> Mapping[str, Any]:
    return {
        **_name_as_json(change.name),
        "action": change.action,
        "before": change.before,
        "after": change.result,
    }
