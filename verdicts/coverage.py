"""Which verdicts can be given for which clients, and why not: what is not sent is not judged."""

from collections import Counter
from typing import Any, Final

from verdicts.arrow import Table, pa
from verdicts.catalogue import verdicts_of
from verdicts.declare import Verdict
from verdicts.memory import Memory
from verdicts.rules import Rules, default_rules

SCHEMA: Final = pa.schema(
    [
        ("verdict", pa.string()),
        ("library", pa.string()),
        ("role", pa.string()),
        ("instances", pa.int64()),
        ("judged", pa.bool_()),
        ("why_not", pa.string()),
    ]
)
"""One row per verdict, library and role of the fleet."""


def coverage(clients: Table, memory: Memory, rules: Rules | None = None) -> Table:
    """Who is judged.

    Args:
        clients: CLIENTS: `dialect` and `role`.
        memory: of the judge, which knows what each library sent, and for how long.
        rules: that it was judged by; the defaults, if None.
    """
    rules = rules or default_rules()
    kinds = Counter(zip(clients["dialect"].to_pylist(), clients["role"].to_pylist(), strict=True))
    rows: list[dict[str, Any]] = []
    for verdict in verdicts_of(rules):
        for (dialect, role), count in sorted(kinds.items(), key=str):
            if role is not None and role not in verdict.roles:
                continue
            why_not = _why_not(verdict, dialect, memory) or _too_short(verdict, memory, rules)
            rows.append(
                {
                    "verdict": verdict.id,
                    "library": dialect or "unknown",
                    "role": role or "unknown",
                    "instances": count,
                    "judged": why_not is None,
                    "why_not": why_not,
                }
            )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


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


def _why_not(verdict: Verdict, dialect: str | None, memory: Memory) -> str | None:
    if dialect is None:
        return "its library is not known"
    columns = verdict.needs.get(dialect)
    if columns is None:
        return f"{dialect} does not send what it is judged by"
    if columns and not any(memory.sent.get(f"{dialect} {column}") for column in columns):
        return f"{' or '.join(columns)} did not come from {dialect}: subscribe to its metrics"
    return None
