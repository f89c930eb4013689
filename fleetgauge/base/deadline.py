"""A deadline for work that has none: a library's own timeout starts anew with every byte.

The work is done by a thread of its own, which is left alone at the deadline: neither a name service nor a library that
waits can hold up the caller, nor its handlers of signals.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

_left_alone: Final[set[Future[Any]]] = set()


def in_thread(work: Callable[[], _Result]) -> "Future[_Result]":
    """Does the work in a daemon thread.

    Raises:
        RuntimeError: the system gives no further thread now.
    """
    done: Future[_Result] = Future()

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
    try:
        return done.result(seconds)
    except BaseException as error:  # of the work, or what ended the wait: the deadline, Ctrl-C
        if done.done():
            raise
        _left_alone.add(done)
        done.add_done_callback(_left_alone.discard)
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"no whole answer within {seconds:g} s") from None
        raise


def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Returns the result of the work, see `result_within`."""
    return result_within(seconds, in_thread(work))


def is_any_left_alone() -> bool:
    """True while a thread runs that is not waited for any more. A library in C may hold up the end of the process."""
    return bool(_left_alone)
