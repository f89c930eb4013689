"""Histograms of durations, in buckets with fixed bounds, so that Prometheus can sum them over nodes."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

EXPORT_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for the duration of an export [s]."""
FRESHNESS_BOUNDS_S: Final = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 120.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0),
)
"""Bounds for the time from the receipt of a push to its delivery [s]: up to an outage of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramStats:
    """A snapshot.

    Attributes:
        bounds: the upper ends of the buckets, each included.
        counts: number of values in each bucket, not cumulative; the last one is for values above all bounds.
        sum: sum of all values.
        largest: the largest value; 0 without values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    largest: float


class Histogram:
    """Counts values; not thread-safe."""

    __slots__ = ("_bounds", "_counts", "_largest", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._largest = 0.0

    def observe(self, values: Iterable[float]) -> None:
        """Counts each value; a negative one, from clocks that disagree, counts as 0."""
        for value in values:
            known = max(0.0, value)
            self._counts[bisect_left(self._bounds, known)] += 1
            self._sum += known
            self._largest = max(self._largest, known)

    def snapshot(self) -> HistogramStats:
        """A copy of the current counts."""
        return HistogramStats(bounds=self._bounds, counts=tuple(self._counts), sum=self._sum, largest=self._largest)


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The value below which `share` of the values lie, as `histogram_quantile` of Prometheus estimates it.

    It assumes that values are spread evenly within a bucket; above all bounds it returns the last bound. None if there
    are no values. For two values up to 1 and two up to 2:

    >>> quantile(0.5, (1.0, 2.0), (2, 2, 0)), quantile(0.75, (1.0, 2.0), (2, 2, 0)), quantile(0.5, (1.0,), (0, 0))
    (1.0, 1.5, None)
    """
    rank = share * sum(counts)
    if not rank:
        return None
    below = 0
    for index, upper in enumerate(bounds):
        if below + counts[index] >= rank:
            lower = bounds[index - 1] if index else 0.0
            return lower + (upper - lower) * (rank - below) / counts[index]
        below += counts[index]
    return bounds[-1]
