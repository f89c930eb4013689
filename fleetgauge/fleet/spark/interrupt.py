"""Ctrl-C during a command: one line and exit code 130, whatever Spark is doing.

PySpark's own handler calls the JVM over the very connection that waits for an answer, which then ends in a traceback of
py4j or never. So the process ends at once, as after `kill -9`, which every job survives; the JVM ends by itself when it
finds its standard input closed.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rich.console import Console

EXIT_INTERRUPTED: Final = 130
"""128 plus the number of SIGINT, as in shells."""

_CLEAR_PROGRESS: Final = b"\r\x1b[2K\x1b[?25h"
"""Clears the progress line, and shows the cursor again."""


@contextmanager
def ends_when_interrupted(notes: Console) -> Iterator[None]:
    """Ends the process at SIGINT within the context; an ignored SIGINT (`nohup`, background jobs) stays ignored."""
    clear = _CLEAR_PROGRESS if notes.is_terminal else b""

    def end(number: int, frame: FrameType | None) -> None:
        os.write(2, clear + b"interrupted\n")
        os._exit(EXIT_INTERRUPTED)

    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with handling([] if is_ignored else [signal.SIGINT], end):
        yield


@contextmanager
def handling(numbers: Sequence[int], handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handles signals within the context; a no-op in threads other than the main one."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in numbers if is_main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def keeps_its_handler() -> Iterator[None]:
    """Restores the handler of SIGINT after Spark's start, which replaces it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_ours = before not in (signal.default_int_handler, signal.SIG_DFL, None)
    if is_ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
