"""Quotas and plans of them as answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from fleetgauge.cli.cluster.plan import SIGNS, STYLES, carry_out
from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cli.units import number
from fleetgauge.cluster.plan import Change, has_changes
from fleetgauge.cluster.quotas.cluster import QuotaCluster
from fleetgauge.cluster.quotas.limits import QUOTAS, LimitName
from fleetgauge.cluster.quotas.usage import REPLAYED, Usage, usage
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.terminal.answer import Answer, PlainRows
from fleetgauge.terminal.table import print_rows, wide_console
from fleetgauge.terminal.text import printable

_UNKNOWN: Final = "unknown"


def list_answer(settings: ClusterSettings, tables: str | None, since: str) -> Answer:
    """The limits of a cluster.

    Args:
        settings: the cluster.
        tables: root of the tables that tell how far byte rates are used; None leaves that out.
        since: age of the first window of the tables that counts.

    Raises:
        ResourceError: the cluster or the tables cannot be read.
    """
    with QuotaCluster(settings) as cluster:
        limits = cluster.list()
    used = {} if tables is None else usage(limits, tables, since)
    names = sorted(limits, key=QUOTAS.words)

    def text(console: Console) -> None:
        rows = [_row(name, limits[name], used.get(name), is_asked=tables is not None) for name in names]
        if rows:
            print_rows(console, tuple(rows[0]), rows, right={"limit", "utilization", "clients", "without bytes"})
        else:
            console.print("there is no quota")

    objects = [_as_json(name, limits[name], used.get(name)) for name in names]
    return Answer(text=text, rows=PlainRows(objects), is_array=True)


def plan_answer(settings: ClusterSettings, file: Path, *, prune: bool) -> tuple[Answer, bool]:
    """Changes that a file would make, and True if there is one.

    Raises:
        ResourceError: the file or the cluster cannot be read.
    """
    wanted = read_file(file, QUOTAS)
    with QuotaCluster(settings) as cluster:
        changes = QUOTAS.plan(cluster.list(), wanted, prune=prune)
    objects = [_change_as_json(each) for each in changes]
    whole = {"changes": objects, "has_changes": has_changes(changes)}
    answer = Answer(text=lambda console: _print_plan(console, changes), rows=PlainRows(objects), value=whole)
    return answer, has_changes(changes)


def apply_file(settings: ClusterSettings, file: Path, *, prune: bool, yes: bool) -> None:
    """Shows the plan of a file, asks, and makes its changes.

    Raises:
        ResourceError: the file or the cluster cannot be read, or the cluster refuses a change.
        typer.Abort: the answer is no.
    """
    wanted = read_file(file, QUOTAS)
    with QuotaCluster(settings) as cluster:
        changes = QUOTAS.plan(cluster.list(), wanted, prune=prune)
        _print_plan(wide_console(), changes)
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


def _print_plan(console: Console, changes: Sequence[Change[LimitName, float]]) -> None:
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
