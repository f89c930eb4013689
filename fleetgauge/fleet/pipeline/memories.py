"""The judge's memories in the table `judged`: which of them is the latest, and by which rules it came to be."""

from collections.abc import Iterable, Sequence
from typing import Final

from fleetgauge.fleet.arrow import pc, to_list
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.memories import joined
from fleetgauge.verdicts.memory import FORM, Memory
from fleetgauge.verdicts.rules import Rules, default_rules, parse_rules

RULES: Final = "rules"
"""Key of the rule file with all rules, beside the parts of a memory."""


def latest_memory(store: Store) -> tuple[Memory, Rules]:
    """The latest memory of the judge, and its rules; empty if it never judged, or if the memory has another release's
    form.
    """
    if not store.has(catalog.JUDGED):
        return Memory(), default_rules()
    table = store.snapshot(catalog.JUDGED)
    is_of_form = pc.starts_with(pc.field("signature"), f"{FORM} ")
    kept = table.table(("judged_to",), is_of_form)
    if not kept.num_rows:
        return Memory(), default_rules()
    is_latest = is_of_form & (pc.field("judged_to") == pc.max(kept["judged_to"]))
    latest = to_list(table.table(("memory",), is_latest)["memory"])
    name = "the rules that the tables were judged by (fleet run --rebuild judges anew)"
    try:
        return memory_of(latest), parse_rules(dict(latest[0])[RULES].decode(), name, of_any_release=True)
    except RulesError as error:
        raise TableError(str(error)) from error


def memory_of(rows: Iterable[Sequence[tuple[str, bytes]]]) -> Memory:
    """The memory of all clusters, of one time at which it was kept.

    Args:
        rows: `memory` of JUDGED, of each part of the clusters; none without one.
    """
    return joined([Memory.of(dict(row)) for row in rows] or [Memory()])


def are_by_other_rules(store: Store, rules: Rules, window_s: int) -> bool:
    """True if the verdicts on windows of this length were given by other rules, or by a release whose memory has
    another form.
    """
    if not store.has(catalog.JUDGED):
        return False
    signatures = set(to_list(store.log(catalog.JUDGED).rows(["signature"])["signature"]))
    return signature_of(rules, window_s) not in signatures and any(each.endswith(f" {window_s}") for each in signatures)


def signature_of(rules: Rules, window_s: int) -> str:
    """Text that two memories share if one may go on from the other: form, rules, and length of the windows [s]."""
    return f"{FORM} {rules.digest} {window_s}"
