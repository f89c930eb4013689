"""The side of the process that starts the exporter process: gives it its job, keeps its status, requests its stop.

That is the listener process; with several workers, and with `fleetgauge export`, the parent process.

The job is the first line of its standard input; the subscriptions in force and a stop request are later ones.
It answers with its status, one JSON object a line.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from fleetgauge.base.clock import Time
from fleetgauge.base.module_command import module_command
from fleetgauge.cluster.subscriptions.allowed import Properties
from fleetgauge.node.processes.child_process import ChildProcess
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.job_line import to_line

_STALLED_MS: Final = 3_000
_FIRST_REPORT_MS: Final = 60_000


class ExporterSupervisor(ChildProcess):
    """Keeps one exporter process running, and ends one that hangs; none if `job` has nothing to run.

    Args:
        job: what the process is to do.
        time: the clocks.
        in_force: returns the subscriptions that this node gives its clients; None where brokers do, or for the moment.

    Attributes:
        status: what the process reported last; empty before its first report.
        hangs: how often the process was ended since it hung.
        has_reported: True if the process that runs now has reported its status.
    """

    look_every_s: float = 1.0
    """Time between two checks whether the process hangs [s]."""

    command = module_command("fleetgauge.node.processes.exporter_process")

    def __init__(self, job: Job, time: Time, in_force: Callable[[], Properties | None] = lambda: None) -> None:
        super().__init__("exporters", self.command, time)
        self._in_force = in_force
        self._told: Properties | None = None
        self._job_line = to_line(job)
        self._wanted = bool(job.exporters) or job.offsets is not None or job.deadlines is not None
        self._reported_ms: int | None = None
        self._heard_ms = 0  # when the process began, or sent a line; not the age of the status, which may fail
        self._hang_timeout_ms = job.hang_timeout_ms
        self._watch: asyncio.Task[None] | None = None
        self.hangs = 0
        self.has_reported = False
        self.status: dict[str, Any] = {}

    def summary(self) -> dict[str, Any]:
        """The process for the status: pid, restarts, and each exporter as last reported, with the report's age [ms].

        The state of an exporter is that of the running process alone: `stopped` without one, `starting` before its
        first report.
        """
        exporters: dict[str, Any] = self.status.get("exporters", {})
        if not self.has_reported:
            state = "stopped" if self.pid is None else "starting"
            exporters = {name: {**reported, "state": state} for name, reported in exporters.items()}
        age_ms = None if self._reported_ms is None else self._time.hi_res_clock_ms() - self._reported_ms
        return {
            "wanted": self._wanted,
            "pid": self.pid,
            "restarts": self.restarts,
            "hangs": self.hangs,
            "status_age_ms": age_ms,
            "exporters": exporters,
            "group_offsets": self.status.get("group_offsets"),
            "subscription_deadlines": self.status.get("subscription_deadlines"),
        }

    def lags(self) -> dict[str, int | None]:
        """Pushes that each exporter has not delivered, as last reported; None if that is not known."""
        return {name: state["lag_records"] for name, state in self.status.get("exporters", {}).items()}

    async def start(self) -> None:
        """See `ChildProcess.start`; does nothing where the job names no exporter."""
        if self._wanted:
            # No report yet, and its silence counts from here.
            self._reported_ms = self._heard_ms = self._time.hi_res_clock_ms()
            await super().start()
            if self._hang_timeout_ms:
                self._watch = asyncio.create_task(self._end_hung())

    async def stop(self, within_ms: int) -> None:
        """See `ChildProcess.stop`."""
        if self._watch is not None:
            self._watch.cancel()
        await super().stop(within_ms)

    async def _end_hung(self) -> None:
        """Kills a process that hangs; its end is handled like any other. No push is lost: its cursor has not moved."""
        while True:
            before_ms = self._time.hi_res_clock_ms()
            await asyncio.sleep(self.look_every_s)
            if self._time.hi_res_clock_ms() - before_ms > _STALLED_MS:
                continue  # this process was stopped itself, and reports wait to be read
            if self.pid is not None and (problem := self._hang()):
                self.hangs += 1
                self._log.error("exporters.hung", message="the process is killed and restarted", problem=problem)
                self._kill()
                self._heard_ms = self._time.hi_res_clock_ms()

    def _hang(self) -> str:
        """The exporter or process that hangs, in one sentence; empty if none does."""
        limit_ms, silent_ms = self._hang_timeout_ms, self._time.hi_res_clock_ms() - self._heard_ms
        # A process waits for its predecessor's end before its first report.
        if silent_ms > (limit_ms if self.has_reported else max(limit_ms, _FIRST_REPORT_MS)):
            return f"it has been silent for {silent_ms / 1000:.0f} s"
        if self.has_reported:
            for name, state in self.status["exporters"].items():
                if (call_ms := state.get("call_ms") or 0) > limit_ms:
                    return f"exporter {name} has not returned from a call for {call_ms / 1000:.0f} s"
        return ""

    def _job(self) -> bytes:
        return self._job_line

    def _read(self, line: bytes) -> None:
        status = json.loads(line)
        self._heard_ms = self._time.hi_res_clock_ms()
        if not isinstance(status, dict) or "exporters" not in status:
            raise ValueError("no status")
        self.status, self.has_reported = status, True
        self._reported_ms = self._time.hi_res_clock_ms()
        if (in_force := self._in_force()) is not None and in_force != self._told:
            self._told = in_force
            self._send({"in_force": in_force})

    def _ended(self, exit_code: int) -> None:
        self._told = None
        self.has_reported = False
        self._heard_ms = self._time.hi_res_clock_ms()

    def _is_final(self, exit_code: int | None) -> bool:
        """Until the deadline of a stop, a process that failed is started again to deliver the rest."""
        return self._stop_requested.is_set() and (exit_code == 0 or self._left_ms() == 0)
