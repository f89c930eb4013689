"""The listener process's side of the exporter process: starts it, starts it again when it dies, asks it to stop.

They talk over the child's standard streams: the configuration goes in as the first line and a stop as a later one;
its status comes out as one JSON object a line. When the pipe in ends, the child knows that its parent is gone.
"""

import asyncio
import json
import math
import sys
from contextlib import suppress
from typing import Any

import structlog

from base.clock import Time
from base.log_limiter import LogLimiter
from fleetgauge.processes.exporter_job import Job
from fleetgauge.processes.restart_delay import RestartDelay

log = structlog.get_logger(__name__)

_COMMAND = (sys.executable, "-m", "fleetgauge.processes.exporter_process")
_STATUS_LINE_LIMIT = 1 << 20


class ExporterSupervisor:
    """Keeps one exporter process running.

    Args:
        job: what the process is to do.
        time: the clocks.

    Attributes:
        status: what the process last said of itself; empty before its first word.
        restarts: how often it died and was started again.
    """

    def __init__(self, job: Job, time: Time) -> None:
        self._job = job.model_dump_json().encode() + b"\n"
        self._wanted = bool(job.exporters)
        self._time = time
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop_by_ms: int | None = None
        self._stop_asked = asyncio.Event()
        self._calm = LogLimiter()
        self._heard_ms: int | None = None
        self._has_spoken = False
        self.status: dict[str, Any] = {}
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Process id of the running child, or None between two."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def has_reported(self) -> bool:
        """True if the process that runs now has reported its status."""
        return self._has_spoken

    def summary(self) -> dict[str, Any]:
        """What is known of the process: pid, restarts, and each exporter as it said last, with the age of that [ms].

        No exporter has the state that a process which is gone said last: it is `stopped`, or `starting` with the next.
        """
        exporters: dict[str, Any] = self.status.get("exporters", {})
        if not self._has_spoken:
            state = "stopped" if self.pid is None else "starting"
            exporters = {name: {**told, "state": state} for name, told in exporters.items()}
        age_ms = None if self._heard_ms is None else self._time.hi_res_clock_ms() - self._heard_ms
        return {
            "wanted": self._wanted,
            "pid": self.pid,
            "restarts": self.restarts,
            "status_age_ms": age_ms,
            "exporters": exporters,
        }

    async def start(self) -> None:
        """Starts the process and watches over it; without exporters there is none."""
        if not self._wanted:
            return
        self._heard_ms = self._time.hi_res_clock_ms()  # nothing yet, and its silence counts from here
        await self._spawn()
        self._task = asyncio.create_task(self._watch())

    async def stop(self, deadline_ms: int) -> None:
        """Has the process deliver what is in the log, for up to `deadline_ms`, and waits for its end.

        A process that died just before is started once more for it: what is in the log is to be delivered.
        """
        self._stop_by_ms = self._time.hi_res_clock_ms() + deadline_ms
        self._stop_asked.set()
        if self._task is None:
            return
        if self.pid is not None:
            self._tell_to_stop()
        try:
            # One second beyond, in which it may finish the batch that the deadline met.
            await asyncio.wait_for(asyncio.shield(self._task), deadline_ms / 1000 + 1.0)
        except TimeoutError:
            log.warning("the exporter process did not stop in time and is ended", pid=self.pid)
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
            await self._task

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_STATUS_LINE_LIMIT,
        )
        self._write(self._process, self._job)

    async def _watch(self) -> None:
        delay = RestartDelay()
        while True:
            process = self._process
            assert process is not None
            started_ms = self._time.hi_res_clock_ms()
            await self._read_status(process)
            code = await process.wait()
            self._has_spoken = False
            if self._may_end(code):
                return
            delay_s = delay.next_s(self._time.hi_res_clock_ms() - started_ms)
            log.error("the exporter process ended and is started again", exit_code=code, in_s=delay_s)
            self.restarts += 1
            await self._pause(delay_s)
            while not await self._spawned_again(delay):
                if self._may_end(code):
                    return
            if self._stop_by_ms is not None:
                self._tell_to_stop()

    async def _spawned_again(self, delay: RestartDelay) -> bool:
        """Tries to start the process; False where the system refuses, after a while."""
        try:
            await self._spawn()
        except OSError as error:  # no more descriptors, processes or memory: none of them for good
            if count := self._calm.admit("spawn", self._time.hi_res_clock_ms()):
                log.error(
                    "the exporter process cannot be started, which is tried again; pushes wait in the log",
                    problem=str(error),
                    occurrences=count,
                )
            await self._pause(delay.next_s(0))
            return False
        return True

    async def _pause(self, for_s: float) -> None:
        """Waits, until a stop is asked for or its deadline comes."""
        if self._stop_by_ms is not None:
            await asyncio.sleep(min(for_s, self._left_ms() / 1000))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop_asked.wait(), for_s)

    def _may_end(self, code: int) -> bool:
        """True if a stop was asked for, and the process did it or has no time left to do it."""
        if self._stop_by_ms is None:
            return False
        return code == 0 or self._left_ms() == 0

    async def _read_status(self, process: asyncio.subprocess.Process) -> None:
        """Takes in what the process says, until its end: a pipe that nobody reads would hold the process up."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit; what was read of it is gone
                self._say_too_long()
                continue
            if not line:
                return
            with suppress(ValueError):  # a line cut by the child's death, or the end of one that was too long
                self.status = _status_in(line)
                self._heard_ms, self._has_spoken = self._time.hi_res_clock_ms(), True

    def _say_too_long(self) -> None:
        if count := self._calm.admit("long", self._time.hi_res_clock_ms()):
            log.error(
                "the exporter process's status is too long to be read; the last one that was not stands",
                limit_bytes=_STATUS_LINE_LIMIT,
                occurrences=count,
            )

    def _left_ms(self) -> float:
        """How long until a stop's deadline [ms]; without one, for ever."""
        if self._stop_by_ms is None:
            return math.inf
        return max(0, self._stop_by_ms - self._time.hi_res_clock_ms())

    def _tell_to_stop(self) -> None:
        assert self._process is not None
        self._write(self._process, json.dumps({"stop": self._left_ms()}).encode() + b"\n")

    def _write(self, process: asyncio.subprocess.Process, line: bytes) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError):  # it died meanwhile, which `_watch` sees
            process.stdin.write(line)


def _status_in(line: bytes) -> dict[str, Any]:
    """What a line says.

    Raises:
        ValueError: it is no status.
    """
    status = json.loads(line)
    if not isinstance(status, dict) or "exporters" not in status:
        raise ValueError("no status")
    return status
