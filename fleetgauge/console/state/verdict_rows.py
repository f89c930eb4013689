"""Verdicts as plain values, and the clients that they are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetgauge.console.state.clients import Entry
from fleetgauge.console.state.query import SEVERITIES, software_of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Result of judging.

    Attributes:
        source: `tables` or `live`.
        judged_from, judged_to: of the windows judged [us]; None where there is none.
        rows: of the contract, best rank first.
        suspected: of `verdicts.suspected`, nearest first.
        first_verdicts: from when on the first can come, until they can [us].
    """

    source: str
    judged_from: int | None = None
    judged_to: int | None = None
    rows: Sequence[Row] = ()
    suspected: Sequence[Row] = ()
    first_verdicts: int | None = None
    _about: dict[tuple[str, str, str], list[Row]] = field(default_factory=dict)
    _suspected_about: dict[tuple[str, str, str], list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rows, about in ((self.open_rows(), self._about), (self.suspected, self._suspected_about)):
            for row in rows:
                for key in _subjects(row):
                    about.setdefault(key, []).append(row)

    def open_rows(self) -> list[Row]:
        """Open verdicts."""
        return [row for row in self.rows if row["state"] == "open"]

    def about(self, kind: str, cluster_id: str, subject: str) -> list[Row]:
        """Open verdicts about a subject; those about a path are also about its client."""
        return self._about.get((kind, cluster_id, subject), [])

    def of_entry(self, entry: Entry) -> list[Row]:
        """Open verdicts about a client, its instance, its group or its version."""
        return _of_entry(entry, self._about)

    def suspected_of(self, entry: Entry) -> list[Row]:
        """The same for suspected verdicts."""
        return _of_entry(entry, self._suspected_about)


def by_severity(rows: Sequence[Row]) -> list[Row]:
    """Rows sorted: open first, then by worst severity, then by rank.

    A cause counts as bad as the worst that it explains, and stays before it.
    """
    known = {(row["cluster_id"], f"{row['verdict']}:{row['subject_kind']}:{row['subject']}"): row for row in rows}

    def root(row: Row) -> Row:
        for _ in range(len(rows)):  # the rows may be of tables of others, with a circle
            cause = known.get((row["cluster_id"], row["caused_by"]))
            if cause is None or cause["state"] != row["state"]:
                break
            row = cause
        return row

    roots = [root(row) for row in rows]
    worst: dict[int, int] = {}
    for row, of in zip(rows, roots, strict=True):
        worst[id(of)] = min(SEVERITIES.index(row["severity"]), worst.get(id(of), len(SEVERITIES)))
    ranked = sorted(zip(rows, roots, strict=True), key=lambda pair: (pair[0]["state"] != "open", worst[id(pair[1])]))
    return [row for row, _ in ranked]


def _of_entry(entry: Entry, about: Mapping[tuple[str, str, str], list[Row]]) -> list[Row]:
    if not about:
        return []
    of, group = entry.of, entry.instance.group_id if entry.instance is not None else None
    subjects = [("client", of.client_id), ("instance", of.client_instance_id), ("version", software_of(entry))]
    subjects[2:2] = [("group", group)] if group else []
    return [row for kind, subject in subjects for row in about.get((kind, entry.cluster_id, subject), ())]


def _subjects(row: Row) -> list[tuple[str, str, str]]:
    subjects = [(row["subject_kind"], row["cluster_id"], row["subject"])]
    if row["subject_kind"] == "path":
        subjects.append(("client", row["cluster_id"], row["client_id"]))
    return subjects
