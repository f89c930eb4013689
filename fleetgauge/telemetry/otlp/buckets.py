"""Buckets of histogram points as both the Prometheus page and the tables compare and add them.

The standard library alone.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final

GRID: Final = tuple(2.0**exponent for exponent in range(-20, 44))
"""Bounds of the classic histogram that replaces an exponential one. They are powers of two, because the buckets of
every scale lie within such bounds: pushes of different scales add up without loss."""


def are_buckets(counts: Sequence[float], bounds: Sequence[float]) -> bool:
    """True if there is one more count than bounds, and the bounds are finite and rise."""
    rising = all(low < high for low, high in itertools.pairwise(bounds))
    return len(counts) == len(bounds) + 1 and rising and all(map(math.isfinite, bounds))


def on_grid(
    scale: int, zero_count: float, zero_threshold: float, below_zero: float, offset: int, counts: Sequence[float]
) -> list[float]:
    """Counts of the buckets of `GRID`, one more than its bounds. Values up to 0 are in the lowest one.

    Args:
        scale: the exponential histogram's: a bucket ends at 2^(2^-scale) times its beginning.
        zero_count: number of values of at most `zero_threshold`.
        zero_threshold: the upper end of the zero bucket.
        below_zero: number of negative values.
        offset: index of the first positive bucket; bucket `i` ends at 2^((i + 1) / 2^scale).
        counts: of the positive buckets.
    """
    found = [0.0] * (len(GRID) + 1)
    found[next((place for place, bound in enumerate(GRID) if zero_threshold <= bound), len(GRID))] += zero_count
    found[0] += below_zero
    for index, count in enumerate(counts, start=offset):
        if count:
            # The bucket's end, rounded up to the next power of two.
            exponent = -((-(index + 1)) >> scale) if scale >= 0 else (index + 1) << min(-scale, 16)
            found[min(max(exponent + 20, 0), len(GRID))] += count
    return found
