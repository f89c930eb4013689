"""What is computed at the end of a run from the silver tables: clients, and the gold tables.

Each is the same however often it is computed: those by window are computed anew for the days that new pushes fall on,
and replaced a day at a time; the others as a whole. So a run that was cut off here is mended by the next one.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.consumers import consumers
from fleet.gold.inventory import inventory
from fleet.gold.latency import latency
from fleet.gold.metrics import metrics
from fleet.gold.rebalances import rebalances
from fleet.gold.throttling import throttling
from fleet.gold.versions import versions
from fleet.silver.clients import clients
from fleet.tables import catalog
from fleet.tables.store import Store

WINDOWED: Final[tuple[tuple[catalog.Table, Callable[[DataFrame, int], DataFrame]], ...]] = (
    (catalog.LATENCY, latency),
    (catalog.THROTTLING, throttling),
    (catalog.REBALANCES, rebalances),
    (catalog.CONSUMERS, consumers),
)
"""POINTS and the length of a window [s] -> the table."""


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

    def refresh(self, dates: Sequence[date], now: datetime) -> None:
        """Computes what the pushes of these days change.

        Args:
            dates: days of receipt (UTC).
            now: when the states of clients are judged at.
        """
        store = self._store
        pushes = store.read(catalog.PUSHES)
        of_dates = F.col(catalog.DATE).isin(list(dates))
        known = store.read(catalog.CLIENTS) if store.has(catalog.CLIENTS) else None
        self._replace(catalog.CLIENTS, clients(pushes.where(of_dates), known, now))
        self._replace(catalog.INVENTORY, inventory(pushes, now))
        self._replace(catalog.VERSIONS, versions(store.read(catalog.CLIENTS)))
        self._replace(catalog.METRICS, metrics(store.spark))
        points = store.read(catalog.POINTS).where(of_dates)
        days = ", ".join(f"DATE'{day.isoformat()}'" for day in dates)
        for table, compute in WINDOWED:
            self._replace(table, compute(points, self._window_s), f"{catalog.DATE} IN ({days})")

    def _replace(self, table: catalog.Table, frame: DataFrame, where: str | None = None) -> None:
        self._stage(table.name)
        self._store.replace(table, frame, where)
