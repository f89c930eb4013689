"""pyarrow as this package uses it. Its published stubs know few of the kernels' real argument types, so mypy takes
it as untyped, here and nowhere else; the aliases say what is meant.
"""

from typing import Any, TypeAlias

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
