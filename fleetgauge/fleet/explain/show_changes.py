"""`fleet changes`: the rows of `fleet.explain.changes` as a table of text or a file."""

from datetime import datetime
from typing import Final, TextIO

from fleetgauge.fleet.arrow import pc, to_list
from fleetgauge.fleet.explain.changes import changes
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.output import write_table
from fleetgauge.fleet.report.tables import TableForm, time_text
from fleetgauge.fleet.views.show_verdicts import VerdictsRequest

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


def show_changes(request: VerdictsRequest, since: datetime, out: TextIO) -> set[str]:
    """Writes the changes since a time, the latest first.

    Returns:
        The severities of the verdicts that opened since.

    Raises:
        FleetError: there are no tables, or the rows cannot be written.
    """
    fleet = Fleet.with_verdicts(request.tables, request.conf)
    rows = changes(fleet, since)
    if request.to.form is Format.TABLE:
        known = fleet.judged()
        if known.begin is None or since <= known.begin:
            out.write(
                f"The tables begin after {since:%Y-%m-%d %H:%M} UTC: everything in their first window counts as new.\n"
            )
        if not rows.num_rows:
            out.write(f"No changes since {since:%Y-%m-%d %H:%M} UTC. Known: {known}.\n")
            return set()
    write_table(rows, request.to, _FORM, out)
    return set(to_list(rows.filter(pc.equal(rows["change"], "opened"))["severity"]))
