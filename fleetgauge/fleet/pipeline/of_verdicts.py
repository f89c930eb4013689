"""The table `verdicts`: windows judged in order, from the first changed one on.

The judge's memory is kept in the table `judged`, at the end of each of the last days and of the last hours. A run goes
on from the latest that is not after the first window that changed: the outcome is that of judging all windows at once,
however runs cut them, and a run judges an hour or two again, and more where pushes were late. A watch leaves the window
that is not over for later: what half of it said would be delivered, and change with the rest.
"""

import ctypes
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pa, pc, to_list
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.pipeline.by_window import ROWS_IN_MEMORY, by_window
from fleetgauge.fleet.pipeline.of_windows import Target
from fleetgauge.fleet.pipeline.spans import EPOCH, Span, micros_of, within
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import FORM, Memory
from fleetgauge.verdicts.notes import client_columns
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import Rules, as_toml, default_rules, parse_rules
from fleetgauge.verdicts.witnesses.offsets import COLUMNS as OFFSETS_COLUMNS
from fleetgauge.verdicts.witnesses.offsets import LOOKBACK_S, Samples
from fleetgauge.verdicts.witnesses.points import COLUMNS as POINT_COLUMNS
from fleetgauge.verdicts.witnesses.traffic import COLUMNS as TRAFFIC_COLUMNS
from fleetgauge.verdicts.witnesses.traffic import TrafficRows

_HOUR: Final = timedelta(hours=1)
_HOURS_KEPT: Final = 2
_DAYS_KEPT: Final = 7
_ROWS_AT_ONCE: Final = 5_000_000
"""Wide rows of the hours that `by_window` reads together; at least one hour."""
_RULES: Final = "rules"
"""Key of the rule file with all rules, beside the parts of a memory."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3), from `malloc.h`."""
_KEPT_BYTES: Final = 256 * 1024 * 1024
_MOST_MMAP_THRESHOLD: Final = 32 * 1024 * 1024
"""Upper limit of glibc on 64 bits."""


