"""How tests wait: one patience, and a failure that names what was missing, what was seen last, and what was logged.

No other module of the tests sleeps or reads a clock to wait (`unit/test_waiting.py` checks it).
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

PATIENCE_S = 120.0 * float(os.environ.get("FLEETGAUGE_PATIENCE", "1"))
"""How long any wait of a test may take [s]. A wait ends as soon as it may, so that only a failure takes this long; a
machine that is slower than most sets FLEETGAUGE_PATIENCE, a factor."""
_EVERY_S = 0.05
_LOGGED_LINES = 40

_LOGS: list[Path] = []

T = TypeVar("T")


class WaitedInVainError(AssertionError):
    """What a test waited for did not come within its patience.

    Attributes:
        what: what it waited for.
        seen: what it read last, or the exception that reading raised.
    """

    def __init__(self, what: str, seen: object) -> None:
        self.what = what
        self.seen = seen
        logs = "".join(f"\n--- the end of {path}\n{_end_of(path)}" for path in _LOGS)
        super().__init__(f"waited {PATIENCE_S:g} s in vain for {what}; last seen: {str(seen)[:4_000]}{logs}")


def wait_for(
    read: Callable[[], T],
    what: str,
    *,
    until: Callable[[T], object] = bool,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Calls `read` until `until` accepts its value, and returns that value.

    Args:
        read: what is observed. An exception of it ends the wait, for example a process that ended.
        what: what is waited for, as the end of "waited in vain for".
        until: whether a value is the awaited one; by default any true one.
        ignoring: exceptions of `read` that mean "not yet".

    Raises:
        WaitedInVainError: after `PATIENCE_S`.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        accepted, seen = _look(read, until, ignoring)
        if accepted:
            return cast(T, seen)
        if time.monotonic() > deadline:
            raise WaitedInVainError(what, seen)
        time.sleep(_EVERY_S)


async def wait_for_async(
    read: Callable[[], T],
    what: str,
    *,
    until: Callable[[T], object] = bool,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Like `wait_for`, while the event loop runs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        accepted, seen = _look(read, until, ignoring)
        if accepted:
            return cast(T, seen)
        if time.monotonic() > deadline:
            raise WaitedInVainError(what, seen)
        await asyncio.sleep(_EVERY_S / 10)


def _look(
    read: Callable[[], Any], until: Callable[[Any], object], ignoring: tuple[type[Exception], ...]
) -> tuple[bool, Any]:
    """Whether a value was read and accepted; the value, or the exception that means "not yet"."""
    try:
        seen = read()
        return bool(until(seen)), seen
    except ignoring as error:
        return False, error


def pause(seconds: float, why: str) -> None:
    """Lets real time pass where nothing can be observed instead: an interval at a real broker, the pace of a client.

    Args:
        seconds: how long [s].
        why: what the time is for; it has no other use than to be read.
    """
    assert why
    time.sleep(seconds)


async def pause_async(seconds: float, why: str) -> None:
    """Like `pause`, while the event loop runs."""
    assert why
    await asyncio.sleep(seconds)


def ticking(within_s: float, every_s: float = _EVERY_S) -> Iterator[float]:
    """The seconds passed since the start [s], again and again until `within_s` are over: the pace of a load or a watch.

    For what has to be done or observed for some time; to wait for something use `wait_for`.
    """
    start = time.monotonic()
    while (passed := time.monotonic() - start) < within_s:
        yield passed
        time.sleep(every_s)


def follow(log: Path) -> None:
    """Has a wait that fails print the end of this log; called by whoever starts the process that writes it."""
    if log not in _LOGS:
        _LOGS.append(log)


def unfollow(log: Path) -> None:
    """Its process has ended, and what follows does not concern it."""
    with contextlib.suppress(ValueError):
        _LOGS.remove(log)


def _end_of(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return str(error)
    return "\n".join(lines[-_LOGGED_LINES:])
