"""Changes of the table `verdicts` since the last delivery: verdicts that opened, got worse or better, or cleared.

Rows are those of the table as JSON has them (`fleet.report.cells.json_lines`), whose times compare as text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


class Kind(StrEnum):
    """Kind of change of a verdict."""

    OPENED = "opened"
    SEVERITY = "severity"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a verdict.

    Attributes:
        kind: what happened.
        id: of the verdict, the same in all its changes and whenever one is delivered again.
        row: the verdict as it is now.
        before: the verdict as last delivered; None if it was not.
    """

    kind: Kind
    id: str
    row: Row
    before: Row | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON form that destinations receive."""
        return {"id": self.id, "change": self.kind.value, **self.row}


def verdict_id(row: Row) -> str:
    """Id from the verdict, its subject and its begin."""
    return sha256(json.dumps([*_key(row), row["opened_at"]]).encode()).hexdigest()[:32]


def changes(
    rows: Sequence[Row], delivered: Mapping[str, Row], *, since: str, now: str, consequences: bool = False
) -> list[Change]:
    """Changes that a destination has not received, in the order of `rows`.

    Args:
        rows: of the table.
        delivered: verdicts delivered before, by id, in the state of delivery.
        since: verdicts last seen before this time are skipped, unless they were delivered.
        now: when a verdict clears that the table has no more.
        consequences: include verdicts that another one explains.
    """
    own = {verdict_id(row): row for row in rows}
    moved = {known_as: before for known_as, before in delivered.items() if known_as not in own}
    result = []
    for known_as, row in own.items():
        if known_as not in delivered:
            # Late pushes may have moved its beginning: it is still the one that was delivered.
            known_as = next((each for each, before in moved.items() if _is_same(before, row)), known_as)
            moved.pop(known_as, None)
        if change := _change(known_as, row, delivered.get(known_as), since, consequences):
            result.append(change)
    for known_as, before in moved.items():
        if before["state"] == "open":
            row = {**before, "state": "cleared", "cleared_at": now}
            result.append(Change(kind=Kind.CLEARED, id=known_as, row=row, before=before))
    return result


def forgotten(rows: Sequence[Row], delivered: Mapping[str, Row]) -> set[str]:
    """Ids of delivered verdicts that are over and no longer in the table."""
    in_table: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        in_table.setdefault(tuple(_key(row)), []).append(row)
    return {
        name
        for name, before in delivered.items()
        if before["state"] != "open" and not any(_is_same(before, row) for row in in_table.get(tuple(_key(before)), ()))
    }


def _change(known_as: str, row: Row, before: Row | None, since: str, consequences: bool) -> Change | None:
    is_open = row["state"] == "open"
    if before is None:
        if row["last_seen_at"] < since or (row["caused_by"] is not None and not consequences):
            return None
        kind = Kind.OPENED if is_open else Kind.CLEARED
    elif row["state"] != before["state"]:
        kind = Kind.OPENED if is_open else Kind.CLEARED
    elif is_open and row["severity"] != before["severity"]:
        kind = Kind.SEVERITY
    else:
        return None
    return Change(kind=kind, id=known_as, row=row, before=before)


def _key(row: Row) -> list[Any]:
    """Key of a verdict's subject, with the principal: instances of two principals may share an id."""
    of_instance = row["principal"] if row["subject_kind"] == "instance" else None
    return [row["verdict"], row["subject_kind"], row["subject"], row["cluster_id"], of_instance]


def _is_same(before: Row, row: Row) -> bool:
    """True for the same subject at an overlapping time."""
    begins_before_end = row["opened_at"] <= before["last_seen_at"]
    ends_after_begin = row["cleared_at"] is None or row["cleared_at"] >= before["opened_at"]
    return _key(before) == _key(row) and begins_before_end and ends_after_begin
