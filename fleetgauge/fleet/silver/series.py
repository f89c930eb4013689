"""Silver: remembered series of points (SERIES): their keys, and the last point of each."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, encoded, joined
from fleetgauge.fleet.measures.rows import Numbers, filled
from fleetgauge.fleet.schemas import INSTANCE, SERIES

_ENTRIES: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_KEYS_AT_MOST: Final = 100_000
_TEXTS: Final = ("metric_name", "metric_type", "origin", "unit")


def with_keys(series: RecordBatch) -> RecordBatch:
    """SERIES in which rows of an earlier form get present keys.

    That form remembered deltas apart from counts, and not what they add up to.
    """
    is_old = series.column("series").is_null()
    old = series.filter(is_old)
    if not len(old):
        return series
    columns = {name: old.column(name) for name in SERIES.names}
    columns["series"] = SeriesKeys().of(old, *distinct_maps(old.column("attributes")))
    is_delta = pc.equal(old.column("temporality"), "delta").fill_null(False)
    for name in ("amount", "amount_sum"):
        columns[name] = pc.if_else(is_delta, pa.scalar(None, pa.float64()), columns[name])
    return last_rows([series.filter(pc.invert(is_old)), batch_of(SERIES, len(old), columns)])


def last_rows(batches: Sequence[RecordBatch]) -> RecordBatch:
    """SERIES -> the last row of each series, by INSTANCE; the last row if several are of the same point."""
    rows = joined(batches, SERIES)
    series = (*INSTANCE, "series")
    by = (*series, "received_at", "push_id", "time_unix_nano", "point_index")
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in by])
    rows = rows.take(order)
    is_last = np.ones(len(rows), dtype=np.bool_)
    is_last[:-1] = changes([rows.column(name) for name in series])[1:]
    return rows.filter(pa.array(is_last))


def starts_run(column: Array) -> Numbers:
    """True for each value that differs from the one before, and for the first; no nulls."""
    return np.append(True, pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False))


def changes(columns: Sequence[Array]) -> Numbers:
    """True for each row that differs from the one before, and for the first."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    changed[1:] = False
    for column in columns:
        numbers = filled(column.dictionary_encode().indices, -1)
        changed[1:] |= numbers[1:] != numbers[:-1]
    return changed


def distinct_maps(maps: Array) -> tuple[Indices, list[TextMap]]:
    """Numbers equal text maps alike: the number of each map, and the maps by number."""
    lists = maps.cast(_ENTRIES)
    entries = lists.flatten()
    digits = [encoded(entries.field(name)) for name in ("key", "value")]
    item_of = digits[0][1] * len(digits[1][0]) + digits[1][1] + 1
    base = len(digits[0][0]) * len(digits[1][0]) + 1
    lengths = filled(lists.value_lengths(), 0).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    number_of = np.zeros(len(maps), dtype=np.int64)
    for position in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > position)
        number_of *= base
        number_of[rows] += item_of[starts[rows] + position]
        number_of = np.unique(number_of, return_inverse=True)[1].astype(np.int64)  # before they overflow
    _, example, number_of = np.unique(number_of, return_index=True, return_inverse=True)
    return number_of, [dict(pairs or ()) for pairs in maps.take(pa.array(example)).to_pylist()]


class SeriesKeys:
    """Computes hashes of metric, type, origin, unit, attributes and occurrence."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Any, ...], int] = {}

    def of(self, points: RecordBatch, set_of: Indices, sets: Sequence[TextMap]) -> Array:
        """Keys of points, whose attributes are `sets[set_of]`."""
        texts: dict[int, str] = {}
        values, places = zip(*(encoded(points.column(name)) for name in _TEXTS), strict=True)
        digits = [*places, set_of, numbers(points, "occurrence").astype(np.int64)]
        number = np.zeros(len(points), dtype=np.int64)
        for digit in digits:
            number = number * (int(digit.max(initial=0)) + 1) + digit
        _, first, number_of = np.unique(number, return_index=True, return_inverse=True)
        keys = np.empty(len(first), dtype=np.int64)
        for at, row in enumerate(first.tolist()):
            *texts_of, attributes, occurrence = (int(digit[row]) for digit in digits)
            if attributes not in texts:
                texts[attributes] = repr(sorted(sets[attributes].items()))
            named = [known[place] for known, place in zip(values, texts_of, strict=True)]
            keys[at] = self._key((*named, texts[attributes], occurrence))
        return pa.array(keys[number_of])

    def _key(self, labels: tuple[Any, ...]) -> int:
        key = self._keys.get(labels)
        if key is None:
            if len(self._keys) >= _KEYS_AT_MOST:
                self._keys.clear()
            digest = blake2b(repr(labels).encode(), digest_size=8).digest()
            key = self._keys[labels] = int.from_bytes(digest, "little", signed=True)
        return key


def series_numbers(instance_of: Indices, keys: Array) -> Numbers:
    """One number for each series of an instance."""
    numbers: Numbers = filled(keys, 0) ^ (instance_of * np.int64(0x1E3779B97F4A7C15))
    return numbers


def numbers(rows: RecordBatch, name: str, null: float = 0) -> Numbers:
    """A column of numbers or times, with `null` for nulls."""
    column = rows.column(name)
    column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return filled(column, null)
