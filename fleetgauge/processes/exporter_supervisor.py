"""The side of the process that starts the exporter process: gives it its job, keeps its status, requests its stop.

That is the listener process; with several workers, and with `fleetgauge export`, the parent process.

The job is the first line of its standard input and a stop request a later one; its status is one JSON object a line.
"""

import json
from typing import Any

from base.clock import Time
from fleetgauge.processes.child_process import ChildProcess, module_command
from fleetgauge.processes.exporter_job import Job


class ExporterSupervisor(ChildProcess):
    """Keeps one exporter process running; none if `job` names no exporter and samples no groups.

    Args:
        job: what the process is to do.
        time: the clocks.

    Attributes:
        status: what the process reported last; empty before its first report.
        has_reported: True if the process that runs now has reported its status.
    """

    command = module_command("fleetgauge.processes.exporter_process")

    def __init__(self, job: Job, time: Time) -> None:
        super().__init__("exporters", self.command, time)
        self._job_line = job.to_line().encode() + b"\n"
        self._wanted = bool(job.exporters) or job.offsets is not None or job.deadlines is not None
        self._reported_ms: int | None = None
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
            "status_age_ms": age_ms,
            "exporters": exporters,
            "group_offsets": self.status.get("group_offsets"),
            "subscription_deadlines": self.status.get("subscription_deadlines"),
        }

    def lags(self) -> dict[str, int]:
        """Pushes that each exporter has not delivered, as last reported."""
        return {name: state.get("lag_records", 0) for name, state in self.status.get("exporters", {}).items()}

    async def start(self) -> None:
        """See `ChildProcess.start`; does nothing where the job names no exporter."""
        if self._wanted:
            self._reported_ms = self._time.hi_res_clock_ms()  # no report yet, and its silence counts from here
            await super().start()

    def _job(self) -> bytes:
        return self._job_line

    def _read(self, line: bytes) -> None:
        status = json.loads(line)
        if not isinstance(status, dict) or "exporters" not in status:
            raise ValueError("no status")
        self.status, self.has_reported = status, True
        self._reported_ms = self._time.hi_res_clock_ms()

    def _ended(self, exit_code: int) -> None:
        self.has_reported = False

    def _is_final(self, exit_code: int | None) -> bool:
        """Until the deadline of a stop, a process that failed is started again to deliver the rest."""
        return self._stop_requested.is_set() and (exit_code == 0 or self._left_ms() == 0)
