"""A deadline for work that has none: a library's own timeout starts anew with every byte.

The work is done by a thread of its own, which is left alone at the deadline: neither a name service nor a library that
waits can hold up the caller, nor its handlers of signals.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

_LOOK_EVERY_S: Final = 1.0
"""A signal may be given to any thread, and its handler runs once the main thread looks up from its wait."""

_running: Final[set[Future[Any]]] = set()


def in_thread(work: Callable[[], _Result]) -> "Future[_Result]":
    """Does the work in a daemon thread.

    Raises:
        RuntimeError: the system gives no further thread now.
    """
    done: Future[_Result] = Future()
    # Before the thread begins: Ctrl-C may come at any moment.
    _running.add(done)
    done.add_done_callback(_running.discard)

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised where the result is wanted
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def result_within(seconds: float, done: "Future[_Result]") -> _Result:
    """Returns the result of work in a thread.

    Raises:
        TimeoutError: it is not done within `seconds` [s].
    """
    left_s = seconds
    while not wait([done], min(left_s, _LOOK_EVERY_S)).done:
        left_s -= _LOOK_EVERY_S
        if left_s <= 0:
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    return done.result()


def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Returns the result of the work, see `result_within`."""
    return result_within(seconds, in_thread(work))


def is_any_running() -> bool:
    """True while such a thread runs: as the process ends, a library in C may hold it up for one."""
    return bool(_running)
