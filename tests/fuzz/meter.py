"""What one input costs, in figures that a busy machine does not change: lines of our code, and memory at its peak."""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

_PRODUCT: Final = f"{Path(__file__).parents[2] / 'fleetgauge'}/"


def steps_of(run: Callable[[], None]) -> int:
    """Lines of the product that `run` executes."""
    steps = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(_PRODUCT) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run()
    finally:
        sys.settrace(before)
    return steps


def peak_bytes_of(run: Callable[[], None]) -> int:
    """The most that Python holds during `run` beyond what it held before [B]."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
