"""Computation of clients and gold tables from the silver tables, at the end of a run.

Each is the same however often it is computed: those by window are computed anew for exactly the windows that something
new falls into, activity for their days, the others as a whole. So a run that was cut off here is mended by the next
one. Tasks read what they need, a few clients at a time, and write files; each table changes in one commit, so that
whoever reads it sees whole windows. Points are not read: the wide rows of `windows` hold all that gold has of them.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from typing import Final

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import pa, pc, to_list
from fleetgauge.fleet.engines.engine import Engine
from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.gold.metrics import metrics
from fleetgauge.fleet.gold.versions import versions
from fleetgauge.fleet.pipeline.of_clients import OfClients
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.pipeline.of_windows import OF_CLIENTS, OfGroups, OfWindows, Target, files_within
from fleetgauge.fleet.pipeline.spans import Span, bounded, days, of_days, of_windows, rows_within, whole, windows
from fleetgauge.fleet.pipeline.windows import remake_windows
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile
from fleetgauge.verdicts.rules import Rules, default_rules

_PUSHES_A_CLIENT: Final = 16
"""Pushes of a client per day, about: pushes are added up while they are read, and only clients stay in memory."""

_CLIENTS_A_ROW: Final = 10
"""Rows in a task's memory for each wide row, where only the columns needed for groups are read."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Computes clients and gold tables.

    Args:
        store: the tables.
        engine: runs the tasks.
        window_s: length of a window [s].
        stage: called with the current step.
        rows_at_once: that a task holds about.
        rules: the figures of the verdicts.
    """

    store: Store
    engine: Engine
    window_s: int
    stage: Callable[[str], None]
    rows_at_once: int = shards.ROWS_AT_ONCE
    rules: Rules = field(default_factory=default_rules)

    def refresh(
        self, spans: Iterable[Span], now: datetime, remade: Collection[date] = (), judged_to: datetime | None = None
    ) -> None:
        """Computes the rows that depend on pushes of these times.

        Args:
            spans: whole windows; see `fleet.pipeline.spans`.
            now: when the states of clients are judged at.
            remade: days of these whose wide rows are made again from their points.
            judged_to: windows that end later are not yet judged; None judges all.
        """
        touched = bounded(spans)
        wanted = days(touched)
        self.stage("clients")
        self._replace_clients(wanted, now)
        self.stage(catalog.VERSIONS.name)
        clients, columns = self.store.snapshot(catalog.CLIENTS), versions().columns
        rows = pa.RecordBatchReader.from_batches(clients.schema(columns), clients.scan(columns))
        self.store.replace(catalog.VERSIONS, answer(versions(), rows))
        self._replace_metrics()
        others = self._with_other_windows(wanted)
        if again := sorted({*others, *(day for day in wanted if day in remade)}):
            self.stage(catalog.WINDOWS.name)
            remake_windows(self.store, self.engine, again, self.window_s)
        if touched:
            self._replace_windowed(bounded([*touched, *map(whole, others)]))
            self.stage(catalog.VERDICTS.name)
            replace_verdicts(self.store, self.engine, touched, self.rules, self.window_s, judged_to)

    def _replace_clients(self, wanted: list[date], now: datetime) -> None:
        store = self.store
        old = {
            catalog.CLIENTS: store.files(catalog.CLIENTS),
            catalog.ACTIVITY: store.files(catalog.ACTIVITY, wanted),
            catalog.INVENTORY: store.files(catalog.INVENTORY),
        }
        task = OfClients(
            pushes=store.snapshot(catalog.PUSHES),
            clients=store.snapshot(catalog.CLIENTS),
            activity=store.snapshot(catalog.ACTIVITY),
            days=tuple(wanted),
            now=now,
            targets=[store.files_of(table) for table in old],
        )
        pushes = sum(file["num_records"] for file in store.files(catalog.PUSHES, wanted))
        known = sum(file["num_records"] for file in old[catalog.CLIENTS])
        ranges = self._divided(known + pushes // _PUSHES_A_CLIENT)
        written = [file for files in self.engine.map(task, ranges) for file in files]
        for table, files in old.items():
            store.change(table, add=written, remove=[file["path"] for file in files])

    def _divided(self, rows: int) -> list[list[shards.Part]]:
        return shards.divided(rows, self.engine.parts, self.rows_at_once)

    def _replace_metrics(self) -> None:
        """Replaces the table of known metrics, which changes only with a release."""
        known = metrics()
        if self.store.rows(catalog.METRICS) != known.to_pylist():
            self.stage(catalog.METRICS.name)
            self.store.replace(catalog.METRICS, known)

    def _with_other_windows(self, wanted: Iterable[date]) -> list[date]:
        """Days with rows of another window length, from an earlier run or one that was interrupted."""
        # Files say their least and largest length: by two comparisons those of this one are passed over unread.
        length = pc.field("window_s")
        is_other = of_days(wanted) & ((length < self.window_s) | (length > self.window_s))
        days: set[date] = set()
        for table in (catalog.WINDOWS, catalog.GROUPS, *(table for table, _ in OF_CLIENTS)):
            for batch in self.store.snapshot(table).scan([catalog.DATE], is_other):
                days.update(to_list(batch.column(catalog.DATE).unique()))
        return sorted(days)

    def _replace_windowed(self, spans: list[Span]) -> None:
        store, rows = self.store, self.store.snapshot(catalog.WINDOWS)
        targets = tuple(Target.of(store, table, spans) for table, _ in OF_CLIENTS)
        task = OfWindows(windows=rows, spans=spans, targets=targets)
        count = rows_within(files_within(store, catalog.WINDOWS, spans), spans, self.window_s)
        written: list[WrittenFile] = []
        clients = 0
        self.stage("windows of clients")
        for files, client_rows in self.engine.map(task, self._divided(count)):
            written += files
            clients += client_rows
        for target, (table, _) in zip(targets, OF_CLIENTS, strict=True):
            store.change(table, add=written, remove=target.old)
        self.stage(catalog.GROUPS.name)
        self._replace_groups(rows, spans, clients)

    def _replace_groups(self, rows: Snapshot, spans: list[Span], clients: int) -> None:
        target = Target.of(self.store, catalog.GROUPS, spans)
        task = OfGroups(windows=rows, target=target, spans=spans)
        starts = windows(spans, self.window_s)
        parts = min(len(starts), max(1, -(-clients // (_CLIENTS_A_ROW * self.rows_at_once))))
        bounds = [len(starts) * number // parts for number in range(parts + 1)]
        some = [of_windows(starts[begin:end], self.window_s) for begin, end in pairwise(bounds)]
        jobs = [(each, each is some[0]) for each in some]
        written = [file for files in self.engine.map(task, jobs) for file in files]
        self.store.change(catalog.GROUPS, add=written, remove=target.old)
