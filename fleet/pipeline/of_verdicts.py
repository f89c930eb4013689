"""The table `verdicts`: windows judged in their order, from the first that changed on.

The judge's memory is kept in the table `judged`, at the end of each of the last days and of the last hours. A run goes
on from the latest that is not after the first window that changed: the outcome is that of judging all windows at once,
however runs cut them, and a run judges an hour or two again, and more where pushes were late. A watch leaves the window
that is not over for later: what half of it said would be delivered, and change with the rest.
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fleet.decode.arrow import Table, pa, pc
from fleet.measures.catalogue import LAG_RECORDS
from fleet.measures.merge import merge
from fleet.measures.rows import KEY, LAG_COLUMNS, ROWS, one
from fleet.measures.values import Wide, conformed
from fleet.pipeline.spans import Span, within
from fleet.tables import catalog
from fleet.tables.log import Snapshot
from fleet.tables.store import Store
from verdicts.judge import judge
from verdicts.memory import FORM, Memory
from verdicts.notes import client_columns
from verdicts.points import COLUMNS as POINT_COLUMNS
from verdicts.rows import ranked
from verdicts.rules import Rules
from verdicts.window import COLUMNS, MEASURES

_HOUR: Final = timedelta(hours=1)
_HOURS_KEPT: Final = 2
_DAYS_KEPT: Final = 7
_ROWS_AT_ONCE: Final = 200_000
"""Of the wide rows, about 1 kB each; an hour at least."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _sources(measures: Collection[str] = MEASURES) -> tuple[str, ...]:
    """The columns of ROWS that the judge's are made of."""
    names = {
        "date",
        *KEY,
        "seen_push_id",
        "group_id_at",
        *(name for name in COLUMNS if name not in MEASURES),
        *measures,
    }
    if LAG_RECORDS in measures:
        names |= set(LAG_COLUMNS)
    for name in measures:
        names |= {f"{name}_sum", f"{name}_count", f"{name}_at"}
    return tuple(name for name in ROWS.names if name in names)


_SOURCES: Final = _sources()


def latest_memory(store: Store) -> Memory:
    """What the judge remembered last; nothing where it never judged, or in another release's form."""
    kept = [row for row in store.rows(catalog.JUDGED) if row["signature"].startswith(f"{FORM} ")]
    latest = max(kept, key=lambda row: row["judged_to"], default=None)
    return Memory() if latest is None else Memory.of(dict(latest["memory"]))


def replace_verdicts(
    store: Store, spans: list[Span], rules: Rules, window_s: int, judged_to: datetime | None = None
) -> None:
    """Judges the windows from the first of these spans on, and replaces the table `verdicts`.

    Args:
        store: the tables.
        spans: of the windows that changed.
        rules: the figures of the verdicts.
        window_s: length of the windows [s]; those of another length are not judged.
        judged_to: windows that end later are left for a later run; None judges all.
    """
    limit = None if judged_to is None else judged_to - (judged_to - _EPOCH) % timedelta(seconds=window_s)
    rows, files = store.snapshot(catalog.WINDOWS), store.files(catalog.WINDOWS)
    points = store.snapshot(catalog.POINTS)
    clients = store.snapshot(catalog.CLIENTS).table(client_columns(rules))
    signature = f"{FORM} {rules.digest} {window_s}"
    kept = [
        each
        for each in store.rows(catalog.JUDGED)
        if each["signature"] == signature and each["judged_to"] <= spans[0][0]
    ]
    before = max(kept, key=lambda each: each["judged_to"], default=None)
    if limit is not None and before is not None and before["judged_to"] >= limit:
        return  # what changed is of windows that are left for later
    memory = Memory() if before is None else Memory.of(dict(before["memory"]))
    hours = list(_hours(files, None if before is None else before["judged_to"], limit))
    for begin, end in _together(hours, files):
        where = (
            within([(begin, end)], "window_start") & (pc.field("window_s") == window_s) & pc.field("topic").is_null()
        )
        named = _named_points(points, (begin, end), rules)
        judge(judged_rows(rows, where), clients, memory, rules, named)
        if _stays(end, hours[-1][1]):
            kept.append({"judged_to": end, "signature": signature, "memory": list(memory.parts().items())})
    kept = [each for each in kept if not hours or _stays(each["judged_to"], hours[-1][1])]
    store.replace(catalog.JUDGED, pa.Table.from_pylist(kept, schema=catalog.JUDGED.schema))
    store.replace(catalog.VERDICTS, ranked(memory, rules))


def _stays(at: datetime, last: datetime) -> bool:
    """True for the last end of all, and for those of the last hours and days: late pushes may change these hours."""
    is_of_hour = at == _whole_hour(at) and last - at <= _HOURS_KEPT * _HOUR
    is_of_day = at == at.replace(hour=0, minute=0, second=0) and (last - at).days <= _DAYS_KEPT
    return at == last or is_of_hour or is_of_day


def _together(hours: list[Span], files: list[dict[str, Any]]) -> Iterator[Span]:
    """Hours that are read at once, since files are sorted by clients: those of few rows, up to an end that is kept."""
    rows = sum(file["num_records"] for file in files)
    first, count = None, 0
    for begin, end in hours:
        first, count = first or begin, count + 1
        if (count + 1) * rows > _ROWS_AT_ONCE * len(hours) or _stays(end, hours[-1][1]):
            yield first, end
            first, count = None, 0


def _whole_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _hours(files: list[dict[str, Any]], begin: datetime | None, limit: datetime | None) -> Iterator[Span]:
    """The hours that rows may be of, from this time on; the last of them up to the limit."""
    firsts = [file["min.window_start"] for file in files if file["min.window_start"] is not None]
    lasts = [file["max.window_start"] for file in files if file["max.window_start"] is not None]
    if not firsts:
        return
    at = begin or _whole_hour(min(firsts))
    last = max(lasts) if limit is None else min(max(lasts), limit - timedelta.resolution)
    while at <= last:
        end = _whole_hour(at) + _HOUR
        end = end if limit is None else min(end, limit)
        if any(low < end and high >= at for low, high in zip(firsts, lasts, strict=True)):
            yield at, end
        at = end


def _named_points(points: Snapshot, span: Span, rules: Rules) -> Table | None:
    """The points that own rules read; None where there are no such rules."""
    if not rules.own:
        return None
    is_named = pc.field("metric_name").isin(pa.array(sorted(rules.metric_names), pa.string()))
    return points.table(POINT_COLUMNS, within([span], "received_at") & is_named)


def judged_rows(rows: Snapshot, where: Any, measures: Collection[str] | None = None) -> Table:
    """`verdicts.window.COLUMNS` of the rows of WINDOWS that meet a `pyarrow.compute.Expression`.

    Args:
        rows: the table.
        where: the condition.
        measures: those that are read, the others are null; None reads all.
    """
    sources = _SOURCES if measures is None else _sources(measures)
    found = rows.table(sources, where)
    merged = merge([conformed(ROWS, {name: one(found[name]) for name in sources}, found.num_rows)])
    given = Wide(merged)
    columns: dict[str, Any] = {name: given.rows[name] for name in COLUMNS if name not in MEASURES}
    columns |= {name: given.value(name) for name in MEASURES}
    return pa.table(columns)
