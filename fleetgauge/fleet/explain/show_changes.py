"""`fleet changes`: the rows of `fleet.explain.changes` as a table of text or a file."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from rich.console import Console

from fleetgauge.fleet.arrow import pc, to_list
from fleetgauge.fleet.explain.changes import changes
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.report.output import table_answer
from fleetgauge.fleet.report.tables import TableForm, time_text
from fleetgauge.fleet.views.show_verdicts import Judgement, VerdictsRequest

_FORM: Final = TableForm(
    columns={
        "at (UTC)": lambda row: time_text(row["at"]),
        "change": lambda row: row["change"],
        "what": lambda row: f"{row['verdict'] or row['subject_kind']}",
        "subject": lambda row: f"{row['subject_kind']} {row['subject']}" if row["verdict"] else row["subject"],
        "severity": lambda row: row["severity"],
        "details": lambda row: row["what"],
        "cluster id": lambda row: row["cluster_id"],
    },
    least=("cluster id", "details", "severity"),
)


def show_changes(request: VerdictsRequest, since: datetime) -> Judgement:
    """The changes since a time, the latest first, and the severities of the verdicts that opened since.

    Raises:
        FleetError: there are no tables.
    """
    fleet = Fleet.with_verdicts(request.tables, request.conf)
    rows = changes(fleet, since)
    listed = table_answer(rows, _FORM, request.to)

    def text(console: Console) -> None:
        known = fleet.judged()
        if known.begin is None or since <= known.begin:
            console.print(
                f"The tables begin after {since:%Y-%m-%d %H:%M} UTC: everything in their first window counts as new."
            )
        if rows.num_rows:
            listed.text(console)
        else:
            console.print(f"No changes since {since:%Y-%m-%d %H:%M} UTC. Known: {known}.")

    opened = set(to_list(rows.filter(pc.equal(rows["change"], "opened"))["severity"]))
    return Judgement(replace(listed, text=text), opened)
