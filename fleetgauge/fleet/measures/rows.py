"""Wide rows: their schema, and the same rows as matrices of numbers, in which they are added.

What is added up is kept in whole numbers, so that it comes out the same in whatever order rows meet: averages in
millionths of their unit, growth in thousandths of its. Sums of floating-point numbers do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fleetgauge.fleet.arrow import Array, Table, conformed, pa, pc
from fleetgauge.fleet.measures.catalogue import FAMILIES, MARKED, MARKS, MEASURES
from fleetgauge.fleet.schemas import INSTANCE, TIME, schema_of

Numbers = npt.NDArray[Any]

WINDOW: Final = (*INSTANCE, "window_start")
"""Columns that identify a window of a client."""
KEY: Final = (*WINDOW, "role", "node_id", "coordinator", "topic")
"""Columns that identify a row: a client's row has none of the last four, a link's has `role`, node and coordinator, a
topic's has `topic`.
"""

AVG_UNITS: Final = 1_000_000
GROWTH_UNITS: Final = 1_000
_SPARSE: Final = 8
"""Up to this ratio of keys to rows, rows are numbered without sorting, in a tenth of the time."""
NOTHING: Final = np.iinfo(np.int64).min
"""Stands for "no time"."""

IDENTITY: Final = ("client_id", "client_software_name", "client_software_version", "dialect", "push_interval_ms")
"""Columns taken from the latest push of the window, the one at `seen_at` with `seen_push_id`."""
MEMBER: Final = ("group_id", "group_member_id")
"""Columns taken from the latest push of the window that names a group."""
LAG_COLUMNS: Final = ("lag_at", "lag_push_id", "lag_partitions")
_PARTITIONS: Final = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("lag", pa.float64())]))

COUNTS: Final = (
    "pushes",
    "points",
    *(f"{family}_pushes" for family in FAMILIES),
    *(f"{family}_{mark}_points" for family in MARKED for mark in MARKS),
    *(measure.column for measure in MEASURES if measure.over in ("samples", "positive")),
)
SUMS: Final = tuple(measure.column for measure in MEASURES if measure.over in ("avg", "growth"))
TOPS: Final = tuple(measure.column for measure in MEASURES if measure.over in ("max", "min"))
LASTS: Final = tuple(measure.column for measure in MEASURES if measure.over == "last")
MINIMA: Final = np.array([measure.over == "min" for measure in MEASURES if measure.column in TOPS])

ROWS: Final = schema_of(
    ("date", pa.date32()),
    ("window_start", TIME),
    ("window_s", pa.int32()),
    *((name, pa.string()) for name in INSTANCE),
    ("role", pa.string()),
    ("node_id", pa.int32()),
    ("coordinator", pa.bool_()),
    ("topic", pa.string()),
    ("seen_at", TIME),
    ("seen_push_id", pa.string()),
    *((name, pa.int32() if name == "push_interval_ms" else pa.string()) for name in IDENTITY),
    *(column for name in MEMBER for column in ((name, pa.string()), (f"{name}_at", TIME))),
    *((name, pa.int64()) for name in COUNTS),
    *((f"{name}_{part}", pa.int64()) for name in SUMS for part in ("sum", "count")),
    *((name, pa.float64()) for name in TOPS),
    *(column for name in LASTS for column in ((name, pa.float64()), (f"{name}_at", TIME))),
    *zip(LAG_COLUMNS, (TIME, pa.string(), _PARTITIONS), strict=True),
)
"""Partial wide rows, and merged ones: a client, link or topic and window of receipt.