def keep_freed_memory() -> None:
    """Lets malloc keep up to 256 MiB of freed memory for reuse, with glibc.

    The judge makes and drops arrays of megabytes. glibc returns such memory to the kernel at once, which has to clear
    its pages before they are used again: about a tenth of the judge's time.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD)
        libc.mallopt(_M_ARENA_MAX, 1)  # arenas of further threads return their memory nevertheless


def latest_memory(store: Store) -> tuple[Memory, Rules]:
    """The latest memory of the judge, and its rules; empty if it never judged, or if the memory has another release's
    form.
    """
    kept = [row for row in store.rows(catalog.JUDGED) if row["signature"].startswith(f"{FORM} ")]
    latest = max(kept, key=lambda row: row["judged_to"], default=None)
    if latest is None:
        return Memory(), default_rules()
    parts = dict(latest["memory"])
    name = "the rules that the tables were judged by (fleet run --rebuild judges anew)"
    try:
        return Memory.of(parts), parse_rules(parts[_RULES].decode(), name, of_any_release=True)
    except RulesError as error:
        raise TableError(str(error)) from error


def are_by_other_rules(store: Store, rules: Rules, window_s: int) -> bool:
    """True if the verdicts on windows of this length were given by other rules, or by a release whose memory has
    another form.
    """
    if not store.has(catalog.JUDGED):
        return False
    signatures = set(to_list(store.log(catalog.JUDGED).rows(["signature"])["signature"]))
    return _signature(rules, window_s) not in signatures and any(each.endswith(f" {window_s}") for each in signatures)


def _signature(rules: Rules, window_s: int) -> str:
    return f"{FORM} {rules.digest} {window_s}"


def replace_verdicts(
    store: Store, spans: list[Span], rules: Rules, window_s: int, judged_to: datetime | None = None
) -> bool:
    """Judges the windows from the first of these spans on, and replaces the table `verdicts`.

    Args:
        store: the tables.
        spans: of the windows that changed.
        rules: the figures of the verdicts.
        window_s: length of the windows [s]; those of another length are not judged.
        judged_to: windows that end later are left for a later run; None judges all.

    Returns:
        False if all of them are left for later.
    """
    keep_freed_memory()
    limit = None if judged_to is None else judged_to - (judged_to - EPOCH) % timedelta(seconds=window_s)
    rows, wide = store.snapshot(catalog.WINDOWS), store.files(catalog.WINDOWS)
    files = wide + _sample_files(store) + store.files(catalog.TRAFFIC)
    points = store.snapshot(catalog.POINTS)
    clients = store.snapshot(catalog.CLIENTS).table(client_columns(rules))
    signature = _signature(rules, window_s)
    kept = [
        each
        for each in store.rows(catalog.JUDGED)
        if each["signature"] == signature and each["judged_to"] <= spans[0][0]
    ]
    before = max(kept, key=lambda each: each["judged_to"], default=None)
    if limit is not None and before is not None and before["judged_to"] >= limit:
        return False  # what changed is of windows that are left for later
    memory = Memory() if before is None else Memory.of(dict(before["memory"]))
    offsets, traffic = store.snapshot(catalog.GROUP_OFFSETS), store.snapshot(catalog.TRAFFIC)
    trends: list[Table] = []
    hours = list(_hours(files, None if before is None else before["judged_to"], limit))
    if limit is not None and not hours:
        return False
    at_once = ROWS_IN_MEMORY if rules.own else _ROWS_AT_ONCE  # the points that own rules read stay in memory
    for begin, end in _together(hours, files, at_once):
        named = _named_points(points, (begin, end), rules)
        samples = _samples(offsets, (begin, end), window_s)
        with by_window(rows, wide, (begin, end), window_s) as tables:
            counted = _traffic(traffic, (begin, end), window_s)
            trends.append(judge(tables, clients, memory, rules, named, samples, counted))
        if _stays(end, hours[-1][1]):
            parts = memory.parts() | {_RULES: as_toml(rules).encode()}
            kept.append({"judged_to": end, "signature": signature, "memory": list(parts.items())})
    kept = [each for each in kept if not hours or _stays(each["judged_to"], hours[-1][1])]
    store.replace(catalog.VERDICTS, ranked(memory, rules))
    if hours:
        _replace_trends(store, (hours[0][0], hours[-1][1]), pa.concat_tables(trends))
    # Last, since its signature says that the others are done.
    store.replace(catalog.JUDGED, pa.Table.from_pylist(kept, schema=catalog.JUDGED.schema))
    return True


def _sample_files(store: Store) -> list[dict[str, Any]]:
    """Files of samples, with the times of their samples in place of windows."""
    times = {"min.window_start": "min.sampled_at", "max.window_start": "max.sampled_at"}
    return [file | {name: file[own] for name, own in times.items()} for file in store.files(catalog.GROUP_OFFSETS)]


def _samples(offsets: Snapshot, span: Span, window_s: int) -> Samples | None:
    """Samples of groups in a span and in the time before that their trends need; None without samples."""
    begin, end = span
    before = timedelta(seconds=LOOKBACK_S)
    samples = offsets.table(OFFSETS_COLUMNS, within([(begin - before, end)], "sampled_at"))
    return Samples(samples, window_s, micros_of(begin)) if samples.num_rows else None


def _traffic(traffic: Snapshot, span: Span, window_s: int) -> TrafficRows | None:
    """Traffic rows of gateways in a span and in the window before; None without rows."""
    begin, end = span
    before = timedelta(seconds=window_s)
    rows = traffic.table(TRAFFIC_COLUMNS, within([(begin - before, end)], "window_start"))
    return TrafficRows(rows, window_s, micros_of(begin)) if rows.num_rows else None


def _replace_trends(store: Store, span: Span, trends: Table) -> None:
    """Replaces the rows of GROUP_TRENDS of all windows from the first judged one on."""
    target = Target.of(store, catalog.GROUP_TRENDS, [span])
    if not trends.num_rows and not target.old:
        return
    with target.to.open() as writer:
        writer.write_table(trends)
        target.keep(writer, [span], pc.scalar(True))
        store.change(catalog.GROUP_TRENDS, add=writer.take_all(), remove=target.old)


def _stays(at: datetime, last: datetime) -> bool:
    """True for the latest end, and for those of the last hours and days, which late pushes may change."""
    is_of_hour = at == _whole_hour(at) and last - at <= _HOURS_KEPT * _HOUR
    is_of_day = at == at.replace(hour=0, minute=0, second=0) and (last - at).days <= _DAYS_KEPT
    return at == last or is_of_hour or is_of_day


def _together(hours: list[Span], files: list[dict[str, Any]], at_once: int) -> Iterator[Span]:
    """Hours with few rows, merged up to an end whose memory is kept, since files are sorted by clients and reading one
    is costly.
    """
    rows = sum(file["num_records"] for file in files)
    first, count = None, 0
    for begin, end in hours:
        first, count = first or begin, count + 1
        if (count + 1) * rows > at_once * len(hours) or _stays(end, hours[-1][1]):
            yield first, end
            first, count = None, 0


def _whole_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _hours(files: list[dict[str, Any]], begin: datetime | None, limit: datetime | None) -> Iterator[Span]:
    """Hours that may have rows, from `begin` on; the last one ends at the limit."""
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
    """Points that user-defined rules read; None without such rules."""
    if not rules.own:
        return None
    is_named = pc.field("metric_name").isin(pa.array(sorted(rules.metric_names), pa.string()))
    return points.table(POINT_COLUMNS, within([span], "received_at") & is_named)
