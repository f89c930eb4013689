"""Which verdicts can be given for which clients, and why not: what is not sent is not judged."""

from collections import Counter
from typing import Any, Final

import numpy as np

from fleetgauge.verdicts.arrow import Table, pa, typed
from fleetgauge.verdicts.catalogue import verdicts_of
from fleetgauge.verdicts.declare import Verdict
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import seen_clients
from fleetgauge.verdicts.rules import Rules, default_rules
from fleetgauge.verdicts.window import ROLES

SCHEMA: Final = pa.schema(
    [
        *typed(pa.string(), "verdict", "library", "role"),
        ("instances", pa.int64()),
        ("judged", pa.bool_()),
        ("why_not", pa.string()),
        ("judged_by", pa.string()),
    ]
)
"""One row per verdict, library and role of the fleet, and by what: `telemetry`, `group-offsets`, `gateway`,
or several with commas between. What sends no telemetry is in rows of the library `no telemetry`, whose `instances` are
groups where they are judged by `group-offsets`, and client ids where by `gateway`."""

COLUMNS: Final = ("cluster_id", "principal", "client_instance_id", "client_id", "group_id", "dialect", "role")
"""Of CLIENTS, which are read."""
NO_TELEMETRY: Final = "no telemetry"


def coverage(clients: Table, memory: Memory, rules: Rules | None = None) -> Table:
    """Who is judged.

    Args:
        clients: CLIENTS: `COLUMNS` of it.
        memory: of the judge, which knows what each library sent, and for how long.
        rules: that it was judged by; the defaults, if None.
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
        found: dict[tuple[Any, ...], int] = Counter()
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
                found[dialect, role, why_not, ", ".join(by) if why_not is None else None] += count
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
            for (dialect, role, why_not, by), count in found.items()
        ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


_UNSEEN: Final[frozenset[Any]] = frozenset()
_ROLES: Final = {"producer": frozenset({"produce"}), "consumer": frozenset({"fetch", "group"})}
"""By role what a gateway sees of a client that has it: see `verdicts.witnesses.traffic.KINDS`."""


def _text_of(kind: tuple[tuple[Any, ...], int]) -> str:
    """To sort by, the same in every process."""
    (dialect, role, trend, traffic, has_latency, left_out), count = kind
    return str(((dialect, role, trend, *sorted(traffic), has_latency, *sorted(left_out)), count))


def _has_latency(clients: Table, memory: Memory) -> list[bool]:
    """False for clients that were judged and never sent a latency by broker."""
    known, code = memory.instances, memory.registry.instances.find(*(clients[name] for name in COLUMNS[:3]))
    found = np.ones(len(code), np.bool_)
    at = np.flatnonzero((code >= 0) & (code < len(known["client"])))
    found[at] = (known["client"][code[at]] < 0) | (known["has_latency"][code[at]] > 0)
    return found.tolist()


def _left_out(clients: Table, memory: Memory) -> list[frozenset[tuple[str, str]]]:
    """Of each client the verdicts that left it out of the last window, and why."""
    found: list[frozenset[tuple[str, str]]] = [_UNSEEN] * clients.num_rows
    code = memory.registry.clients.find(clients["cluster_id"], clients["client_id"])
    for verdict, reasons in memory.left_out.items():
        for reason, codes in reasons.items():
            for row in np.flatnonzero(np.isin(code, codes)).tolist():
                found[row] |= {(verdict, reason)}
    return found


def sampled_groups(memory: Memory) -> dict[tuple[str, str], str]:
    """The trends of the groups that were sampled in the last windows, by cluster and id."""
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
    """What is not judged long enough for a verdict: it has to last, some of them after a time to compare with."""
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
    columns = tuple(column for column in columns if column not in _OF_OTHERS.get(role or "", ())) or columns
    sent = [column for column in columns if _is_sent(column, dialect, role, memory)]
    if sent == [_LATENCY] and not has_latency:
        versions = ": versions before 4.0 send none, nor do idle ones" if dialect == "java" else ": they were idle"
        return f"{_LATENCY} did not come from some {dialect} {role}s{versions if role == 'consumer' else ''}"
    if not columns or sent:
        return None
    missing = " or ".join(columns)
    if any(f"{dialect} {column}" in memory.sent for column in columns):
        return f"{missing} did not come from {dialect} {role}s: their versions may not send it (Java before 4.0)"
    return f"{missing} did not come from {dialect}: subscribe to its metrics"


_LATENCY: Final = "request_latency_avg_ms"
_OF_OTHERS: Final = {
    "consumer": frozenset({"record_errors", "records_sent"}),
    "producer": frozenset({"commit_latency_avg_ms", "records_consumed"}),
}
"""By role the columns that others send."""


def _is_sent(column: str, dialect: str, role: str | None, memory: Memory) -> bool:
    """True if clients of this library and role sent a column; of the library, where it is not known by roles."""
    by_role = {each: f"{dialect} {each} {column}" in memory.sent for each in ROLES}
    return by_role[role] if role in by_role and any(by_role.values()) else f"{dialect} {column}" in memory.sent
