"""pyarrow and NumPy as this package uses them; the published stubs of pyarrow know few of its kernels' types."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute

Array: TypeAlias = Any
"""A `pyarrow.Array`."""
Table: TypeAlias = Any
Numbers: TypeAlias = npt.NDArray[Any]


def typed(kind: Any, *names: str) -> list[tuple[str, Any]]:
    """Columns of one type, for a schema."""
    return [(name, kind) for name in names]


def one(column: Array) -> Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def as_numpy(column: Array, null: Any = None) -> Numbers:
    """A column in one piece, with this value for null."""
    values: Numbers = (column if null is None else column.fill_null(null)).to_numpy(zero_copy_only=False)
    return values


def places_in(known: Array, column: Array) -> Numbers:
    """The place of each value among known ones, -1 for others."""
    return as_numpy(pc.index_in(column, value_set=known), -1).astype(np.int64)


def is_valid(column: Array) -> Numbers:
    """True for each value of a column in one piece that is not null."""
    validity = column.buffers()[0]
    if column.null_count in (0, len(column)):  # also of the type null, which has no buffers
        return np.full(len(column), column.null_count == 0)
    bits = np.frombuffer(validity, np.uint8)
    first = column.offset // 8
    whole = np.unpackbits(bits[first : (column.offset + len(column) + 7) // 8], bitorder="little")
    return whole[column.offset % 8 :][: len(column)].view(np.bool_)


def numbers_at(column: Array, at: Numbers) -> Numbers:
    """Some values of a column of numbers in one piece, as floating-point numbers; NaN for null."""
    if column.null_count == len(column):
        return np.full(len(at), np.nan)
    plain = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], offset=column.offset)
    numbers: Numbers = plain.to_numpy()[at].astype(np.float64, copy=False)
    if column.null_count:
        np.copyto(numbers, np.nan, where=~is_valid(column)[at])
    return numbers
