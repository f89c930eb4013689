"""pyarrow as this package uses it, with types by pyarrow-stubs.

Two things stay untyped. Kernels (`pc`): the stubs refuse what most of them take, such as a plain text beside a column.
Columns (`Array`), which are arrays or chunked arrays of a type that no name here says.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

__all__ = ["Array", "RecordBatch", "Schema", "SortKeys", "Table", "pa", "pc", "pq"]

pc: Any = pyarrow.compute

Array: TypeAlias = Any
"""A `pyarrow.Array`, or a `ChunkedArray` where a table's column is meant; the name or docstring says of which type."""
RecordBatch: TypeAlias = pa.RecordBatch
Schema: TypeAlias = pa.Schema
Table: TypeAlias = pa.Table
SortKeys: TypeAlias = list[tuple[str, Literal["ascending", "descending"]]]


_NAMES_ALLOCATOR: Final = "ARROW_DEFAULT_MEMORY_POOL"
_KEPT_MS: Final = 10_000
"""Time that freed memory is kept for the next chunk [ms]."""


class _NoPandas(MetaPathFinder):
    """Makes `import pandas` fail."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for here", name=name)


def _leave_pandas_out() -> None:
    """Makes the first array. At that moment pyarrow imports pandas where it is installed, which takes a second that no
    command needs.

    pyarrow tries once, to know arrays of pandas when it sees them; its conversions to pandas still import it.
    """
    finder: Final = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


_leave_pandas_out()


def allocate_with_jemalloc() -> None:
    """Makes Arrow allocate with jemalloc, unless jemalloc is missing or ARROW_DEFAULT_MEMORY_POOL names another
    allocator.

    Its default, mimalloc, gives pages back so soon that the kernel clears them for every chunk of pushes again: a tenth
    of the time of a run and more. So does jemalloc as Arrow sets it up.
    """
    if _NAMES_ALLOCATOR not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(_KEPT_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one schema, in no order, that can be read once."""

    schema: Schema
    batches: Iterable[RecordBatch]


def to_list(column: Array) -> list[Any]:
    """The values of a column as Python has them, None for null: the stubs call every value optional."""
    values: list[Any] = column.to_pylist()
    return values


def conformed(schema: Schema, columns: Mapping[str, Array], rows: int) -> Table:
    """A table of `schema`; columns that are not given are null."""
    kinds = {field.name: field.type for field in schema}
    arrays = [columns[name].cast(kind) if name in columns else pa.nulls(rows, kind) for name, kind in kinds.items()]
    return pa.table(arrays, schema=schema)
