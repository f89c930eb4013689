"""The exporters of a process: lag, losses, retries and latencies."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from fleetgauge.cli.node.status_text import NO_STATUS_YET, last_error, process_line
from fleetgauge.cli.units import ago, amount, duration, size
from fleetgauge.exporters.delivery.histogram import quantile
from fleetgauge.node.status.node_socket import Status
from fleetgauge.terminal.answer import Answer, Output, PlainRows
from fleetgauge.terminal.table import SafeTable, facts, print_rows
from fleetgauge.terminal.text import printable

_Status = Mapping[str, Any]
_OF_THE_PROCESS = ("pid", "restarts", "status_age_ms")
_HEADINGS = (
    "exporter", "type", "state", "behind", "delivered", "export p50, p99", "fresh p50, p99", "retried", "refused",
    "dead", "lost",
)  # fmt: skip
_LEAST = ("type", "export p50, p99", "retried", "fresh p50, p99", "refused", "delivered")


def exporters_answer(read: Callable[[], Status], to: Output) -> Answer:
    """The exporters of each exporter process.

    Args:
        read: reads the status of the node and of every `fleetgauge export` of its data directory.
        to: the form of the answer.

    Raises:
        OutputError: a chosen column is none.
    """
    shown = to.headings(_HEADINGS)
    processes = _processes(read())

    def text(console: Console) -> None:
        for process in processes:
            console.print(_log(process))
            console.print()
            rows = [_progress(name, state) for name, state in process["exporters"].items()]
            if rows:
                right = set(_HEADINGS) - {"exporter", "type", "state"}
                print_rows(console, shown or _HEADINGS, rows, right=right, least=() if shown else _LEAST)
            else:
                console.print(NO_STATUS_YET)
            for table in _trouble(process["exporters"]):
                console.print(table)

    rows = [
        {"process": process["process"], "exporter": name, **state}
        for process in processes
        for name, state in process["exporters"].items()
    ]
    return Answer(text=text, rows=PlainRows(rows), value=processes)


def _processes(status: Status) -> list[dict[str, Any]]:
    """The status of each exporter process: the node's, and those of `fleetgauge export`."""
    parts = ([("node", status)] if "node" in status else []) + [
        (f"export {each['export']['number']}", each) for each in status.get("exports", ())
    ]
    return [
        {
            "process": name,
            "exporter_process": {name: part["exporter_process"].get(name) for name in _OF_THE_PROCESS},
            "push_log": part["push_log"],
            "exporters": {
                exporter: _with_quantiles(state) for exporter, state in part["exporter_process"]["exporters"].items()
            },
        }
        for name, part in parts
        if part["exporter_process"]["wanted"]
    ]


def _with_quantiles(state: _Status) -> dict[str, Any]:
    return {
        **state,
        "export_quantiles_s": _quantiles(state.get("export_s")),
        "freshness_quantiles_s": _quantiles(state.get("freshness_s")),
    }


def _quantiles(histogram: _Status | None) -> dict[str, float | None]:
    """Quantiles of the values since the process was started [s]; None without values.

    A quantile is estimated within its bucket, which may end far above the largest value.
    """
    if histogram is None:
        return {}
    bounds, counts, largest = histogram["bounds"], histogram["counts"], histogram["largest"]
    quantiles = {"p50": quantile(0.5, bounds, counts), "p99": quantile(0.99, bounds, counts)}
    return {name: None if value is None else min(value, largest) for name, value in quantiles.items()}


def _log(process: _Status) -> Table:
    log = process["push_log"]
    table = facts(f"Push log ({process['process']})")
    table.add_row("exporter process", process_line(process["exporter_process"]))
    if "topic" in log:
        table.add_row("topic", f"{log['topic']} at {log['bootstrap_servers']}")
    if log.get("records") is not None:
        table.add_row("pushes", amount(log["records"]))
        table.add_row("on the disk", size(log["disk_bytes"]))
        table.add_row("oldest", ago(log["oldest_received_at"]) if log["oldest_received_at"] else "-")
    return table


def _progress(name: str, state: _Status) -> dict[str, str]:
    return {
        "exporter": name,
        "type": str(state["type"]),
        "state": state["state"],
        "behind": _behind(state),
        "delivered": f"{amount(state['delivered_records'])}, {size(state['delivered_bytes'])}",
        "export p50, p99": _times(state["export_quantiles_s"]),
        "fresh p50, p99": _times(state["freshness_quantiles_s"]),
        "retried": amount(sum(state["retried"].values())),
        "refused": amount(sum(state["refused"].values())),
        "dead": amount(state["letters"]),
        "lost": amount(state["lost_records"]),
    }


def _behind(state: _Status) -> str:
    if state["lag_records"] is None:
        return "unknown"
    parts = [amount(state["lag_records"])]
    if state["lag_records"] and state["lag_bytes"] is not None:
        parts.append(size(state["lag_bytes"]))
    if state["lag_ms"]:
        parts.append(duration(state["lag_ms"] / 1e3))
    return ", ".join(parts)


def _times(quantiles: Mapping[str, float | None]) -> str:
    known = [value for value in quantiles.values() if value is not None]
    return ", ".join(duration(value) if value >= 1 else f"{value * 1e3:.0f} ms" for value in known) or "-"


def _trouble(exporters: Mapping[str, _Status]) -> list[SafeTable]:
    """A table of problems by reason for each exporter that has some."""
    tables = []
    for name, state in exporters.items():
        rows = [
            (what, _counts(state.get(key) or {}))
            for what, key in (
                ("retried", "retried"), ("refused", "refused"), ("no push records", "bad_records"),
                ("lost in the log", "lost"), ("dead letters lost", "letters_lost"),
            )
        ]  # fmt: skip
        if state["letters"]:
            rows.append(("dead letters", f"{amount(state['letters'])}: fleetgauge log dead --exporter {name}"))
        if state["last_error"]:
            rows.append(("last error", last_error(state)))
        if any(text for _, text in rows):
            table = facts(f"\n{printable(name)}")
            for what, text in rows:
                if text:
                    table.add_row(what, text)
            tables.append(table)
    return tables


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount(count)}" for name, count in sorted(counts.items()) if count)
