"""Coverage: the verdicts that are possible for each kind of client, and the reasons where one is not."""

from collections import Counter
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Table, pa, typed
from fleetgauge.verdicts.catalogue import VERDICTS, verdicts_of
from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import seen_clients
from fleetgauge.verdicts.registry import KINDS, PATHS
from fleetgauge.verdicts.rules import Rules, default_rules
from fleetgauge.verdicts.window import CONSUMER, DIALECTS, ROLES
from fleetgauge.verdicts.witnesses.waits import FETCH_WAIT_MS

SCHEMA: Final = pa.schema(
    [
        *typed(pa.string(), "verdict", "library", "role"),
        ("instances", pa.int64()),
        ("judged", pa.bool_()),
        ("why_not", pa.string()),
        ("judged_by", pa.string()),
    ]
)
"""One row per verdict, library, role, `why_not` and `judged_by`: `telemetry`, `group-offsets`, `gateway`, or several,
separated by commas. Clients without telemetry have the library `no telemetry`; their `instances` are groups if judged
by `group-offsets`, and client ids if judged by `gateway`."""

COLUMNS: Final = ("cluster_id", "principal", "client_instance_id", "client_id", "group_id", "dialect", "role")
"""Columns of CLIENTS that are read."""
NO_TELEMETRY: Final = "no telemetry"


