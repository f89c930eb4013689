"""pyarrow and NumPy as this package uses them; the published stubs of pyarrow know few of its kernels' types."""

from typing import Any, TypeAlias

import numpy.typing as npt
import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute

Array: TypeAlias = Any
"""A `pyarrow.Array`."""
Table: TypeAlias = Any
Numbers: TypeAlias = npt.NDArray[Any]
