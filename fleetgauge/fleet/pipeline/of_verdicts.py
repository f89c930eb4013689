"""The table `verdicts`: windows judged in order, from the first changed one on.

The judge's memory is kept in the table `judged`, at the end of each of the last days and of the last hours. A run goes
on from the latest that is not after the first window that changed: the outcome is that of judging all windows at once,
however runs cut them, and a run judges an hour or two again, and more where pushes were late. A watch leaves the window
that is not over for later: what half of it said would be delivered, and change with the rest.
"""

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.engines.engine import Engine
from fleetgauge.fleet.pipeline.by_window import ROWS_IN_MEMORY, Files, by_window
from fleetgauge.fleet.pipeline.clusters import SomeClusters, divided
from fleetgauge.fleet.pipeline.memories import RULES, memory_of, signature_of
from fleetgauge.fleet.pipeline.of_windows import Target
from fleetgauge.fleet.pipeline.spans import EPOCH, Span, micros_of, within
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile
from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import client_columns
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import Rules, as_toml
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


def replace_verdicts(
    store: Store, engine: Engine, spans: list[Span], rules: Rules, window_s: int, judged_to: datetime | None = None
) -> bool:
    """Judges the windows from the first of these spans on, and replaces the table `verdicts`.

    Args:
        store: the tables.
        engine: runs the judge; a task goes from window to window, over some of the clusters where these are large.
        spans: of the windows that changed.
        rules: the figures of the verdicts.
        window_s: length of the windows [s]; those of another length are not judged.
        judged_to: windows that end later are left for a later run; None judges all.

    Returns:
        False if all of them are left for later.
    """
    limit = None if judged_to is None else judged_to - (judged_to - EPOCH) % timedelta(seconds=window_s)
    wide = store.files(catalog.WINDOWS)
    files = wide + _sample_files(store) + store.files(catalog.TRAFFIC)
    signature = signature_of(rules, window_s)
    after = _judged_before(store, signature, spans[0][0])
    if limit is not None and after is not None and after >= limit:
        return False  # what changed is of windows that are left for later
    hours = list(_hours(files, after, limit))
    if limit is not None and not hours:
        return False
    span = (hours[0][0], hours[-1][1]) if hours else (EPOCH, EPOCH)
    trends = Target.of(store, catalog.GROUP_TRENDS, [span])
    judge_clusters = _Judge(
        tables={table.name: store.snapshot(table) for table in _JUDGED_TABLES},
        wide=wide,
        rows=sum(file["num_records"] for file in files),
        rules=rules,
        window_s=window_s,
        after=after,
        write={table.name: store.files_of(table) for table in (catalog.VERDICTS, catalog.JUDGED)},
        trends=trends,
    )
    parts = divided(store.snapshot(catalog.CLIENTS).table(("cluster_id",)), engine)
    written = [file for files in engine.map(judge_clusters, [(hours, each) for each in parts]) for file in files]
    store.change(catalog.VERDICTS, add=written, remove=store.log(catalog.VERDICTS).paths())
    if hours:
        store.change(catalog.GROUP_TRENDS, add=written, remove=trends.old)
    # Last, since its signature says that the others are done.
    store.change(catalog.JUDGED, add=written, remove=store.log(catalog.JUDGED).paths())
    return True


_JUDGED_TABLES: Final = (
    *(catalog.WINDOWS, catalog.POINTS, catalog.CLIENTS),
    *(catalog.GROUP_OFFSETS, catalog.TRAFFIC, catalog.JUDGED),
)


