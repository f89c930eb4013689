"""Silver: what sums grew by, whatever their temporality, and where that is not the whole truth.

Points of a series are compared in the order of their receipt (`received_at`, `push_id`, `point_index`): a client's
pushes come one after the other, while its clock may be set back or forth. So what comes out does not depend on where
one run ends and the next begins, as long as pushes are read in that order; what an earlier run has overtaken is `late`.

Each instance's points come to one task, which compares a chunk of them at a time (`fleet.silver.batch`).

- `delta`: a delta as sent; of a cumulative sum, the growth since the point before. Null for a `late` point.
- `reset`: a cumulative sum began anew, so `delta` is what it grew by since, and what came before that is not known.
- `gap`: what the series grew by between the point before and this one's beginning is not known: a push is missing.
- `before_subscription`: the delta reaches back before the time that its client was asked about: a first delta (Java
  counts from the client's start), or one that covers again what was counted already.
- `late`: a later point was there before it.

Gauges have none of them, and neither has a sum of unknown temporality.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fleet.decode.arrow import Array, RecordBatch, pa, pc
from fleet.decode.attributes import TextMap
from fleet.decode.flat import Indices
from fleet.decode.rows import DECODED_ROWS, POINT_ROWS, SERIES_ROWS, batch_of, encoded
from fleet.silver.intervals import DEFAULT_PUSH_INTERVAL_MS, LONGEST_INTERVALS

_SLACK_NANO: Final = 100_000_000
"""A delta begins where the one before ended, to the millisecond in all clients known; a clock may step a little."""

_KEYS_AT_MOST: Final = 100_000
_TEXTS: Final = ("metric_name", "metric_type", "temporality")

LABELS: Final = (*_TEXTS, "attributes", "occurrence")
"""The columns of SERIES that tell one series of an instance from another, and that `series_key` is a hash of."""

_LOOKED_AT: Final = [
    name
    for name in DECODED_ROWS.names
    if name in SERIES_ROWS.names or name in ("push_interval_ms", "is_monotonic", "value", "count", "sum")
]

Numbers = npt.NDArray[Any]


@dataclass(slots=True)
class _Known:
    """The last points of series: rows of SERIES, the number of the instance of each, and whether it is of this run."""

    rows: RecordBatch = field(default_factory=lambda: pa.RecordBatch.from_pylist([], schema=SERIES_ROWS))
    instance: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    is_new: Numbers = field(default_factory=lambda: np.empty(0, np.bool_))

    def followed_by(self, other: "_Known") -> "_Known":
        rows = pa.Table.from_batches([self.rows, other.rows]).combine_chunks().to_batches()
        return _Known(
            rows[0] if rows else self.rows,
            np.concatenate([self.instance, other.instance]),
            np.concatenate([self.is_new, other.is_new]),
        )

    def take(self, indices: Numbers) -> "_Known":
        return _Known(self.rows.take(pa.array(indices)), self.instance[indices], self.is_new[indices])


class Comparison:
    """Compares the points of client instances that come one after the other, each one's in the order of receipt.

    Instances have numbers, which never fall. No more is held than the series of the instance whose points came last,
    and what is remembered of those to come.
    """

    def __init__(self) -> None:
        self._known = _Known()
        self._keys: dict[tuple[Any, ...], int] = {}

    def remember(self, instance_of: Indices, series: RecordBatch) -> None:
        """What earlier runs left of instances, before their first points.

        Args:
            instance_of: for each series the number of its instance.
            series: rows of SERIES, at least one, which may lack INSTANCE and LABELS.
        """
        rows = batch_of(SERIES_ROWS, len(series), {name: series.column(name) for name in series.schema.names})
        new = _Known(rows, instance_of, np.zeros(len(series), dtype=np.bool_))
        # Some may have had no points after all, only heartbeats.
        is_over = ~self._known.is_new & (self._known.instance < instance_of[0])
        self._known = self._known.take(np.flatnonzero(~is_over)).followed_by(new)

    def mark(
        self, points: RecordBatch, instance_of: Indices, set_of: Indices, sets: Sequence[TextMap]
    ) -> tuple[dict[str, Array], RecordBatch]:
        """Compares points with one another and with what is known.

        Args:
            points: rows of DECODED, at least one.
            instance_of: for each the number of its instance.
            set_of: for each the number of its attributes in `sets`.
            sets: distinct attributes.

        Returns:
            The columns of POINTS that say how each compares, and SERIES of the instances that no more points come of.
        """
        amount = pc.coalesce(points.column("value"), points.column("count").cast(pa.float64()))
        own = np.flatnonzero(_is_series(points, amount))
        taken = points.select(_LOOKED_AT).take(pa.array(own))
        columns = {name: taken.column(name) for name in SERIES_ROWS.names if name in taken.schema.names}
        columns["amount"], columns["amount_sum"] = amount.take(pa.array(own)), taken.column("sum")
        columns["series_key"] = self._series_keys(taken, set_of[own], sets)
        rows = batch_of(SERIES_ROWS, len(own), columns)
        before = len(self._known.instance)
        everything = self._known.followed_by(_Known(rows, instance_of[own], np.ones(len(own), dtype=np.bool_)))
        key = _numbers(everything.rows, "series_key")
        # Those known come first in `everything`, and so in each series.
        order = np.lexsort((key, everything.instance))
        is_late = _late(everything, key, order, before)
        order = order[~is_late[order]]
        marks = _judge(everything.rows, _before(everything, key, order), order, before, taken)
        is_last = np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = _begins(everything, key, order)[1:]
        settled = self._go_on(everything.take(order[is_last]), int(instance_of[-1]))
        return _columns(len(points), own, marks, is_late[before:]), settled

    def finish(self) -> RecordBatch:
        """SERIES of the instance that came last."""
        known, self._known = self._known, _Known()
        return known.take(np.flatnonzero(known.is_new)).rows

    def _go_on(self, last: _Known, current: int) -> RecordBatch:
        is_done = last.instance < current
        self._known = last.take(np.flatnonzero(~is_done))
        return last.take(np.flatnonzero(is_done & last.is_new)).rows

    def _series_keys(self, points: RecordBatch, set_of: Indices, sets: Sequence[TextMap]) -> Array:
        """Hashes of metric, type, temporality, attributes by their names, and occurrence."""
        texts: dict[int, str] = {}
        values, places = zip(*(encoded(points.column(name)) for name in _TEXTS), strict=True)
        digits = [*places, set_of, _numbers(points, "occurrence").astype(np.int64)]
        number = np.zeros(len(points), dtype=np.int64)
        for digit in digits:
            number = number * (int(digit.max(initial=0)) + 1) + digit
        _, first, number_of = np.unique(number, return_index=True, return_inverse=True)
        keys = np.empty(len(first), dtype=np.int64)
        for at, row in enumerate(first.tolist()):
            name, kind, temporality, attributes, occurrence = (int(digit[row]) for digit in digits)
            if attributes not in texts:
                texts[attributes] = repr(sorted(sets[attributes].items()))
            labels = (values[0][name], values[1][kind], values[2][temporality], texts[attributes], occurrence)
            keys[at] = self._series_key(labels)
        return pa.array(keys[number_of])

    def _series_key(self, labels: tuple[Any, ...]) -> int:
        key = self._keys.get(labels)
        if key is None:
            if len(self._keys) >= _KEYS_AT_MOST:
                self._keys.clear()
            digest = blake2b(repr(labels).encode(), digest_size=8).digest()
            key = self._keys[labels] = int.from_bytes(digest, "little", signed=True)
        return key


def _is_series(points: RecordBatch, amount: Array) -> Numbers:
    """What is remembered: no gauges, nothing without a value, and no sum of unknown temporality."""
    kind = points.column("metric_type")
    # A summary is cumulative, without saying so.
    has_growth = pc.or_(pc.equal(kind, "summary"), points.column("temporality").is_valid())
    return _flags(pc.and_(pc.and_(pc.not_equal(kind, "gauge"), has_growth), amount.is_valid()))


def _flags(column: Array) -> Numbers:
    found: Numbers = column.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _numbers(rows: RecordBatch, name: str, null: float = 0) -> Numbers:
    column = rows.column(name)
    column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found: Numbers = column.fill_null(null).to_numpy(zero_copy_only=False)
    return found


def _begins(everything: _Known, key: Numbers, order: Numbers) -> Numbers:
    """True where a series begins."""
    begins = np.ones(len(order), dtype=np.bool_)
    key, instance = key[order], everything.instance[order]
    begins[1:] = (key[1:] != key[:-1]) | (instance[1:] != instance[:-1])
    return begins


def _before(everything: _Known, key: Numbers, order: Numbers) -> Numbers:
    """For each of `order` the row before it in its series, -1 for none."""
    before = np.full(len(order), -1, dtype=np.int64)
    before[1:] = order[:-1]
    before[_begins(everything, key, order)] = -1
    return before


def _late(everything: _Known, key: Numbers, order: Numbers, known: int) -> Numbers:
    """True for each row that its series was already beyond; points of one run come in their order."""
    late = np.zeros(len(order), dtype=np.bool_)
    begins = np.flatnonzero(_begins(everything, key, order))
    first = np.repeat(order[begins], np.diff(np.append(begins, len(order))))
    received_at = _numbers(everything.rows, "received_at")
    compared = (order >= known) & (first < known)
    order, first = order[compared], first[compared]
    late[order] = received_at[order] < received_at[first]
    same = received_at[order] == received_at[first]
    ids, index = everything.rows.column("push_id"), _numbers(everything.rows, "point_index")
    for row, before in zip(order[same].tolist(), first[same].tolist(), strict=True):
        late[row] = (ids[row].as_py(), index[row]) <= (ids[before].as_py(), index[before])
    return late


def _judge(
    rows: RecordBatch, before_all: Numbers, order: Numbers, known: int, points: RecordBatch
) -> dict[str, tuple[Numbers, Numbers]]:
    """By mark: of the points in time their numbers among `points` (rows of DECODED), and what is said of each."""
    is_point = order >= known
    row, before = order[is_point], before_all[is_point]
    point = row - known
    is_first = before < 0
    is_delta = _flags(pc.equal(points.column("temporality"), "delta"))[point]
    times = {name: _numbers(rows, name) for name in ("start_time_unix_nano", "time_unix_nano", "received_at")}
    has = {name: _flags(rows.column(name).is_valid()) for name in ("start_time_unix_nano", "time_unix_nano")}
    start, end = times["start_time_unix_nano"], times["time_unix_nano"]
    has_start, has_end = has["start_time_unix_nano"], has["time_unix_nano"]
    # Clients may say any time, and a difference of two such is beyond 64 bits.
    exact = np.float64
    # From the end of the point before to the beginning of this one.
    not_covered = start[row].astype(exact) - end[before].astype(exact)
    not_covered[~(has_start[row] & has_end[before]) | is_first] = np.nan
    interval_ms = _numbers(points, "push_interval_ms", DEFAULT_PUSH_INTERVAL_MS)[point].astype(np.int64)
    longest_nano = interval_ms * int(LONGEST_INTERVALS * 1_000_000)
    amounts = {"delta": _numbers(rows, "amount", np.nan), "delta_sum": _numbers(rows, "amount_sum", np.nan)}

    is_monotonic = _flags(pc.coalesce(points.column("is_monotonic"), pc.not_equal(points.column("metric_type"), "sum")))
    fell = is_monotonic[point] & (amounts["delta"][row] < amounts["delta"][before])
    began_anew = has_start[row] & has_start[before] & (start[row] > start[before]) & (not_covered >= 0)
    reset = ~is_delta & ~is_first & (fell | began_anew)

    push_is_missing = (times["received_at"][row] - times["received_at"][before]) * 1000 > longest_nano
    gap = np.where(is_delta, (not_covered > _SLACK_NANO) | (np.isnan(not_covered) & push_is_missing), push_is_missing)

    reach = end[row].astype(exact) - start[row].astype(exact)
    first_reaches_back = ~(has_start[row] & has_end[row]) | (reach > longest_nano)
    before_subscription = np.where(is_first, first_reaches_back, is_delta & (not_covered < -_SLACK_NANO))

    # A first cumulative value is what was counted since its start, and `before_subscription` says so.
    is_whole = is_delta | is_first | reset
    marks = {"reset": reset, "gap": ~is_first & gap, "before_subscription": before_subscription}
    for name, amount in amounts.items():
        with np.errstate(invalid="ignore"):  # infinity less infinity: nothing can be said
            marks[name] = np.where(is_whole, amount[row], amount[row] - amount[before])
    return {name: (point, said) for name, said in marks.items()}


def _columns(count: int, own: Numbers, marks: dict[str, tuple[Numbers, Numbers]], late: Numbers) -> dict[str, Array]:
    """The marks as columns over all points."""
    placed = {name: (own[point], said) for name, (point, said) in marks.items()} | {"late": (own, late)}
    columns = {}
    for name, (rows, said) in placed.items():
        values = np.zeros(count, dtype=said.dtype)
        is_null = np.ones(count, dtype=np.bool_)
        values[rows], is_null[rows] = said, np.isnan(said) if said.dtype == np.float64 else False
        columns[name] = pa.array(values, POINT_ROWS.field(name).type, mask=is_null)
    return columns