Null is nothing, in sums as elsewhere. `X_sum` of an average is in millionths, of growth in thousandths of the unit;
`X_count` is the number of values in it. A row that corrects others has negative ones.
"""

NUMBERS: Final = frozenset(
    (
        *COUNTS,
        *(f"{name}_{part}" for name in SUMS for part in ("sum", "count")),
        *TOPS,
        *LASTS,
        *(f"{name}_at" for name in LASTS),
    )
)
"""The columns of ROWS that a `Block` has."""


@dataclass(slots=True)
class Block:
    """Numbers of wide rows, one row each.

    Nothing is 0 in `counts`, `sums` and `numbers` (how many values a sum has), -inf in `tops` (minima are negative
    here) and `lasts`, and `NOTHING` in `lasts_at` [us].
    """

    counts: Numbers
    sums: Numbers
    numbers: Numbers
    tops: Numbers
    lasts: Numbers
    lasts_at: Numbers

    @classmethod
    def empty(cls, rows: int) -> "Block":
        """Rows without values."""
        return cls(
            counts=np.zeros((rows, len(COUNTS)), np.int64),
            sums=np.zeros((rows, len(SUMS)), np.int64),
            numbers=np.zeros((rows, len(SUMS)), np.int64),
            tops=np.full((rows, len(TOPS)), -np.inf),
            lasts=np.full((rows, len(LASTS)), -np.inf),
            lasts_at=np.full((rows, len(LASTS)), NOTHING),
        )

    @classmethod
    def of(cls, rows: Table) -> "Block":
        """Numbers of ROWS."""
        return cls(
            counts=_matrix(rows, COUNTS),
            sums=_matrix(rows, [f"{name}_sum" for name in SUMS]),
            numbers=_matrix(rows, [f"{name}_count" for name in SUMS]),
            tops=np.where(MINIMA, -1.0, 1.0) * _matrix(rows, TOPS, nothing=np.where(MINIMA, np.inf, -np.inf)),
            lasts=_matrix(rows, LASTS, nothing=np.full(len(LASTS), -np.inf)),
            lasts_at=np.stack([times(rows[f"{name}_at"]) for name in LASTS], axis=1),
        )

    def followed_by(self, other: "Block") -> "Block":
        """These rows, followed by others."""
        return Block(*(np.concatenate([getattr(block, each.name) for block in (self, other)]) for each in fields(self)))

    def merged(self, groups: "Groups") -> "Block":
        """One row per group."""
        lasts, lasts_at = groups.last(self.lasts, self.lasts_at)
        return Block(
            counts=groups.sum(self.counts),
            sums=groups.sum(self.sums),
            numbers=groups.sum(self.numbers),
            tops=groups.top(self.tops),
            lasts=lasts,
            lasts_at=lasts_at,
        )

    def has_any(self) -> Numbers:
        """True for each row with any value."""
        counted = (np.any(each != 0, axis=1) for each in (self.counts, self.sums, self.numbers))
        topped = (np.any(each > -np.inf, axis=1) for each in (self.tops, self.lasts))
        any_value: Numbers = np.logical_or.reduce([*counted, *topped])
        return any_value

    def columns(self) -> dict[str, Array]:
        """The columns of ROWS that have numbers."""
        columns = {name: pa.array(column, mask=column == 0) for name, column in zip(COUNTS, self.counts.T, strict=True)}
        nothing = (self.numbers == 0) & (self.sums == 0)
        for at, name in enumerate(SUMS):
            columns[f"{name}_sum"] = pa.array(self.sums[:, at], mask=nothing[:, at])
            columns[f"{name}_count"] = pa.array(self.numbers[:, at], mask=nothing[:, at])
        tops = np.where(MINIMA, -1.0, 1.0) * self.tops
        for at, name in enumerate(TOPS):
            columns[name] = pa.array(tops[:, at], mask=np.isinf(tops[:, at]))
        for at, name in enumerate(LASTS):
            columns[name] = pa.array(self.lasts[:, at], mask=np.isinf(self.lasts[:, at]))
            columns[f"{name}_at"] = time_column(self.lasts_at[:, at])
        return columns


@dataclass(slots=True)
class Groups:
    """Rows grouped for merging: the group of each row, an order that keeps a group together, and the begin of each
    group.
    """

    group_of: Numbers
    order: Numbers
    begins: Numbers
    is_ordered: bool

    @classmethod
    def by(cls, group_of: Numbers, count: int) -> "Groups":
        """`group_of` has each number below `count`."""
        order = np.argsort(group_of, kind="stable")
        in_order = group_of[order]
        return cls(group_of, order, np.searchsorted(in_order, np.arange(count)), np.array_equal(in_order, group_of))

    def __len__(self) -> int:
        return len(self.begins)

    def sum(self, values: Numbers) -> Numbers:
        """Sum of each group."""
        return np.add.reduceat(self._ordered(values), self.begins, axis=0)

    def top(self, values: Numbers) -> Numbers:
        """Maximum of each group."""
        return np.maximum.reduceat(self._ordered(values), self.begins, axis=0)

    def _ordered(self, values: Numbers) -> Numbers:
        return values if self.is_ordered else values[self.order]

    def last(self, values: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Latest value of each group and column, and its time; at equal times the larger."""
        latest = self.top(at)
        return self.top(np.where(at == latest[self.group_of], values, -np.inf)), latest

    def latest(self, at: Numbers, ids: Array) -> Numbers:
        """Row with the latest time in each group, and of these the greatest id; any row if none has a time."""
        latest = self.top(at)
        rows = np.flatnonzero((at == latest[self.group_of]) & (at != NOTHING))
        groups = self.group_of[rows]
        if len(rows) > np.count_nonzero(latest != NOTHING):  # times that are the same
            by_rank = np.lexsort((rank_of(ids.take(pa.array(rows))), groups))
            rows, groups = rows[by_rank], groups[by_rank]
        row_of = self.order[self.begins]
        row_of[groups] = rows  # the last of each counts
        return row_of


