"""Amounts in the data points of sums and histograms, as values that can be added and subtracted.

An amount is the content of one point, or what a series has counted so far. Amounts are immutable, and lists of JSON can
hold them. Only those of one class are combined. Points are those of protobuf's classes.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

from fleetgauge.telemetry.otlp.messages import buckets_of, number_of, total_of

_MAX_BUCKETS: Final = 320
"""Maximum of an exponential histogram's buckets on each side; twice what SDKs send. Wider ones get a coarser scale."""
_INT64: Final = range(-(1 << 63), 1 << 63)


class MalformedPointError(ValueError):
    """A point whose content makes no sense, see docs/reference/points.md."""


class Number(NamedTuple):
    """The value of a sum."""

    value: float
    """An int if all points had one."""

    @classmethod
    def of(cls, point: Any, *, is_monotonic: bool) -> Self:
        """Reads a point that has a value.

        Raises:
            MalformedPointError: it is infinite, or below 0 although it can only rise.
        """
        value = number_of(point)
        if value is None or math.isinf(value) or (is_monotonic and value < 0):
            raise MalformedPointError
        return cls(value)

    def fits(self, _earlier: Any) -> bool:
        """True if the two can be added."""
        return True

    def is_below(self, earlier: Any) -> bool:
        """True if it cannot be a later count of the same series."""
        return bool(self.value < earlier.value)

    def plus(self, other: Any) -> "Number":
        """The sum of both, which fit."""
        return Number(self.value + other.value)

    def minus(self, earlier: Any) -> "Number":
        """The growth since an earlier amount, which it is not below."""
        return Number(self.value - earlier.value)

    def put(self, point: Any) -> None:
        """Writes it into a point."""
        if isinstance(self.value, int) and self.value in _INT64:
            point.as_int = self.value
        else:
            point.as_double = self.value


class Explicit(NamedTuple):
    """The content of a histogram; `total` is the sum of its values, NaN if unknown."""

    total: float
    counts: tuple[int, ...]
    bounds: tuple[float, ...]

    @classmethod
    def of(cls, point: Any, *, is_monotonic: bool = True) -> Self:
        """Reads a point.

        Raises:
            MalformedPointError: its buckets do not fit its bounds.
        """
        buckets = buckets_of(point)
        if buckets is None:
            raise MalformedPointError
        return cls(total_of(point), *buckets)

    def fits(self, earlier: Any) -> bool:
        """See `Number.fits`."""
        return bool(self.bounds == earlier.bounds)

    def is_below(self, earlier: Any) -> bool:
        """See `Number.is_below`."""
        return self.bounds != earlier.bounds or any(map(int.__lt__, self.counts, earlier.counts))

    def plus(self, other: Any) -> "Explicit":
        """See `Number.plus`."""
        return Explicit(_sum(self.total, other.total), _added(self.counts, other.counts), self.bounds)

    def minus(self, earlier: Any) -> "Explicit":
        """See `Number.minus`."""
        return Explicit(self.total - earlier.total, _subtracted(self.counts, earlier.counts), self.bounds)

    def put(self, point: Any) -> None:
        """See `Number.put`."""
        point.count = sum(self.counts)
        if point.bucket_counts:
            point.bucket_counts[:] = self.counts
        _put_total(point, self.total)


class Buckets(NamedTuple):
    """One side of an exponential histogram."""

    offset: int
    counts: tuple[int, ...]

    def coarser(self, steps: int) -> "Buckets":
        """The buckets at a scale lower by `steps`: each step joins two neighbours."""
        if not steps or not self.counts:
            return self
        first = self.offset >> steps
        counts = [0] * (((self.offset + len(self.counts) - 1) >> steps) - first + 1)
        for index, count in enumerate(self.counts, start=self.offset):
            counts[(index >> steps) - first] += count
        return Buckets(first, tuple(counts))

    def by_index(self) -> dict[int, int]:
        """The buckets that are not empty."""
        return {index: count for index, count in enumerate(self.counts, start=self.offset) if count}

    def is_below(self, earlier: "Buckets") -> bool:
        """True if a bucket has a lower count than before."""
        mine = self.by_index()
        return any(mine.get(index, 0) < count for index, count in earlier.by_index().items())

    def span_with(self, other: "Buckets") -> range:
        """The indices of both."""
        sides = [side for side in (self, other) if side.counts]
        start = min((side.offset for side in sides), default=0)
        return range(start, max((side.offset + len(side.counts) for side in sides), default=start))

    def plus(self, other: "Buckets") -> "Buckets":
        """The sum of both, which have one scale."""
        span, mine, others = self.span_with(other), self.by_index(), other.by_index()
        return Buckets(span.start, tuple(mine.get(index, 0) + others.get(index, 0) for index in span))

    def minus(self, earlier: "Buckets") -> "Buckets":
        """The growth since an earlier count, which it is not below."""
        before = earlier.by_index()
        counts = enumerate(self.counts, start=self.offset)
        return Buckets(self.offset, tuple(count - before.get(index, 0) for index, count in counts))


