"""Faults made one round after the other, what the judge then said, and the table of it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from integration.reality.faults import Fault, Steps
from integration.reality.stage import Stage
from integration.reality.verdict_pipeline import Row
from support.waiting import pause, ticking


@dataclass(kw_only=True)
class Outcome:
    """What became of a fault.

    Attributes:
        before: ids of the verdicts that were there before it was made.
        began_s: when it was made, from the beginning of its round [s].
        began_at: the same, UTC.
        found_s: from its own beginning until its verdict was delivered; None if that did not come [s].
        console_s: the same until the console showed it.
        severity, why: of its verdict.
        others: further rows that its own explains, or that are true of its clients as well.
    """

    fault: Fault
    before: set[str] = field(default_factory=set)
    began_s: float = 0.0
    began_at: datetime | None = None
    found_s: float | None = None
    console_s: float | None = None
    severity: str = ""
    why: str = ""
    others: list[Row] = field(default_factory=list)

    @property
    def is_found(self) -> bool:
        """By `fleet watch` and the console."""
        return None not in (self.found_s, self.console_s)


def make(
    stage: Stage, *rounds: Sequence[Fault], note: Callable[[Outcome], None] = lambda _: None
) -> tuple[list[Outcome], list[Row]]:
    """Makes the faults of each round at once.

    Args:
        stage: for them.
        rounds: one after the other.
        note: told of each fault that was found, and at the end of the round of each that was not.

    Returns:
        One outcome per fault, and the strange rows: those that none of them explains, and those of a fault that name
        another one as their cause.
    """
    faults = [fault for each in rounds for fault in each]
    steps = [fault.steps(stage, fault.library, fault.subject) for fault in faults]
    for each in steps:
        next(each)
    stage.wait_for_history()
    outcomes = [Outcome(fault=fault) for fault in faults]
    for number, some in enumerate(rounds):
        if number:
            pause(stage.pace.clears_s, "what the last round did to clients that are in the next one passes")
        of_round = [(outcome, each) for outcome, each in zip(outcomes, steps, strict=True) if outcome.fault in some]
        _make_round(stage, of_round, note)
    strange = _assign(outcomes, stage.pipeline.rows())
    return outcomes, strange


def _make_round(stage: Stage, of_round: Sequence[tuple[Outcome, Steps]], note: Callable[[Outcome], None]) -> None:
    passed = ticking(math.inf, every_s=stage.pace.looks_every_s)
    for outcome, steps in of_round:
        outcome.before = {row["id"] for row in stage.pipeline.rows()}
        outcome.began_s, outcome.began_at = next(passed), datetime.now(UTC)
        next(steps)
    outcomes = [outcome for outcome, _ in of_round]
    lasts_s = stage.pace.times * max(outcome.fault.lasts_s for outcome in outcomes)
    end_s = next(passed) + (stage.pace.round_s or stage.pace.waits * lasts_s + stage.pace.delivery_s)
    waiting = [each for each in outcomes if each.fault.verdict]
    while (waiting or stage.pace.round_s) and (now_s := next(passed)) < end_s:
        rows = stage.pipeline.rows()
        shown = stage.pipeline.console_rows() if stage.pace.is_default else rows
        for each in waiting:
            new = [row for row in rows if is_right(row, each.fault) and row["id"] not in each.before]
            if new and each.found_s is None:
                each.found_s, each.severity, each.why = now_s - each.began_s, new[0]["severity"], new[0]["why"]
            if each.console_s is None and any(is_right(row, each.fault) for row in shown):
                each.console_s = now_s - each.began_s
            if each.is_found:
                note(each)
        waiting = [each for each in waiting if not each.is_found]
    for each in outcomes:
        if not each.is_found:
            note(each)
    for _, steps in of_round:
        next(steps, None)


def is_about(row: Row, fault: Fault) -> bool:
    """True for rows about a fault's subject, its clients or their group."""
    return fault.subject in (row["subject"], row["client_id"], row["group_id"])


def is_right(row: Row, fault: Fault) -> bool:
    """True for the verdict that a fault has to lead to."""
    return (row["verdict"], row["subject_kind"]) == (fault.verdict, fault.kind) and is_about(row, fault)


def _assign(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> list[Row]:
    """Gives each row to the fault that explains it; the strange ones are left."""
    strange = []
    by_reference = {f"{row['verdict']}:{row['subject_kind']}:{row['subject']}": row for row in rows}
    for row in rows:
        root = row
        while root["caused_by"]:  # no two verdicts explain each other
            root = by_reference[root["caused_by"]]
        of_fault = [each for each in outcomes if is_right(root, each.fault)]
        of_fault += [each for each in outcomes if root["verdict"] in each.fault.also and is_about(root, each.fault)]
        own = [each.fault for each in outcomes if is_right(row, each.fault)]
        if not of_fault or (own and not any(is_about(root, fault) for fault in own)):
            strange.append(row)
        elif not is_right(row, of_fault[0].fault):
            of_fault[0].others.append(row)
    return strange


def table(outcomes: Iterable[Outcome]) -> str:
    """The table of docs/analyse/verdicts.md."""
    lines = ["| what is done | library | verdict | found after | other rows |", "|---|---|---|---|---|"]
    for each in outcomes:
        fault, others = each.fault, sorted({named(row) for row in each.others})
        found = "not found" if each.found_s is None else f"{each.found_s:.0f} s"
        words = fault.what, fault.library or "all", f"{fault.verdict}, {fault.lasts_s:.0f} s", found, ", ".join(others)
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def named(row: Row) -> str:
    """A verdict, and that of its cause."""
    cause = (row["caused_by"] or "").partition(":")[0]
    return f"{row['verdict']} (by {cause})" if cause else str(row["verdict"])


def write(outcomes: Iterable[Outcome], strange: Iterable[Row], path: Path) -> None:
    """Keeps the table, and what rows that no fault explains say."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(table(outcomes) + "".join(f"\n{named(row)} {row['subject']}: {row['why']}\n" for row in strange))
