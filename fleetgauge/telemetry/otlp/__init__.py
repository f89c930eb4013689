"""OTLP's bytes without protobuf's objects: `check` a payload's form, `schema` the fields that the check knows.

Both are made to be compiled by mypyc. As plain Python they are slower than protobuf's parser in C, so callers use them
where `IS_COMPILED`, and protobuf's classes elsewhere; the results are the same.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

_spec = find_spec("fleetgauge.telemetry.otlp.check")
IS_COMPILED: Final = _spec is not None and str(_spec.origin).endswith(tuple(EXTENSION_SUFFIXES))
"""True if this is a build in which mypyc has compiled this package."""