class Exponential(NamedTuple):
    """The content of an exponential histogram; `total` as in `Explicit`."""

    total: float
    scale: int
    zero_threshold: float
    zero_count: int
    positive: Buckets
    negative: Buckets

    @classmethod
    def of(cls, point: Any, *, is_monotonic: bool = True) -> Self:
        """Reads a point.

        Raises:
            MalformedPointError: it has more buckets than any known SDK sends.
        """
        sides = [Buckets(side.offset, tuple(side.bucket_counts)) for side in (point.positive, point.negative)]
        if any(len(side.counts) > _MAX_BUCKETS for side in sides):
            raise MalformedPointError
        return cls(total_of(point), point.scale, point.zero_threshold, point.zero_count, *sides)

    def at(self, scale: int) -> "Exponential":
        """The histogram at a scale that is not higher."""
        steps = min(self.scale - scale, 64)  # then each side is one bucket, or two
        return self._replace(scale=scale, positive=self.positive.coarser(steps), negative=self.negative.coarser(steps))

    def fits(self, earlier: Any) -> bool:
        """See `Number.fits`."""
        return bool(self.zero_threshold == earlier.zero_threshold)

    def is_below(self, earlier: Any) -> bool:
        """See `Number.is_below`. A scale falls as values spread, and rises only with a new start."""
        if self.zero_threshold != earlier.zero_threshold or self.scale > earlier.scale:
            return True
        before = earlier.at(self.scale)
        return (
            self.zero_count < before.zero_count
            or self.positive.is_below(before.positive)
            or self.negative.is_below(before.negative)
        )

    def plus(self, other: Any) -> "Exponential":
        """See `Number.plus`."""
        scale = min(self.scale, other.scale)
        mine, others = self.at(scale), other.at(scale)
        while (
            max(len(mine.positive.span_with(others.positive)), len(mine.negative.span_with(others.negative)))
            > _MAX_BUCKETS
        ):
            scale -= 1
            mine, others = mine.at(scale), others.at(scale)
        return mine._replace(
            total=_sum(mine.total, others.total),
            zero_count=mine.zero_count + others.zero_count,
            positive=mine.positive.plus(others.positive),
            negative=mine.negative.plus(others.negative),
        )

    def minus(self, earlier: Any) -> "Exponential":
        """See `Number.minus`."""
        before = earlier.at(self.scale)
        return self._replace(
            total=self.total - before.total,
            zero_count=self.zero_count - before.zero_count,
            positive=self.positive.minus(before.positive),
            negative=self.negative.minus(before.negative),
        )

    def put(self, point: Any) -> None:
        """See `Number.put`."""
        point.count = self.zero_count + sum(self.positive.counts) + sum(self.negative.counts)
        point.scale, point.zero_count = self.scale, self.zero_count
        for side, buckets in ((point.positive, self.positive), (point.negative, self.negative)):
            side.offset = buckets.offset
            side.bucket_counts[:] = buckets.counts
        _put_total(point, self.total)


Amount = Number | Explicit | Exponential


def amount_of(fields: Sequence[Any]) -> Amount:
    """The amount whose fields JSON has kept.

    Raises:
        TypeError, ValueError: they are of none.
    """
    if len(fields) == 1:
        return Number(*fields)
    if len(fields) == 3:
        total, counts, bounds = fields
        return Explicit(total, tuple(counts), tuple(bounds))
    *numbers, positive, negative = fields
    sides = (Buckets(offset, tuple(counts)) for offset, counts in (positive, negative))
    return Exponential(*numbers, *sides)


def _put_total(point: Any, total: float) -> None:
    """Writes the sum; minimum and maximum are those of another span of time."""
    for name in ("sum", "min", "max"):
        point.ClearField(name)
    if total == total:
        point.sum = total


def _sum(counted: float, total: float) -> float:
    """The sum of both; an unknown one is left out."""
    if total != total:
        return counted
    return total if counted != counted else counted + total


def _added(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int.__add__, left, right))


def _subtracted(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int.__sub__, left, right))
