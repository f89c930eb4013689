"""Suspected cases, which have not lasted long enough for a verdict, and the time of the first possible verdicts."""

from typing import Any, Final

from fleetgauge.verdicts.catalogue import VERDICTS
from fleetgauge.verdicts.memory import Case, Memory
from fleetgauge.verdicts.rules import Rules

_LEAST: Final = 0.1
"""Share of `for_s` from which on a case is listed: shorter ones occur in every healthy fleet."""


def suspected(memory: Memory, rules: Rules) -> list[dict[str, Any]]:
    """Cases that are not open yet, the nearest to opening first.

    A row has the subject, as in the table of verdicts (`verdict`, `subject_kind`, `subject`, `cluster_id`,
    `principal`, `client_id`, `group_id`, `node_id`), and

    - `since_us`: the beginning of its first bad window [us since the epoch];
    - `lasted_s`, `for_s`: how long it has lasted, and the time that it takes [s];
    - `opens_us`: the time at which it opens if it lasts [us].
    """
    rows = [_row(case, memory, rules) for case in memory.present_cases() if _is_suspected(case, rules)]
    return sorted(rows, key=lambda row: (-row["lasted_s"] / row["for_s"], row["verdict"], row["subject"]))


def _is_suspected(case: Case, rules: Rules) -> bool:
    figures = rules[case.verdict] if not case.is_open else None
    return figures is not None and case.good_us is None and case.level_s >= max(_LEAST * figures["for_s"], 1.0)


def _row(case: Case, memory: Memory, rules: Rules) -> dict[str, Any]:
    for_s = rules[case.verdict]["for_s"]
    names = ("verdict", "subject_kind", "subject", "cluster_id", "principal", "client_id", "group_id", "node_id")
    return {
        **{name: getattr(case, name) for name in names},
        "since_us": case.first_bad_us,
        "lasted_s": case.level_s,
        "for_s": for_s,
        "opens_us": memory.judged_to_us + round(1_000_000 * max(for_s - case.level_s, 0.0)),
    }


def first_verdicts_us(memory: Memory, rules: Rules) -> int | None:
    """Time from which on verdicts are possible [us]; None once it is reached."""
    lasting = [for_s for each in VERDICTS if rules[each.id].is_enabled and (for_s := rules[each.id]["for_s"])]
    if not memory.judged_to_us or not lasting:
        return None
    first_us = memory.judged_from_us + round(1_000_000 * min(lasting))
    return first_us if memory.judged_to_us < first_us else None
