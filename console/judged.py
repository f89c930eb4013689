"""Verdicts of the live judge, or of standing tables, and what these know of clients."""

from datetime import datetime
from typing import Final

from console.clients import InstanceKey, Known
from console.verdict_rows import Row, Verdicts, by_severity
from fleet.decode.arrow import pa
from fleet.errors import FleetError
from fleet.html.words import title, who
from fleet.pipeline.show_verdicts import judged, opened, ranked_verdicts
from fleet.schemas import INSTANCE
from fleet.tables import catalog
from verdicts.memory import Memory
from verdicts.rows import ranked
from verdicts.rules import Rules


def live_verdicts(memory: Memory, rules: Rules) -> Verdicts:
    """Those of the live judge."""
    rows = by_severity([_plain(row) for row in ranked(memory, rules).to_pylist()])
    return Verdicts(
        source="live", judged_from=memory.judged_from_us or None, judged_to=memory.judged_to_us or None, rows=rows
    )


def standing_verdicts(tables: str) -> Verdicts:
    """Those of standing tables.

    Raises:
        OSError: the tables cannot be read; one sentence.
    """
    try:
        store = opened(tables, {})
        of = judged(store)
        rows = by_severity([_plain(row) for row in ranked_verdicts(store).to_pylist()])
    except FleetError as error:
        raise OSError(str(error)) from error
    return Verdicts(source="tables", judged_from=_micros(of.begin), judged_to=_micros(of.end), rows=rows)


def standing_clients(tables: str) -> dict[InstanceKey, Known]:
    """What the inventory of standing tables has of each client instance.

    Raises:
        OSError: the tables cannot be read; one sentence.
    """
    columns = [*INSTANCE, "first_seen", "last_seen", "pushes"]
    try:
        store = opened(tables, {})
        rows = store.log(catalog.INVENTORY).rows(columns=columns)
    except FleetError as error:
        raise OSError(str(error)) from error
    keys = zip(*(rows[name].to_pylist() for name in INSTANCE), strict=True)
    micros = (rows[name].cast(pa.int64()).to_pylist() for name in ("first_seen", "last_seen"))
    known = map(Known._make, zip(*micros, rows["pushes"].to_pylist(), strict=True))
    return dict(zip(keys, known, strict=True))


_TIMES: Final = ("opened_at", "last_seen_at", "cleared_at")


def _plain(row: Row) -> Row:
    """A row of the table with times in us, `sentence` as the command line lists it, `title` and `who` as a report."""
    found = row | {name: _micros(row[name]) for name in _TIMES}
    found["evidence"] = [each | {"window_start": _micros(each["window_start"])} for each in row["evidence"] or ()]
    found["sentence"] = row["why"].partition("; since ")[0]
    found["title"], found["who"] = title(row), who(row)
    return found


def _micros(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000_000)
