"""Verdicts from the live judge or from the tables, and the clients in the tables."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from fleetgauge.console.state.clients import InstanceKey, Known
from fleetgauge.console.state.verdict_rows import Row, Verdicts, by_severity
from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.html.words import title, who
from fleetgauge.fleet.pipeline.memories import latest_memory
from fleetgauge.fleet.schemas import INSTANCE
from fleetgauge.fleet.tables import catalog
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.suspected import first_verdicts_us, suspected

FirstPush = Callable[[InstanceKey], int | None]
"""Receipt of the first push of an instance [us]; None if unknown."""


def live_verdicts(memory: Memory, rules: Rules, first_push: FirstPush) -> Verdicts:
    """Verdicts of the live judge."""
    rows = by_severity([_plain(row, first_push) for row in ranked(memory, rules).to_pylist()])
    return Verdicts(
        source="live",
        judged_from=memory.judged_from_us or None,
        judged_to=memory.judged_to_us or None,
        rows=rows,
        suspected=_suspected(memory, rules),
        first_verdicts=first_verdicts_us(memory, rules),
    )


def verdicts_in_tables(tables: str, first_push: FirstPush) -> Verdicts:
    """Verdicts in the tables.

    Raises:
        OSError: the tables cannot be read; one sentence.
    """
    try:
        fleet = Fleet.with_verdicts(tables)
        of, (memory, rules) = fleet.judged(), latest_memory(fleet.store)
        rows = by_severity([_plain(row, first_push) for row in fleet.verdicts().to_pylist()])
    except FleetError as error:
        raise OSError(str(error)) from error
    return Verdicts(
        source="tables",
        judged_from=_micros(of.begin),
        judged_to=_micros(of.end),
        rows=rows,
        suspected=_suspected(memory, rules),
    )


def _suspected(memory: Memory, rules: Rules) -> list[Row]:
    return [row | {"title": title(row)} for row in suspected(memory, rules)]


def clients_in_tables(tables: str) -> dict[InstanceKey, Known]:
    """Client instances in the inventory table.

    Raises:
        OSError: the tables cannot be read; one sentence.
    """
    columns = [*INSTANCE, "first_seen", "last_seen", "pushes"]
    try:
        rows = Fleet.with_verdicts(tables).chosen(catalog.INVENTORY.name).read(columns)
    except FleetError as error:
        raise OSError(str(error)) from error
    keys = zip(*(rows[name].to_pylist() for name in INSTANCE), strict=True)
    micros = (rows[name].cast(pa.int64()).to_pylist() for name in ("first_seen", "last_seen"))
    known = map(Known._make, zip(*micros, rows["pushes"].to_pylist(), strict=True))
    return dict(zip(keys, known, strict=True))


_TIMES: Final = ("opened_at", "last_seen_at", "cleared_at")
_OF_CLIENTS: Final = ("client", "instance", "path")


def _plain(row: Row, first_push: FirstPush) -> Row:
    """A row of the table with times in us, `since` when it began, `sentence` as the command line lists it, `title` and
    `who` as a report.
    """
    plain = row | {name: _micros(row[name]) for name in _TIMES}
    plain["evidence"] = [each | {"window_start": _micros(each["window_start"])} for each in row["evidence"] or ()]
    plain["sentence"] = row["why"].partition("; since ")[0]
    plain["title"], plain["who"] = title(row), who(row)
    plain["since"] = _since(plain, first_push)
    return plain


def _since(row: Row, first_push: FirstPush) -> int:
    """Begin of the verdict [us]; `opened_at`, a part of its identity, is the start of a window, within which its client
    may have begun.

    A verdict of windows of 60 s that opened at 02:25:00 began at 02:25:40 if its client's first push came then.
    """
    opened: int = row["opened_at"]
    if row["subject_kind"] not in _OF_CLIENTS or not row["evidence"]:
        return opened
    window_us = 1_000_000 * max(each["window_s"] for each in row["evidence"])
    pushes = [first_push((row["cluster_id"], row["principal"] or "", each)) for each in row["instances"]]
    known = [each for each in pushes if each is not None]
    is_within = len(known) == len(pushes) > 0 and opened < min(known) < opened + window_us
    return min(known) if is_within else opened


def _micros(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000_000)