def _judged_before(store: Store, signature: str, begin: datetime) -> datetime | None:
    """End of the windows after which the latest memory was kept that has none from `begin` on; None without one."""
    if not store.has(catalog.JUDGED):
        return None
    kept = store.log(catalog.JUDGED).rows(["signature", "judged_to"]).to_pylist()
    ends = (row["judged_to"] for row in kept if row["signature"] == signature)
    return max((end for end in ends if end <= begin), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Judges windows of some clusters, and writes verdicts, trends of groups and the judge's memory to files; a task.

    Attributes:
        tables: as they are, by name.
        wide: files of WINDOWS.
        rows: number of rows that have the windows.
        rules: the figures of the verdicts.
        window_s: length of the windows [s].
        after: end of the windows after which the memory to go on from was kept; None begins anew.
        write: where VERDICTS and JUDGED go, by name.
        trends: where the trends go.
    """

    tables: Mapping[str, Snapshot]
    wide: Files
    rows: int
    rules: Rules
    window_s: int
    after: datetime | None
    write: Mapping[str, WriteFiles]
    trends: Target

    def __call__(self, part: tuple[list[Span], SomeClusters]) -> list[WrittenFile]:
        """Files of the tables from these hours on, which have no gap but those without rows.

        The part of all other clusters has the rows of earlier hours, too.
        """
        keep_freed_memory()
        hours, of = part
        clients = self.tables[catalog.CLIENTS.name].table(client_columns(self.rules), of.where)
        kept = self._kept()
        memory = of.of(memory_of(row["memory"] for row in kept if row["judged_to"] == kept[-1]["judged_to"]))
        kept = kept if of.are_others else []
        trends: list[Table] = []
        at_once = ROWS_IN_MEMORY if self.rules.own else _ROWS_AT_ONCE  # the points that own rules read stay in memory
        for span in _together(hours, self.rows, at_once):
            trends.append(self._judged(span, of.where, clients, memory))
            if _stays(span[1], hours[-1][1]):
                parts = memory.parts() | {RULES: as_toml(self.rules).encode()}
                signature = signature_of(self.rules, self.window_s)
                kept.append({"judged_to": span[1], "signature": signature, "memory": list(parts.items())})
        kept = [each for each in kept if not hours or _stays(each["judged_to"], hours[-1][1])]
        written = _written(self.write[catalog.VERDICTS.name], ranked(memory, self.rules))
        written += _written(self.write[catalog.JUDGED.name], pa.Table.from_pylist(kept, schema=catalog.JUDGED.schema))
        if not hours:
            return written
        rest = [(hours[0][0], hours[-1][1])] if of.are_others else None
        return written + self._trends(pa.concat_tables(trends), rest)

    def _kept(self) -> list[dict[str, Any]]:
        """Memories up to the ones to go on from, which are the last."""
        if self.after is None:
            return []
        is_kept = pc.field("signature") == signature_of(self.rules, self.window_s)
        is_kept &= pc.field("judged_to") <= self.after
        rows = self.tables[catalog.JUDGED.name].table(catalog.JUDGED.schema.names, is_kept)
        kept: list[dict[str, Any]] = rows.sort_by("judged_to").to_pylist()
        return kept

    def _judged(self, span: Span, where: Any, clients: Table, memory: Memory) -> Table:
        """Trends of groups in the windows of a span, of rows that meet a condition; the memory takes them in."""
        tables = self.tables
        named = _named_points(tables[catalog.POINTS.name], span, where, self.rules)
        samples = _samples(tables[catalog.GROUP_OFFSETS.name], span, where, self.window_s)
        with by_window(tables[catalog.WINDOWS.name], self.wide, span, self.window_s, where) as windows:
            counted = _traffic(tables[catalog.TRAFFIC.name], span, where, self.window_s)
            trends: Table = judge(windows, clients, memory, self.rules, named, samples, counted)
        return trends

    def _trends(self, trends: Table, rest: list[Span] | None) -> list[WrittenFile]:
        """GROUP_TRENDS of all windows from the first judged one on, and the rows that stay: those of no span."""
        with self.trends.to.open() as writer:
            writer.write_table(trends)
            if rest is not None:
                self.trends.keep(writer, rest, pc.scalar(True))
            return writer.take_all()


def _written(to: WriteFiles, rows: Table) -> list[WrittenFile]:
    with to.open() as writer:
        writer.write_table(rows)
        return writer.take_all()


def _sample_files(store: Store) -> list[dict[str, Any]]:
    """Files of samples, with the times of their samples in place of windows."""
    times = {"min.window_start": "min.sampled_at", "max.window_start": "max.sampled_at"}
    return [file | {name: file[own] for name, own in times.items()} for file in store.files(catalog.GROUP_OFFSETS)]


def _samples(offsets: Snapshot, span: Span, where: Any, window_s: int) -> Samples | None:
    """Samples of groups in a span and in the time before that their trends need; None without samples."""
    begin, end = span
    before = timedelta(seconds=LOOKBACK_S)
    samples = offsets.table(OFFSETS_COLUMNS, within([(begin - before, end)], "sampled_at") & where)
    return Samples(samples, window_s, micros_of(begin)) if samples.num_rows else None


def _traffic(traffic: Snapshot, span: Span, where: Any, window_s: int) -> TrafficRows | None:
    """Traffic rows of gateways in a span and in the window before; None without rows."""
    begin, end = span
    before = timedelta(seconds=window_s)
    rows = traffic.table(TRAFFIC_COLUMNS, within([(begin - before, end)], "window_start") & where)
    return TrafficRows(rows, window_s, micros_of(begin)) if rows.num_rows else None


def _stays(at: datetime, last: datetime) -> bool:
    """True for the latest end, and for those of the last hours and days, which late pushes may change."""
    is_of_hour = at == _whole_hour(at) and last - at <= _HOURS_KEPT * _HOUR
    is_of_day = at == at.replace(hour=0, minute=0, second=0) and (last - at).days <= _DAYS_KEPT
    return at == last or is_of_hour or is_of_day


def _together(hours: list[Span], rows: int, at_once: int) -> Iterator[Span]:
    """Hours with few rows, merged up to an end whose memory is kept, since files are sorted by clients and reading one
    is costly.
    """
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


def _named_points(points: Snapshot, span: Span, where: Any, rules: Rules) -> Table | None:
    """Points that user-defined rules read; None without such rules."""
    if not rules.own:
        return None
    is_named = pc.field("metric_name").isin(pa.array(sorted(rules.metric_names), pa.string()))
    return points.table(POINT_COLUMNS, within([span], "received_at") & is_named & where)
