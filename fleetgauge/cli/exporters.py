"""`fleetgauge exporters`: how each exporter does: how far it is, what it could not deliver, how long things take."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from base.errors import FleetgaugeError
from exporters.delivery.histogram import quantile
from fleetgauge.admin.node_socket import Status
from fleetgauge.cli.options import ConfigFile, LogDirs, Overrides, data_directory
from fleetgauge.cli.status import NOTHING_TOLD, last_error, process_line, read_node_and_exports
from fleetgauge.cli.units import ago, amount, duration, size
from terminal.options import Columns
from terminal.table import SafeTable, UnknownColumnError, chosen_columns, print_rows, wide_console
from terminal.text import printable

_Told = Mapping[str, Any]
_OF_THE_PROCESS = ("pid", "restarts", "status_age_ms")
_HEADINGS = (
    "exporter", "type", "state", "behind", "delivered", "export p50, p99", "fresh p50, p99", "retried", "refused",
    "dead", "lost",
)  # fmt: skip
_LEAST = ("type", "export p50, p99", "retried", "fresh p50, p99", "refused", "delivered")


def exporters(
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    form: Annotated[Literal["table", "json"], typer.Option("--format", "-f", help="How to print it.")] = "table",
    columns: Columns = None,
) -> None:
    """Show how the exporters of a running node do, and of every fleetgauge export beside it.

    What an exporter process said last; where it does not run, or has been silent for long, that is said too. Of each
    exporter: its state, how far it is behind the log's end, what it delivered, retried, refused and lost, how
    long exports take, and how old a push is when it is delivered. Exits with 1 where no node runs.
    """
    try:
        shown = chosen_columns(_HEADINGS, columns) if columns is not None else ()
    except UnknownColumnError as error:
        raise FleetgaugeError(str(error)) from error
    found = _processes(read_node_and_exports(data_directory(config, override, log_dirs)))
    if form == "json":
        typer.echo(json.dumps(found, indent=2))
        return
    console = wide_console()
    for process in found:
        console.print(_log(process))
        console.print()
        rows = [_progress(name, told) for name, told in process["exporters"].items()]
        if rows:
            right = set(_HEADINGS) - {"exporter", "type", "state"}
            print_rows(console, shown or _HEADINGS, rows, right=right, least=() if shown else _LEAST)
        else:
            console.print(NOTHING_TOLD)
        for table in _trouble(process["exporters"]):
            console.print(table)


def _processes(status: Status) -> list[dict[str, Any]]:
    """What is told of each process that exports: the node's, and those of `fleetgauge export`."""
    parts = ([("node", status)] if "node" in status else []) + [
        (f"export {each['export']['number']}", each) for each in status.get("exports", ())
    ]
    return [
        {
            "process": name,
            "exporter_process": {name: part["exporter_process"].get(name) for name in _OF_THE_PROCESS},
            "push_log": part["push_log"],
            "exporters": {
                exporter: _with_quantiles(told) for exporter, told in part["exporter_process"]["exporters"].items()
            },
        }
        for name, part in parts
        if part["exporter_process"]["wanted"]
    ]


def _with_quantiles(told: _Told) -> dict[str, Any]:
    return {
        **told,
        "export_quantiles_s": _quantiles(told.get("export_s")),
        "freshness_quantiles_s": _quantiles(told.get("freshness_s")),
    }


def _quantiles(histogram: _Told | None) -> dict[str, float | None]:
    """Of the values since the process was started [s]; None where there are none."""
    if histogram is None:
        return {}
    bounds, counts = histogram["bounds"], histogram["counts"]
    return {"p50": quantile(0.5, bounds, counts), "p99": quantile(0.99, bounds, counts)}


def _log(process: _Told) -> Table:
    log = process["push_log"]
    table = SafeTable(title=f"Push log ({process['process']})", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("exporter process", process_line(process["exporter_process"]))
    if "topic" in log:
        table.add_row("topic", f"{log['topic']} at {log['bootstrap_servers']}")
    if log.get("records") is not None:
        table.add_row("pushes", amount(log["records"]))
        table.add_row("on the disk", size(log["disk_bytes"]))
        table.add_row("oldest", ago(log["oldest_received_at"]) if log["oldest_received_at"] else "-")
    return table


def _progress(name: str, told: _Told) -> dict[str, str]:
    return {
        "exporter": name,
        "type": str(told["type"]),
        "state": told["state"],
        "behind": _behind(told),
        "delivered": f"{amount(told['delivered_records'])}, {size(told['delivered_bytes'])}",
        "export p50, p99": _times(told["export_quantiles_s"]),
        "fresh p50, p99": _times(told["freshness_quantiles_s"]),
        "retried": amount(sum(told["retried"].values())),
        "refused": amount(sum(told["refused"].values())),
        "dead": amount(told["letters"]),
        "lost": amount(told["lost_records"]),
    }


def _behind(told: _Told) -> str:
    if told["lag_records"] is None:
        return "unknown"
    parts = [amount(told["lag_records"])]
    if told["lag_records"] and told["lag_bytes"] is not None:
        parts.append(size(told["lag_bytes"]))
    if told["lag_ms"]:
        parts.append(duration(told["lag_ms"] / 1e3))
    return ", ".join(parts)


def _times(quantiles: Mapping[str, float | None]) -> str:
    known = [value for value in quantiles.values() if value is not None]
    return ", ".join(duration(value) if value >= 1 else f"{value * 1e3:.0f} ms" for value in known) or "-"


def _trouble(found: Mapping[str, _Told]) -> list[SafeTable]:
    """What went wrong, by reason, of the exporters of which something did."""
    tables = []
    for name, told in found.items():
        rows = [
            (what, _counts(told.get(key) or {}))
            for what, key in (
                ("retried", "retried"), ("refused", "refused"), ("no push records", "bad_records"),
                ("lost in the log", "lost"), ("dead letters lost", "letters_lost"),
            )
        ]  # fmt: skip
        if told["letters"]:
            rows.append(("dead letters", f"{amount(told['letters'])}: fleetgauge log dead --exporter {name}"))
        if told["last_error"]:
            rows.append(("last error", last_error(told)))
        if any(text for _, text in rows):
            table = SafeTable(title=f"\n{printable(name)}", title_justify="left", show_header=False, box=None)
            table.add_column(style="dim", no_wrap=True)
            table.add_column(overflow="fold")
            for what, text in rows:
                if text:
                    table.add_row(what, text)
            tables.append(table)
    return tables


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount(count)}" for name, count in sorted(counts.items()) if count)