def _matrix(rows: Table, names: Sequence[str], nothing: Numbers | None = None) -> Numbers:
    fill = np.zeros(len(names), np.int64) if nothing is None else nothing
    columns = (filled(rows[name], value) for name, value in zip(names, fill.tolist(), strict=True))
    return np.stack(list(columns), axis=1)


def filled(column: Array, value: float) -> Numbers:
    """A column of numbers, with `value` for null."""
    column = one(column)
    values: Numbers = (column.fill_null(value) if column.null_count else column).to_numpy(zero_copy_only=False)
    return values


def is_valid(column: Array) -> Numbers:
    """True for each value that is not null."""
    return filled(one(column).is_valid(), False)


def equals(column: Array, text: str) -> Numbers:
    """True for each value that is this text."""
    return filled(pc.equal(one(column), text), False)


def times(column: Array) -> Numbers:
    """Times [us since the epoch], `NOTHING` for null."""
    return filled(one(column).cast(pa.int64()), NOTHING)


def time_column(micros: Numbers) -> Array:
    """A column of times from such numbers."""
    return pa.array(micros, mask=micros == NOTHING).cast(TIME)


def one(column: Array) -> Array:
    """A column as one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def encoded(column: Array) -> Array:
    """A column with dictionary encoding."""
    column = one(column)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def codes(column: Array) -> Numbers:
    """A number for each value of a column, equal for equal values; -1 for null."""
    return filled(encoded(column).indices, -1).astype(np.int64)


def rank_of(column: Array) -> Numbers:
    """Rank of each text among the distinct ones; -1 for null."""
    column = encoded(column)
    texts = column.dictionary.to_pylist()
    rank = np.full(len(texts) + 1, -1)
    rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return rank[filled(column.indices, -1)]


def numbered(columns: Sequence[Numbers]) -> tuple[Numbers, Numbers, int]:
    """Numbers rows by the values of several columns.

    Returns:
        The number of each row's values, a row that has each, and how many there are.
    """
    number = np.zeros(len(columns[0]), np.int64)
    count = 1
    for column in columns if len(number) else ():
        low, high = int(column.min()), int(column.max())
        digits = high - low + 1
        if digits * count > 2**62:
            number, count = np.unique(number, return_inverse=True)[1], len(number)
            if digits * count > 2**62:
                column, low = np.unique(column, return_inverse=True)[1], 0
                digits = len(column)
        number = number * digits + (column - low)
        count *= digits
    if count > _SPARSE * len(number):
        _, first, group_of = np.unique(number, return_index=True, return_inverse=True)
        return group_of, first, len(first)
    is_there = np.bincount(number, minlength=count) > 0
    group_of = (np.cumsum(is_there) - 1)[number]
    first = np.zeros(np.count_nonzero(is_there), np.int64)
    first[group_of[::-1]] = np.arange(len(number))[::-1]
    return group_of, first, len(first)


def exact_sums(values: Numbers, group_of: Numbers, count: int) -> Numbers:
    """The sum of each group, the same in whatever order values come: they are added up as whole thousandths."""
    total = np.zeros(count, np.int64)
    np.add.at(total, group_of, np.rint(values * GROWTH_UNITS).astype(np.int64))
    return total / GROWTH_UNITS


def table_of(columns: Mapping[str, Array], block: Block) -> Table:
    """ROWS from these columns and numbers; columns that are not given are null."""
    return conformed(ROWS, {**columns, **block.columns()}, len(block.counts))
