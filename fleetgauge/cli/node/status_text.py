"""The state of a running node or export as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from fleetgauge.base.suggestions import did_you_mean
from fleetgauge.cli.units import ago, amount, duration, size
from fleetgauge.node.status.node_socket import Status
from fleetgauge.terminal.table import facts
from fleetgauge.terminal.text import printable

NO_STATUS_YET = "the exporter process has not reported its status yet"
_SILENT_MS = 10_000
"""The exporter process reports once a second; a status older than this is marked as such [ms]."""
_AUTHENTICATIONS = ("successful_authentications", "failed_authentications")


def status_tables(status: Status) -> Iterator[Table]:
    """The tables of a node or export."""
    if "node" in status:
        yield from (_node(status), _traffic(status), *_gateway(status), *_quotas(status))
    else:
        yield _export(status)
    yield from (_push_log(status), _exporters(status), *_group_offsets(status), *_deadlines(status))


def _export(status: Status) -> Table:
    export = status["export"]
    table = facts(f"\nExport {export['number']}")
    table.add_row("process", f"pid {export['pid']}, started {ago(export['started_at_ms'] * 1000)}")
    _add_process(table, status, export)
    clients = status["clients"]
    if clients:
        past = f"{amount(clients['instances_vanished'])} vanished, {amount(clients['instances_ended'])} ended"
        table.add_row("client instances", f"{amount(clients['instances'])}, and {past}: fleetgauge clients")
    return table


def _add_process(table: Table, status: Status, part: Status) -> None:
    """Adds what a node and an export have in common."""
    table.add_row("exporter process", process_line(status["exporter_process"]))
    if "listeners" in part:
        table.add_row("listening", ", ".join(part["listeners"]))
    table.add_row("http", ", ".join(status["http"]["listeners"]) or f"off: {status['http']['off']}")
    table.add_row("log.dirs", part["log_dirs"])
    for name in ("not_ready", "degraded"):
        if part.get(name):
            table.add_row(name.replace("_", " "), printable("; ".join(part[name])))


def process_line(child: Mapping[str, Any]) -> str:
    """The state of a child process: its pid, restarts, and the age of an old status."""
    restarts = f", started again {child['restarts']} times" if child["restarts"] else ""
    age_ms = child.get("status_age_ms") or 0
    silence = f", no status for {duration(age_ms / 1e3)}" if age_ms > _SILENT_MS else ""
    return f"pid {child['pid']}{restarts}{silence}" if child["pid"] else f"not running{restarts}{silence}"


def _worker(worker: dict[str, Any]) -> str:
    known = f"{amount(worker['connections'])} connections, {amount(worker['logged'])} pushes logged"
    return f"{process_line(worker)}, {known}"


def _node(status: Status) -> Table:
    node = status["node"]
    table = facts("Node")
    table.add_row("node.id, cluster.id", f"{node['node_id']}, {node['cluster_id']}")
    workers = status.get("workers", ())
    about = f"pid {node['pid']}, started {ago(node['started_at_ms'] * 1000)}"
    table.add_row("parent process" if workers else "listener process", about)
    for worker in workers:
        table.add_row(f"worker {worker['worker']}", _worker(worker))
    _add_process(table, status, node)
    return table


_CLIENTS_SHOWN = 20
"""Clients and APIs of a gateway with the most bytes."""


def _gateway(status: Status) -> Iterator[Table]:
    """Tables of the traffic that passes a gateway; none for `fleetgauge serve`."""
    gateway = status.get("gateway")
    if gateway is None:
        return
    traffic = gateway["traffic"]
    table = facts("\nGateway")
    others = "; those of gateway.brokers by server name" if gateway["by_server_name"] else ""
    user = f", as User:{gateway['broker_user']}" if gateway["broker_user"] else ""
    table.add_row("broker", printable(gateway["broker"] + user) + others)
    failures = gateway["broker_connect_failures"]
    table.add_row("broker connections", f"{amount(gateway['broker_connections'])} open, {amount(failures)} failed")
    table.add_row("to brokers", size(gateway["bytes_to_broker"]))
    table.add_row("from brokers", size(gateway["bytes_from_broker"]))
    table.add_row("throttled by quota", _counts(traffic["throttled"]))
    if "landing" in traffic:
        landing = traffic["landing"]
        table.add_row("rows of traffic", f"{amount(landing['rows'])} in {printable(landing['path'])}/traffic")
    yield table
    largest = sorted(traffic["by_client"].values(), key=_bytes_of, reverse=True)[:_CLIENTS_SHOWN]
    if largest:
        yield _clients_of_gateway(largest, traffic["left_out"])


def _clients_of_gateway(largest: list[Status], left_out: int) -> Table:
    table = Table(title="\nTraffic by client and API, most bytes first", title_justify="left", box=None)
    for name in ("user", "client id", "API"):
        table.add_column(name, overflow="fold", max_width=40)
    for name in ("requests", "sent", "received", "broker, mean", "throttled", "errors"):
        table.add_column(name, justify="right")
    for each in largest:
        mean_ms = each["broker_ms"] / max(each["requests"], 1)
        table.add_row(
            printable(each["principal"]),
            printable(each["client_id"]),
            each["api"],
            amount(each["requests"]),
            size(each["request_bytes"]),
            size(each["response_bytes"]),
            f"{mean_ms:.1f} ms",
            amount(each["throttled"]),
            _counts(each["errors"]),
        )
    if left_out:
        table.caption = f"and {amount(left_out)} more"
    return table


def _bytes_of(counts: Status) -> int:
    return int(counts["request_bytes"] + counts["response_bytes"])


def _traffic(status: Status) -> Table:
    telemetry = status["telemetry"]
    table = facts("\nClients and pushes")
    counters = telemetry["counters"]
    table.add_row("client instances", amount(counters["instances"]))
    for name in (
        "instances_vanished",
        "instances_ended",
        "instances_evicted",
        "instances_expired",
        "instance_id_clashes",
        "labels_truncated",
        "instances_with_metrics",
        "instances_without_metrics",
        "instances_slowed",
        "interval_changes",
    ):
        if counters[name]:
            table.add_row(f"  {name.replace('_', ' ')}", amount(counters[name]))
    table.add_row("subscriptions", ", ".join(telemetry["subscriptions"]) or "none: clients push no metrics")
    for name, prefixes in telemetry["unmatched_prefixes"].items():
        for prefix, nearest in prefixes.items():
            table.add_row("  known to no client", printable(f"{prefix} of {name}{did_you_mean(nearest)}"))
    for name, rule in telemetry["client_guard"].items():
        table.add_row(f"client guard {printable(name)}", printable(_guarded(rule)))
    table.add_row("pushes answered", _counts(telemetry["push_answers"]) or "none yet")
    table.add_row("Gets answered", _counts(telemetry["get_answers"]) or "none yet")
    for code, reasons in telemetry["refusals"].items():
        table.add_row(f"  refused {code}", _counts(reasons))
    if telemetry["malformed"]:
        table.add_row("  accepted, but malformed", f"{_counts(telemetry['malformed'])}: fleetgauge clients names them")
    for listener in status["connections"]:
        _add_listener(table, listener)
    _add_misdirected(table, status["misdirected_clients"])
    return table


def _add_listener(table: Table, listener: dict[str, Any]) -> None:
    table.add_row(f"connections {listener['listener']}", f"{listener['open']} open, {listener['accepted']} accepted")
    known = {name: listener[name] for name in _AUTHENTICATIONS if listener.get(name)}
    if known:
        table.add_row("  authentications", _counts({name.split("_")[0]: count for name, count in known.items()}))
    if listener["accept_waits"]:
        table.add_row("  waited for a limit", amount(listener["accept_waits"]))
    if listener["accept_errors"]:
        table.add_row("  could not be accepted", amount(listener["accept_errors"]))
    if listener["closed"]:
        table.add_row("  closed, by reason", _counts(listener["closed"]))


def _add_misdirected(table: Table, misdirected: dict[str, Any]) -> None:
    """Adds clients that request records, if any; see `node.listener.misdirected_clients`."""
    if not misdirected["requests"]:
        return
    clients = f"{amount(misdirected['requests'])} requests of {amount(misdirected['remembered_clients'])} clients"
    table.add_row("asked for records", f"{clients}: set their bootstrap.servers to your Kafka brokers")
    for each in misdirected["latest_clients"]:
        who = f"{each['client_id'] or '-'} ({each['client_software']}) at {each['client_source_address']}"
        what = f"{each['asked_for']}, {amount(each['requests'])} requests, the last {ago(each['last_at'])}"
        table.add_row("", printable(f"{who}: {what}"))


def _guarded(rule: dict[str, Any]) -> str:
    return f"{rule['action']}, {amount(rule['subscriptions'])} subscriptions: {rule['reason']}"


def _quotas(status: Status) -> list[Table]:
    """The table of quotas; empty if no quota is set."""
    quotas = status["quotas"]
    if not quotas["usage"]:
        return []
    table = facts("\nQuotas")
    for name in ("channels_held", "requests_throttled", "requests_of_others"):
        if quotas[name]:
            table.add_row(name.replace("_", " "), amount(quotas[name]))
    for kind, entities in quotas["usage"].items():
        for entity, each in entities.items():
            used = f"{each['used'] / each['limit']:.0%} of {each['limit']:g}"
            table.add_row(f"{kind} {printable(entity)}", used)
    if quotas["usage_left_out"]:
        table.add_row("", f"and {amount(quotas['usage_left_out'])} more")
    return [table]


def _push_log(status: Status) -> Table:
    log = status["push_log"]
    table = facts("\nPush log")
    for name, value in log.items():
        table.add_row(name.removesuffix("_at").replace("_", " "), _shown(name, value))
    return table


def _shown(name: str, value: int | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if name.endswith("bytes"):
        return size(value)
    return ago(value) if name.endswith("_at") else amount(value)


def _group_offsets(status: Status) -> list[Table]:
    sampled = status["exporter_process"].get("group_offsets")
    if sampled is None:
        return []
    table = facts("\nGroup offsets")
    for name in ("cluster_id", "groups", "sampled_at", "round_ms", "rows", "lost_rows"):
        if name in sampled:
            table.add_row(name.removesuffix("_at").replace("_", " "), printable(str(_shown(name, sampled[name]))))
    for error, count in sampled.get("errors", {}).items():
        table.add_row("not sampled", f"{printable(error)}: {amount(count)}")
    if sampled["problem"] is not None:
        table.add_row("problem", printable(sampled["problem"]))
    return [table]


def _deadlines(status: Status) -> list[Table]:
    looked = status["exporter_process"].get("subscription_deadlines")
    if looked is None:
        return []
    table = facts("\nSubscriptions")
    table.add_row("deadlines looked at", "-" if looked["looked_at"] is None else ago(looked["looked_at"]))
    table.add_row("taken back", amount(looked["taken_back"]))
    if looked["problem"] is not None:
        table.add_row("problem", printable(looked["problem"]))
    return [table]


def _exporters(status: Status) -> Table:
    table = facts("\nExporters")
    exporters = status["exporter_process"]["exporters"]
    if not status["exporter_process"]["wanted"]:
        table.add_row("", "none here: fleetgauge export delivers from the topic")
    elif not exporters:
        table.add_row("", NO_STATUS_YET)
    for name, state in exporters.items():
        table.add_row(f"{name} ({state['type']})", _delivery(state))
        known = f", {size(state['lag_bytes'])}" if state["lag_bytes"] is not None else ""
        lag = state["lag_records"]
        if lag is None:
            behind = "unknown" if state.get("partitions") else "unknown: no partition of the topic is assigned to it"
        else:
            behind = f"{amount(lag)} {'push' if lag == 1 else 'pushes'}{known}"
        table.add_row("  behind", behind)
        if "group" in state:
            shared = ", ".join(str(partition) for partition in state["partitions"])
            table.add_row(f"  in group {state['group']}", f"partitions {shared}" if shared else "no partitions now")
        _add_trouble(table, state)
    return table


def _add_trouble(table: Table, state: dict[str, Any]) -> None:
    for what, text in (("retried", "retried"), ("refused", "refused"), ("bad_records", "no push records")):
        if state.get(what):
            table.add_row(f"  {text}, by reason", _counts(state[what]))
    for name, text, hint in (
        ("passed_on_records", "passed to others", ""),
        ("letters", "dead letters", ": fleetgauge log dead"),
        ("lost_records", "lost in the log", ""),
    ):
        if state[name]:
            table.add_row(f"  {text}", f"{amount(state[name])} pushes{hint}")
    if state["last_error"]:
        table.add_row("  last error", printable(last_error(state)))


def last_error(state: Mapping[str, Any]) -> str:
    """An exporter's last error: its text, its time, and when it ended."""
    over_at = state.get("last_error_over_at")
    over = "" if over_at is None else f", over {ago(over_at)}"
    return f"{state['last_error']} ({ago(state['last_error_at'])}{over})"


def _delivery(state: dict[str, Any]) -> str:
    delivered = f"{state['state']}, delivered {amount(state['delivered_records'])} pushes"
    last = state["last_delivered_at"]
    return f"{delivered}, the last {ago(last)}" if last else delivered


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {amount(count)}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
