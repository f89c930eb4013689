"""On the path of a process, shifts its wall clock by what a file says [ns]; its monotonic clock runs on.

For tests that set the clock of a running node: Python imports a module of this name at its start.
"""

import os
import time
from pathlib import Path

_OFFSET = Path(os.environ["SHIFTED_CLOCK"])
_true_time_ns = time.time_ns


def _shifted_time_ns() -> int:
    return _true_time_ns() + int(_OFFSET.read_text() or 0)


time.time_ns = _shifted_time_ns
