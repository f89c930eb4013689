"""pyarrow as this package uses it. Its published stubs know few of the kernels' real argument types, so mypy takes
it as untyped, here and nowhere else; the aliases say what is meant.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from typing import Any, Final, TypeAlias

import pyarrow
import pyarrow.compute
import pyarrow.parquet

pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet

Array: TypeAlias = Any
"""A `pyarrow.Array`; the name or docstring of what it is says of which type."""
RecordBatch: TypeAlias = Any
Schema: TypeAlias = Any
Table: TypeAlias = Any


_NAMES_ALLOCATOR: Final = "ARROW_DEFAULT_MEMORY_POOL"


class _NoPandas(MetaPathFinder):
    """Has `import pandas` fail."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for here", name=name)


def _leave_pandas_out() -> None:
    """Makes the first array, at which pyarrow imports pandas where it is installed: a second that no command needs.

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
    """Has Arrow allocate with jemalloc, unless it lacks it or ARROW_DEFAULT_MEMORY_POOL names another allocator.

    Its default, mimalloc, gives pages back so soon that the kernel clears them for every chunk of pushes again: a tenth
    of the time of a run and more.
    """
    if _NAMES_ALLOCATOR not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one schema, in no order, to be read once."""

    schema: Schema
    batches: Iterable[RecordBatch]


def conformed(schema: Schema, columns: Mapping[str, Array], rows: int) -> Table:
    """A table of `schema`; columns that are not given are null."""
    kinds = {field.name: field.type for field in schema}
    arrays = [columns[name].cast(kind) if name in columns else pa.nulls(rows, kind) for name, kind in kinds.items()]
    return pa.table(arrays, schema=schema)
