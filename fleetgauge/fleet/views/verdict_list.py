"""Ranked list of verdicts in a terminal: causes with actions, and the consequences of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from fleetgauge.fleet.fleet import Judged
from fleetgauge.terminal.text import printable

Row = dict[str, Any]

_INDENT: Final = 4
_STYLES: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_NOBODY: Final = (None, "", "User:ANONYMOUS")
"""Principals that do not say whom to call."""


@dataclass(slots=True)
class Cause:
    """A verdict that no other listed one explains, with the verdicts that it explains, directly or indirectly."""

    row: Row
    explains: list[Row] = field(default_factory=list)


def folded(rows: Sequence[Row]) -> list[Cause]:
    """Causes from rows of VERDICTS, best rank first; a row whose cause is not among them is itself a cause."""
    by_reference: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_reference.setdefault((row["cluster_id"], reference(row)), []).append(row)
    causes: dict[int, Cause] = {}
    for row in rows:
        root = row
        while root["caused_by"] is not None:
            known = by_reference.get((root["cluster_id"], root["caused_by"]), ())
            if (cause := next((each for each in known if _overlap(each, root)), None)) is None:
                break
            root = cause
        listed = causes.setdefault(id(root), Cause(root))
        if root is not row:
            listed.explains.append(row)
    return [causes[id(row)] for row in rows if id(row) in causes]


def reference(row: Row) -> str:
    """Key under which `caused_by` names a row."""
    return f"{row['verdict']}:{row['subject_kind']}:{row['subject']}"


_SLACK: Final = timedelta(minutes=10)
"""The judge allows a consequence to start this long before its cause."""


def _overlap(one: Row, other: Row) -> bool:
    ends = [row["cleared_at"] or row["last_seen_at"] for row in (one, other)]
    return bool(one["opened_at"] <= ends[1] + _SLACK and other["opened_at"] <= ends[0] + _SLACK)


def print_list(
    console: Console, rows: Sequence[Row], judged: Judged, *, limit: int, shows_all: bool, wanted: str = ""
) -> None:
    """Prints open verdicts with their actions, then the cleared ones, at most as wide as the console.

    Args:
        console: where to.
        rows: of VERDICTS, best rank first.
        judged: for the line that says what the list is of.
        limit: causes that are printed.
        shows_all: consequences are listed under their cause; else only counted.
        wanted: which verdicts were asked for, where not all were.
    """
    if not rows:
        print_line(console, f"No verdicts{wanted}. Judged: {judged}. What cannot be judged: --coverage.")
        return
    causes = folded(rows)
    is_open = [cause for cause in causes if cause.row["state"] == "open"]
    cleared = [cause for cause in causes if cause.row["state"] != "open"]
    explained = len(rows) - len(causes)
    more = f", {explained:,} explained by them" if explained else ""
    print_line(console, f"{len(is_open):,} open, {len(cleared):,} cleared{more}. Judged: {judged}.")
    several = len({row["cluster_id"] for row in rows}) > 1
    for rank, cause in enumerate([*is_open, *cleared][:limit], 1):
        console.print()
        print_cause(console, rank, cause, several=several, shows_all=shows_all)
    if len(causes) > limit:
        console.print()
        print_line(
            console, f"{len(causes) - limit:,} more of {len(causes):,}: raise --limit, or write all with --format"
        )


def print_cause(console: Console, rank: int, cause: Cause, *, several: bool, shows_all: bool) -> None:
    """Prints one cause; `several` adds its cluster, `shows_all` lists its consequences."""
    row = cause.row
    is_open = row["state"] == "open"
    style = _STYLES.get(row["severity"], "") if is_open else "dim"
    head = Text.assemble(
        (f"{rank:>2}  ", "dim"),
        (f"{row['severity'] if is_open else 'cleared':<8}  ", style),
        (row["verdict"], f"bold {style}" if is_open else style),
        (f"  {printable(subject_text(row))}", "bold" if is_open else ""),
        (f" of {printable(row['principal'])}" if row["principal"] not in _NOBODY else ""),
        (f"  {time_of(row)}", "dim"),
        (f"  in cluster {printable(row['cluster_id'] or 'unknown')}" if several else "", "dim"),
    )
    console.print(head)
    print_line(console, row["why"].partition("; since ")[0], _INDENT)
    if is_open:
        print_line(console, f"Do ({row['side']}): {row['action']}", _INDENT)
    if row["caused_by"] is not None:
        print_line(console, f"Caused by {row['caused_by']}, which is not in this list.", _INDENT)
    if cause.explains:
        counts = Counter(each["verdict"] for each in cause.explains)
        kinds = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
        print_line(console, f"Explains {kinds}{'' if shows_all else ' (--all lists them)'}", _INDENT, "dim")
    for each in cause.explains if shows_all else ():
        text = f"{each['verdict']} {subject_text(each)}, {time_of(each)}: "
        print_line(console, f"- {text}{each['why'].partition('; since ')[0]}", _INDENT, "dim")


def subject_text(row: Row) -> str:
    """Subject of a row; for an instance also its client id."""
    own = f"{row['subject_kind']} {row['subject']}"
    is_instance = row["subject_kind"] == "instance" and row["client_id"] is not None
    return f"{own} of {row['client_id']}" if is_instance else own


def time_of(row: Row) -> str:
    """Time since the verdict opened, or its begin and end."""
    begin, end = row["opened_at"], row["cleared_at"] or row["last_seen_at"]
    lasted = duration_text(end - begin)
    return (
        f"{begin:%m-%d %H:%M} to {end:%H:%M}, {lasted}" if row["cleared_at"] else f"since {begin:%m-%d %H:%M}, {lasted}"
    )


def duration_text(duration: timedelta) -> str:
    """A duration with about two significant digits.

    >>> duration_text(timedelta(minutes=95)), duration_text(timedelta(hours=50))
    ('95 min', '50 h')
    """
    minutes = duration.total_seconds() / 60
    if minutes < 2:
        return f"{minutes * 60:.0f} s"
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 72 * 60 else f"{minutes / 1440:.0f} d"


def print_line(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Prints a text wrapped between words and indented."""
    for line in Text(printable(text), style=style).wrap(console, max(console.width - indent, 20)):
        console.print(Text(" " * indent).append(line))