def coverage(clients: Table, memory: Memory, rules: Rules | None = None) -> Table:
    """Coverage of these clients: SCHEMA.

    Args:
        clients: `COLUMNS` of CLIENTS.
        memory: the judge's: the columns that each library sent, and the judged time.
        rules: the judge's; None is the defaults.
    """
    rules = rules or default_rules()
    clusters = clients["cluster_id"].to_pylist()
    groups = list(zip(clusters, clients["group_id"].to_pylist(), strict=True))
    ids = list(zip(clusters, clients["client_id"].to_pylist(), strict=True))
    sampled, seen = sampled_groups(memory), seen_clients(memory)
    trends, of_traffic = [sampled.get(each) for each in groups], [seen.get(each, _UNSEEN) for each in ids]
    of_latency, left_out = _has_latency(clients, memory), _left_out(clients, memory)
    columns = (
        clients["dialect"].to_pylist(),
        clients["role"].to_pylist(),
        trends,
        of_traffic,
        of_latency,
        left_out,
    )
    kinds: Counter[tuple[Any, ...]] = Counter(zip(*columns, strict=True))
    for group in sampled.keys() - set(groups):
        kinds[NO_TELEMETRY, "consumer", sampled[group], _UNSEEN, True, _UNSEEN] += 1
    for name in seen.keys() - set(ids):
        for role, own in _ROLES.items():
            if has := seen[name] & own:
                kinds[NO_TELEMETRY, role, None, has, True, _UNSEEN] += 1
    rows: list[dict[str, Any]] = []
    for verdict in verdicts_of(rules):
        counts: dict[tuple[Any, ...], int] = Counter()
        for (dialect, role, trend, traffic, has_latency, left), count in sorted(kinds.items(), key=_text_of):
            by = ["group-offsets"] * (trend is not None and verdict.by_offsets)
            by += ["gateway"] * (not traffic.isdisjoint(verdict.by_traffic))
            if (role is None or role in verdict.roles) and (by or dialect != NO_TELEMETRY):
                why_not = _why_not(verdict, dialect, role, memory, has_latency=has_latency)
                is_witnessed = bool(by)
                by += ["telemetry"] * (why_not is None and dialect != NO_TELEMETRY)
                why_not = (None if is_witnessed else why_not) or _too_short(verdict, memory, rules)
                why_not = why_not or next((reason for name, reason in sorted(left) if name == verdict.id), None)
                if trend == "stopped" and verdict.by_offsets:
                    why_not = why_not or "the group is stopped: records wait, and it has no member"
                counts[dialect, role, why_not, ", ".join(by) if why_not is None else None] += count
        rows += [
            {
                "verdict": verdict.id,
                "library": dialect or "unknown",
                "role": role or "unknown",
                "instances": count,
                "judged": why_not is None,
                "why_not": why_not,
                "judged_by": by,
            }
            for (dialect, role, why_not, by), count in counts.items()
        ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


_UNSEEN: Final[frozenset[Any]] = frozenset()
_ROLES: Final = {"producer": frozenset({"produce"}), "consumer": frozenset({"fetch", "group"})}
"""Requests that a gateway sees from clients of a role: see `verdicts.witnesses.traffic.KINDS`."""


def _text_of(kind: tuple[tuple[Any, ...], int]) -> str:
    """Sort key that is the same in every process."""
    (dialect, role, trend, traffic, has_latency, left_out), count = kind
    return str(((dialect, role, trend, *sorted(traffic), has_latency, *sorted(left_out)), count))


def _has_latency(clients: Table, memory: Memory) -> list[bool]:
    """False for clients that were judged and never sent a latency by broker."""
    known, code = memory.instances, memory.registry.instances.find(*(clients[name] for name in COLUMNS[:3]))
    has_latency = np.ones(len(code), np.bool_)
    at = np.flatnonzero((code >= 0) & (code < len(known["client"])))
    has_latency[at] = (known["client"][code[at]] < 0) | (known["has_latency"][code[at]] > 0)
    return has_latency.tolist()


def _left_out(clients: Table, memory: Memory) -> list[frozenset[tuple[str, str]]]:
    """Verdicts that left each client out of the last window, with the reasons."""
    left_out: list[frozenset[tuple[str, str]]] = [_UNSEEN] * clients.num_rows
    code = memory.registry.clients.find(clients["cluster_id"], clients["client_id"])
    of_nodes = {each.id for each in VERDICTS if each.kind == "node"}
    for verdict, reasons in memory.left_out.items():
        for reason, codes in reasons.items() if verdict not in of_nodes else ():
            for row in np.flatnonzero(np.isin(code, codes)).tolist():
                left_out[row] |= {(verdict, reason)}
    return left_out


def states_of_node(cluster_id: str, node_id: int, memory: Memory, rules: Rules) -> dict[str, str | None]:
    """The verdicts about a node, each with the reason why it was not judged in the last window; None if it was."""
    node = _node(cluster_id, node_id, memory)
    states: dict[str, str | None] = {}
    for verdict in (each for each in VERDICTS if each.kind == "node"):
        reasons = memory.left_out.get(verdict.id, {})
        why_not = next((reason for reason, codes in reasons.items() if node in codes), None)
        states[verdict.id] = _too_short(verdict, memory, rules) or (_NO_LATENCY if node < 0 else why_not)
    return states


def states_of_path(
    cluster_id: str, client_id: str, node_id: int, memory: Memory, rules: Rules
) -> dict[str, str | None]:
    """The same of a path, by what is usual for it."""
    (client,) = memory.registry.clients.find(pa.chunked_array([[cluster_id]]), pa.chunked_array([[client_id]])).tolist()
    node, history = _node(cluster_id, node_id, memory), memory.history("latency")
    series = client * KINDS + np.arange(KINDS)
    usual_ms = np.expm1(history.expected(series * PATHS + node, rules["slow-node"].history_s(memory.window_s)))
    is_known = ~np.isnan(usual_ms) & (client >= 0) & (node >= 0)
    is_consumer, dialect = np.arange(KINDS) // 4 == CONSUMER, np.arange(KINDS) % 4 - 1
    others = np.isin(series, (history.keys // PATHS)[history.keys % PATHS != node])
    why_not = None
    if not is_known.any():
        why_not = "its usual latency is not known yet"
    elif not (is_known & others).any():
        why_not = "the client has no other broker to compare this one with"
    elif not (is_known & others & ~(is_consumer & (usual_ms < FETCH_WAIT_MS[dialect]))).any():
        why_not = "a consumer's delay within the time that its fetches wait for data does not show"
    paths = (each for each in VERDICTS if each.kind == "path")
    return {verdict.id: _too_short(verdict, memory, rules) or why_not for verdict in paths}


def _node(cluster_id: str, node_id: int, memory: Memory) -> int:
    """Number of a node; -1 if no latency of it came."""
    (code,) = memory.registry.nodes.find(pa.chunked_array([[cluster_id]]), pa.chunked_array([[str(node_id)]])).tolist()
    return int(code)


_NO_LATENCY: Final = "no client sent a latency of it"


def sampled_groups(memory: Memory) -> dict[tuple[str, str], str]:
    """Trends of the groups sampled in the last hour, by cluster and id."""
    after_us = memory.judged_to_us - _SAMPLED_WITHIN_US
    known: dict[str, list[Any]] = memory.facts.get("group-offsets", {})
    trends: dict[tuple[str, str], str] = {}
    for name, (trend, _, sampled_us) in known.items():
        if sampled_us > after_us and trend != "unknown":
            cluster, group = name.split("\x1f", 1)
            trends[cluster, group] = trend
    return trends


_SAMPLED_WITHIN_US: Final = 3_600_000_000


def _too_short(verdict: Verdict, memory: Memory, rules: Rules) -> str | None:
    """Reason why a verdict is not possible yet: it has to last for `for_s`, and some need a history; else None."""
    if not rules[verdict.id].is_enabled:
        return "the rules leave it out"
    if not memory.judged_to_us:  # what was sent may be all that is known
        return None if memory.sent else "nothing was judged yet"
    needed_s = rules[verdict.id]["for_s"] + memory.window_s
    if verdict.history:
        figures = rules[verdict.history]
        needed_s += figures["young_s"] + figures.history_s(memory.window_s)
    judged_s = (memory.judged_to_us - memory.judged_from_us) / 1_000_000
    if judged_s >= needed_s:
        return None
    return f"{judged_s / 60:.0f} minutes were judged, and it takes {needed_s / 60:.0f}"


def _why_not(
    verdict: Verdict, dialect: str | None, role: str | None, memory: Memory, *, has_latency: bool
) -> str | None:
    if dialect is None:
        return "its library is not known"
    columns = verdict.needs.get(dialect)
    if columns is None:
        return f"{dialect} does not send what it is judged by"
    own = tuple(column for column in columns if column not in _OF_OTHERS.get(role or "", ()))
    if columns and not own:
        return f"{dialect} {role}s do not send what it is judged by"
    columns = own
    sent = [column for column in columns if _is_sent(column, dialect, role, memory)]
    if sent == [_LATENCY] and not has_latency:
        versions = ": versions before 4.0 send none, nor do idle ones" if dialect == "java" else ": they were idle"
        return f"{_LATENCY} did not come from some {dialect} {role}s{versions if role == 'consumer' else ''}"
    if not columns or sent:
        return None
    missing = " or ".join(columns)
    if dialect == "franz-go" and columns == (_THROTTLE,):
        if any(f"{other} {_THROTTLE}" in memory.sent for other in DIALECTS):
            return None
        return f"{missing} did not come from franz-go: it leaves zeros out, or is not asked for it"
    if any(f"{dialect} {column}" in memory.sent for column in columns):
        return f"{missing} did not come from {dialect} {role}s: their versions may not send it (Java before 4.0)"
    return f"{missing} did not come from {dialect}: subscribe to its metrics"


_LATENCY: Final = "request_latency_avg_ms"
_THROTTLE: Final = "produce_throttle_avg_ms"
"""franz-go leaves it out where it is 0: none at all is 0 if other libraries show that it is subscribed to."""

_OF_OTHERS: Final = {
    "consumer": frozenset({"record_errors", "records_sent", _THROTTLE}),
    "producer": frozenset({"commit_latency_avg_ms", "records_consumed", "fetch_throttle_avg_ms"}),
}
"""Columns that clients of a role do not send."""


def _is_sent(column: str, dialect: str, role: str | None, memory: Memory) -> bool:
    """True if clients of this library and role sent a column; any of the library, where roles are not known."""
    by_role = {each: f"{dialect} {each} {column}" in memory.sent for each in ROLES}
    return by_role[role] if role in by_role and any(by_role.values()) else f"{dialect} {column}" in memory.sent
