"""What is computed at the end of a run from the silver tables: clients, and the gold tables.

Each is the same however often it is computed: those by window are computed anew for the windows from the first to the
last new push of a day, and replaced; the others as a whole. So a run that was cut off here is mended by the next one.
What it costs goes by the new pushes, their days' pushes, and the number of clients. Points are not read: the wide rows
of `windows` hold all that gold has of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from fleet.decode.arrow import Table
from fleet.gold import frames
from fleet.gold.inventory import by_day, total
from fleet.gold.latency import latency
from fleet.gold.members import consumers, groups, rebalances
from fleet.gold.metrics import metrics
from fleet.gold.throttling import throttling
from fleet.gold.versions import versions
from fleet.pipeline.spans import Span, of_days, of_windows, whole, within
from fleet.silver.clients import clients
from fleet.tables import catalog
from fleet.tables.store import Store

_OF_CLIENTS: Final[tuple[tuple[catalog.Table, Callable[[Table], Table]], ...]] = (
    (catalog.LATENCY, latency),
    (catalog.THROTTLING, throttling),
    (catalog.REBALANCES, rebalances),
    (catalog.CONSUMERS, consumers),
)
"""Merged wide rows -> the table."""


class Answers:
    """Computes them.

    Args:
        store: the tables.
        window_s: length of a window [s].
        stage: told what is being done.
    """

    def __init__(self, store: Store, window_s: int, stage: Callable[[str], None]) -> None:
        self._store = store
        self._window_s = window_s
        self._stage = stage

    def refresh(self, spans: Mapping[date, Span], now: datetime, remade: Collection[date] = ()) -> None:
        """Computes what the pushes of these times change.

        Args:
            spans: by the day of receipt (UTC).
            now: when the states of clients are judged at.
            remade: days of these whose wide rows are made again from their points.
        """
        store = self._store
        pushes = store.read(catalog.PUSHES)
        known = store.read(catalog.CLIENTS) if store.has(catalog.CLIENTS) else None
        self._replace(catalog.CLIENTS, clients(pushes.where(within(spans, "received_at")), known, now))
        self._replace_inventory(pushes, spans, now)
        self._replace(catalog.VERSIONS, versions(store.read(catalog.CLIENTS)))
        self._replace_metrics()
        store.make(catalog.WINDOWS)
        others = self._with_other_windows(spans)
        if days := {*(day for day in spans if day in remade), *others}:
            self._remake_windows(sorted(days))
        windows = {day: of_windows(span, self._window_s) for day, span in spans.items()}
        self._replace_windowed(windows | {day: whole(day) for day in others})

    def _replace_windowed(self, spans: Mapping[date, Span]) -> None:
        where = within(spans, "window_start")
        rows = frames.merged(self._store.read(catalog.WINDOWS).where(where)).persist(StorageLevel.DISK_ONLY)
        try:
            for table, project in _OF_CLIENTS:
                self._replace(table, frames.projected(rows, project, table.schema), where)
            self._replace(catalog.GROUPS, frames.by_group(rows, groups, catalog.GROUPS.schema), where)
        finally:
            rows.unpersist()

    def _remake_windows(self, days: Iterable[date]) -> None:
        """Makes the wide rows of whole days from their points."""
        where = of_days(days)
        self._store.make(catalog.POINTS)
        points = self._store.read(catalog.POINTS).where(where)
        self._replace(catalog.WINDOWS, frames.partials(points, self._window_s), where)

    def _with_other_windows(self, days: Iterable[date]) -> list[date]:
        """The days that have rows of windows of another length: of an earlier run, or of one that was cut off."""
        gold = (catalog.GROUPS, *(table for table, _ in _OF_CLIENTS))
        tables = (catalog.WINDOWS, *(table for table in gold if self._store.has(table)))
        is_other = F.col("window_s") != self._window_s
        found = [self._store.read(table).where(of_days(days)).where(is_other).select("date") for table in tables]
        return [row.date for row in reduce(DataFrame.union, found).distinct().collect()]

    def _replace_inventory(self, pushes: DataFrame, spans: Mapping[date, Span], now: datetime) -> None:
        """Adds up the days; tables of an earlier release do not have them yet."""
        if self._store.has(catalog.ACTIVITY):
            days = of_days(spans)
            self._replace(catalog.ACTIVITY, by_day(pushes.where(days)), days)
        else:
            self._replace(catalog.ACTIVITY, by_day(pushes))
        self._replace(catalog.INVENTORY, total(self._store.read(catalog.ACTIVITY), now))

    def _replace_metrics(self) -> None:
        """What clients are known to send changes with a release alone."""
        known = metrics(self._store.spark)
        if not self._store.has(catalog.METRICS) or _rows(self._store.read(catalog.METRICS)) != _rows(known):
            self._replace(catalog.METRICS, known)

    def _replace(self, table: catalog.Table, frame: DataFrame, where: str | None = None) -> None:
        self._stage(table.name)
        self._store.replace(table, frame, where)


def _rows(few: DataFrame) -> set[str]:
    return {str(row) for row in few.collect()}
