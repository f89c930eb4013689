"""Coverage in a terminal: verdicts by library, then why some cannot be given."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from fleetgauge.fleet.views.verdict_list import print_line
from fleetgauge.terminal.table import print_rows

Row = dict[str, Any]
_WITNESSES: Final = {"group-offsets": "group offsets", "gateway": "gateway"}


def print_coverage(console: Console, rows: Sequence[Row]) -> None:
    """Prints rows of `verdicts.coverage.SCHEMA`.

    A cell is `yes`, `no`, the roles that are judged if others are not, or `-` where no client has a role that it is
    about; `(group offsets)` where some are judged by samples of their groups alone, `(gateway)` by their traffic alone.
    """
    if not rows:
        print_line(console, "There are no clients: fleet run has read none.")
        return
    libraries = dict.fromkeys(row["library"] for row in rows)
    verdicts = dict.fromkeys(row["verdict"] for row in rows)
    table = [{"verdict": verdict, **{name: cell(rows, verdict, name) for name in libraries}} for verdict in verdicts]
    print_rows(console, ["verdict", *libraries], table)
    for why_not, names in reasons(rows).items():
        print_line(console, f"{', '.join(names)}: {why_not}.")


def cell(rows: Sequence[Row], verdict: str, library: str) -> str | None:
    """Cell for a verdict and a library, as in `print_coverage`; None if no client has a role that the verdict is
    about.
    """
    own = [row for row in rows if (row["verdict"], row["library"]) == (verdict, library)]
    if not own:
        return None
    roles = list(dict.fromkeys(row["role"] for row in own))
    judged = [role for role in roles if any(row["judged"] for row in own if row["role"] == role)]
    text = ", ".join(judged) if 0 < len(judged) < len(roles) else "yes" if judged else "no"
    alone = {row["judged_by"] for row in own}
    return text + "".join(f" ({name})" for source, name in _WITNESSES.items() if source in alone)


def reasons(rows: Sequence[Row]) -> dict[str, list[str]]:
    """For each reason, the verdicts that it prevents."""
    verdicts_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if not row["judged"] and row["verdict"] not in (names := verdicts_by_reason.setdefault(row["why_not"], [])):
            names.append(row["verdict"])
    return verdicts_by_reason
