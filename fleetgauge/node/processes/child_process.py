"""A child process and its supervision: start, lines of JSON over its standard streams, restart, stop, log of its end.

A child reads its job as the first line of standard input and may read commands as later lines. It writes what it has
to report as lines to standard output. When its standard input ends, its parent has ended. `parent_pipe` is its side.
"""

import asyncio
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.node import audit

log = structlog.get_logger(__name__)

_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 5.0
_STABLE_AFTER_MS: Final = 10_000
_LINE_LIMIT: Final = 1 << 20
"""Longest line that is read of a child's standard output [B]."""
_GRACE_S: Final = 1.0
"""Time beyond the deadline of a stop until the process is killed: it may finish what the deadline interrupted [s]."""


class RestartDelay:
    """Time until an ended process is restarted: from 0.1 s, doubled up to 5 s, and reset by a run of over ten seconds.

    >>> delay = RestartDelay()
    >>> [delay.next_s(lasted_ms) for lasted_ms in (100, 100, 100, 60_000)]
    [0.1, 0.2, 0.4, 0.1]
    """

    def __init__(self) -> None:
        self._next_s = _FIRST_DELAY_S

    def next_s(self, lasted_ms: int) -> float:
        """Delay [s] after a process that ran for `lasted_ms`."""
        if lasted_ms > _STABLE_AFTER_MS:
            self._next_s = _FIRST_DELAY_S
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, _LONGEST_DELAY_S)
        return delay_s


class ChildProcess(ABC):
    """Keeps one child process running, from `start` to `stop`.

    Args:
        name: the process in log lines, for example `exporters`.
        command: program and arguments.
        time: the clocks.

    Attributes:
        restarts: how often the process ended and was started again.
    """

    def __init__(self, name: str, command: Sequence[str], time: Time) -> None:
        self.restarts = 0
        self._command = command
        self._time = time
        self._pass_fds: Sequence[int] = ()
        """Descriptors that the child inherits."""
        self._log = log.bind(process=name)
        self._limiter = LogLimiter()
        self._process: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._problem = ""
        self._stop_requested = asyncio.Event()
        self._stop_by_ms: int | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the running child; None while none runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @abstractmethod
    def _job(self) -> bytes:
        """First line of the child's standard input."""

    def _request_stop(self) -> None:
        self._send({"stop": self._left_ms()})

    def _read(self, line: bytes) -> None:  # noqa: B027  a child need not report
        """Takes one line of the child's standard output; ValueError for a line that is cut off or no report."""

    def _ended(self, exit_code: int) -> None:  # noqa: B027  not every supervisor keeps what a child has reported
        """Called after the end of each child."""

    def _is_final(self, exit_code: int | None) -> bool:
        """True if no child is to follow one that ended with `exit_code`, or that could not be started (None)."""
        return self._stop_requested.is_set()

    async def start(self) -> None:
        """Starts the child and its supervision.

        Raises:
            OSError: the system cannot start the process.
        """
        await self._spawn()
        self._supervision = asyncio.create_task(self._supervise())

    async def stop(self, within_ms: int) -> None:
        """Requests a stop, waits for the end of the supervision, and kills the child after `within_ms` and a second."""
        self._stop_by_ms = self._time.hi_res_clock_ms() + within_ms
        self._stop_requested.set()
        if self._supervision is None:
            return
        if self.pid is not None:
            self._request_stop()
        try:
            await asyncio.wait_for(asyncio.shield(self._supervision), within_ms / 1000 + _GRACE_S)
        except TimeoutError:
            self._log.warning("child_process.killed", pid=self.pid, reason="it did not stop in time")
            self._kill()
            await self._supervision

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            pass_fds=(*self._pass_fds, *audit.inherited_descriptors()),
        )
        self._write(self._job())

    async def _supervise(self) -> None:
        delay = RestartDelay()
        while True:
            assert self._process is not None
            started_ms = self._time.hi_res_clock_ms()
            await self._read_lines(self._process)
            exit_code = await self._process.wait()
            self._ended(exit_code)
            if self._is_final(exit_code):
                return
            delay_s = delay.next_s(self._time.hi_res_clock_ms() - started_ms)
            self._log.error("child_process.ended", exit_code=exit_code, restart_in_s=delay_s)
            self.restarts += 1
            await self._pause(delay_s)
            if self._is_final(None):
                return
            while not await self._spawned_again():
                await self._pause(delay.next_s(0))
                if self._is_final(None):
                    return
            if self._stop_requested.is_set():
                self._request_stop()

    async def _spawned_again(self) -> bool:
        try:
            await self._spawn()
        except OSError as error:  # no descriptors, processes or memory for the moment
            self._problem = f"it cannot be started: {error}"
            if count := self._limiter.admit("spawn", self._time.hi_res_clock_ms()):
                self._log.error("child_process.start_failed", error=str(error), occurrences=count)
            return False
        return True

    async def _read_lines(self, process: asyncio.subprocess.Process) -> None:
        """Reads standard output to its end: a full pipe would block the child."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit; what was read of it is dropped
                if count := self._limiter.admit("line", self._time.hi_res_clock_ms()):
                    self._log.error("child_process.line_too_long", limit_bytes=_LINE_LIMIT, occurrences=count)
                continue
            if not line:
                return
            with suppress(ValueError):  # cut off by the child's death, or the end of a line that was too long
                self._read(line)

    async def _pause(self, for_s: float) -> None:
        """Waits until a stop is requested, or its deadline passes."""
        if self._stop_requested.is_set():
            await asyncio.sleep(min(for_s, self._left_ms() / 1000))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop_requested.wait(), for_s)

    def _left_ms(self) -> float:
        """Time to the deadline of the stop [ms]; without one, infinite."""
        if self._stop_by_ms is None:
            return math.inf
        return max(0, self._stop_by_ms - self._time.hi_res_clock_ms())

    def _send(self, command: dict[str, Any]) -> None:
        self._write(json.dumps(command).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # it has died, which `_supervise` handles
                self._process.stdin.write(line)

    def _kill(self) -> None:
        if self.pid is not None and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
