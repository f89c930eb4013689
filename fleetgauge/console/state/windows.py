"""Wide rows of minutes that are not over, and rows for the judge of those that are."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.measures.rows import KEY, codes, numbered
from fleetgauge.fleet.pipeline.by_window import SOURCES, judged_of
from fleetgauge.fleet.pipeline.spans import LIVE_WINDOW_S
from fleetgauge.fleet.schemas import INSTANCE

WINDOW_S: Final = LIVE_WINDOW_S
WINDOW_US: Final = WINDOW_S * 1_000_000
MOST_OPEN: Final = 5
"""Most minutes that wait for late pushes; beyond that, the oldest are closed."""


_OF_LINKS: Final = (
    "date", "window_s", *KEY, "seen_at", "seen_push_id", "request_latency_avg_ms_sum", "request_latency_avg_ms_count",
)  # fmt: skip


class OpenWindows:
    """Partial wide rows by window, in the judged columns; for links only their latency."""

    rows_at_once: int = 20_000
    """Rows merged at once; each takes about 2 kB meanwhile."""

    def __init__(self) -> None:
        self._clients: dict[int, list[Table]] = {}
        self._links: dict[int, list[Table]] = {}
        self._closed_us = 0

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, rows: Table) -> None:
        """Adds partial ROWS. Those of closed windows are dropped."""
        for start, of_window in by_window_start(rows):
            if start >= self._closed_us:
                is_link = pc.is_valid(of_window["role"])
                self._clients.setdefault(start, []).append(of_window.filter(pc.invert(is_link)).select(SOURCES))
                self._links.setdefault(start, []).append(of_window.filter(is_link).select(_OF_LINKS))

    def close(self, read_up_to_us: int) -> Iterator[tuple[int, Table]]:
        """Windows that ended before this time, by their beginnings [us], as `verdicts.window.COLUMNS`."""
        for start in sorted(self._clients):
            if start + WINDOW_US > read_up_to_us and len(self._clients) <= MOST_OPEN:
                return
            self._closed_us = start + WINDOW_US
            tables = [*self._merged(self._clients.pop(start)), *self._merged(self._links.pop(start))]
            yield start, pa.concat_tables(tables)

    def clear(self) -> None:
        """Removes everything, after the clock was set back."""
        self._clients.clear()
        self._links.clear()
        self._closed_us = 0

    def _merged(self, parts: list[Table]) -> Iterator[Table]:
        """Rows for the judge from partial ones, some instances at a time."""
        rows = pa.concat_tables(parts).combine_chunks()
        if rows.num_rows <= self.rows_at_once:
            yield judged_of(rows)
            return
        instance_of, _, count = numbered([codes(rows[name]) for name in INSTANCE])
        order = np.argsort(instance_of, kind="stable")
        ends = np.cumsum(np.bincount(instance_of, minlength=count))
        begin = 0
        while begin < len(order):
            first, most = np.searchsorted(ends, [begin, begin + self.rows_at_once], side="right").tolist()
            end = int(ends[max(first, most - 1)])  # whole instances, at least one
            yield judged_of(rows.take(order[begin:end]))
            begin = end


def by_window_start(rows: Table) -> Iterator[tuple[int, Table]]:
    """The rows of each window, by its beginning [us]."""
    starts = rows["window_start"].cast(pa.int64())
    for start in sorted(pc.unique(starts).to_pylist()):
        yield start, rows.filter(pc.equal(starts, start))
