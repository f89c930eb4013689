"""Which verdicts can be given for which clients, and why not: what is not sent is not judged."""

from collections import Counter
from typing import Any, Final

from verdicts.arrow import Table, pa
from verdicts.catalogue import verdicts_of
from verdicts.declare import Verdict
from verdicts.memory import Memory
from verdicts.rules import Rules, default_rules
from verdicts.window import ROLES

SCHEMA: Final = pa.schema(
    [
        ("verdict", pa.string()),
        ("library", pa.string()),
        ("role", pa.string()),
        ("instances", pa.int64()),
        ("judged", pa.bool_()),
        ("why_not", pa.string()),
        ("judged_by", pa.string()),
    ]
)
"""One row per verdict, library and role of the fleet, and by what it is judged: `telemetry`, `group-offsets`, or both,
separated by a comma. Groups of which no client sends telemetry are a row of the library `no telemetry`, whose
`instances` are groups."""

NO_TELEMETRY: Final = "no telemetry"


def coverage(clients: Table, memory: Memory, rules: Rules | None = None) -> Table:
    """Who is judged.

    Args:
        clients: CLIENTS: `dialect` and `role`, and `cluster_id` and `group_id`.
        memory: of the judge, which knows what each library sent, and for how long.
        rules: that it was judged by; the defaults, if None.
    """
    rules = rules or default_rules()
    groups = list(zip(clients["cluster_id"].to_pylist(), clients["group_id"].to_pylist(), strict=True))
    sampled = sampled_groups(memory)
    is_sampled = [each in sampled for each in groups]
    kinds = Counter(zip(clients["dialect"].to_pylist(), clients["role"].to_pylist(), is_sampled, strict=True))
    if others := len(sampled - set(groups)):
        kinds[NO_TELEMETRY, "consumer", True] = others
    rows: list[dict[str, Any]] = []
    for verdict in verdicts_of(rules):
        found: dict[tuple[Any, ...], int] = Counter()
        for (dialect, role, has_samples), count in sorted(kinds.items(), key=str):
            by_offsets = has_samples and verdict.by_offsets
            if (role is None or role in verdict.roles) and (by_offsets or dialect != NO_TELEMETRY):
                why_not = _why_not(verdict, dialect, role, memory)
                by = ["group-offsets"] * by_offsets + ["telemetry"] * (why_not is None and dialect != NO_TELEMETRY)
                why_not = (None if by_offsets else why_not) or _too_short(verdict, memory, rules)
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


def sampled_groups(memory: Memory) -> set[tuple[str, str]]:
    """Cluster and id of the groups that were sampled in the last windows."""
    after_us = memory.judged_to_us - _SAMPLED_WITHIN_US
    known: dict[str, list[Any]] = memory.facts.get("group-offsets", {})
    names = (name.split("\x1f", 1) for name, each in known.items() if each[2] > after_us and each[0] != "unknown")
    return {(cluster, group) for cluster, group in names}


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
        needed_s += figures["young_s"] + figures["history_windows"] * memory.window_s
    judged_s = (memory.judged_to_us - memory.judged_from_us) / 1_000_000
    if judged_s >= needed_s:
        return None
    return f"{judged_s / 60:.0f} minutes were judged, and it takes {needed_s / 60:.0f}"


def _why_not(verdict: Verdict, dialect: str | None, role: str | None, memory: Memory) -> str | None:
    if dialect is None:
        return "its library is not known"
    columns = verdict.needs.get(dialect)
    if columns is None:
        return f"{dialect} does not send what it is judged by"
    if not columns or any(_is_sent(column, dialect, role, memory) for column in columns):
        return None
    missing = " or ".join(columns)
    if any(f"{dialect} {column}" in memory.sent for column in columns):
        return f"{missing} did not come from {dialect} {role}s: their versions may not send it (Java before 4.0)"
    return f"{missing} did not come from {dialect}: subscribe to its metrics"


def _is_sent(column: str, dialect: str, role: str | None, memory: Memory) -> bool:
    """True if clients of this library and role sent a column; of the library, where it is not known by roles."""
    by_role = {each: f"{dialect} {each} {column}" in memory.sent for each in ROLES}
    return by_role[role] if role in by_role and any(by_role.values()) else f"{dialect} {column}" in memory.sent
