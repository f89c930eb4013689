"""The parent's side of one worker: starts and restarts it, queries its status, gives it commands.

A worker's push log stays when it dies, and its successor continues it: nothing that was acknowledged is lost.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.module_command import module_command
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.child_process import ChildProcess
from fleetgauge.node.processes.workers.merge import counts_of, merged_parts
from fleetgauge.node.processes.workers.shares import as_json
from fleetgauge.node.status.node_socket import NotRunningError, Status, read_status_async

ANSWER_WITHIN_S: Final = 1.0
"""A worker whose status takes longer is reported as not answering [s]."""
HUNG_AFTER_MS: Final = 30_000
"""A worker that answers nothing for this long serves no client, and still gets its share of the connections: it is
killed and started again [ms]."""
_OFFER_WITHIN_S: Final = 5.0


class WorkerSupervisor(ChildProcess):
    """Keeps one worker running.

    Args:
        number: which of the workers, from 1.
        config: its configuration.
        time: the clocks.

    Attributes:
        number: as given.
        config: what it is started with; after a change, what it will be started with again.
        last: its latest status; None before that, and after its end.
        ended: what its predecessors have counted; None if it is the first.
    """

    def __init__(self, number: int, config: ServiceConfig, time: Time) -> None:
        super().__init__(f"worker-{number}", module_command("fleetgauge.node.worker"), time)
        self.number = number
        self.config = config
        self.last: Status | None = None
        self.ended: Status | None = None
        self._examiner: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._may_listen = False
        self._offers: dict[int, asyncio.Future[str]] = {}
        self._answers = True
        self._answered_ms = 0

    @property
    def serves(self) -> bool:
        """True while it runs, has its listeners, and answers."""
        return self.is_ready and self._answers

    @property
    def is_ready(self) -> bool:
        """True while it runs and has its listeners, whether it answers or not."""
        return self._ready.is_set() and self.pid is not None

    @property
    def node_socket(self) -> Path:
        """Its control socket."""
        return DataDirectory(self.config.log_dirs).node_socket

    def reasons(self) -> list[str]:
        """Why it does not serve clients as it should, a sentence each."""
        if not self.is_ready:
            why = f": {self._problem}" if self._problem else ""
            return [f"worker {self.number} ended and is restarted{why}"]
        if not self._answers:
            return [f"worker {self.number} does not answer"]
        if self.last is None:
            return []
        return [f"worker {self.number}: {reason}" for reason in self.last["node"]["not_ready"]]

    def degraded(self) -> list[str]:
        """Parts that do not work while the worker serves clients, a sentence each."""
        return [] if self.last is None else self.last["node"].get("degraded", [])

    def status(self) -> Status:
        """The worker for the status of its node."""
        last = self.last
        return {
            "worker": self.number,
            "pid": self.pid,
            "serves": self.serves,
            "restarts": self.restarts,
            "connections": sum(each["open"] for each in last["connections"]) if last else 0,
            "instances": last["telemetry"]["counters"]["instances"] if last else 0,
            "logged": last["push_log"]["logged"] if last else 0,
        }

    async def prepare(self) -> None:
        """Starts it, and waits until it has all but its listeners.

        Raises:
            FleetgaugeError: it does not start; the text is its own.
        """
        await self.start()
        await self._prepared

    async def listen(self) -> None:
        """Makes the worker listen, now and after each restart, and waits until it does.

        Raises:
            FleetgaugeError: it cannot.
        """
        self._may_listen = True
        self._send({"listen": True})
        await self._listening

    async def query(self) -> None:
        """Updates `last` and `serves` with its status; kills one that has not answered for 30 s."""
        if not self.is_ready:
            return
        process, status = self._process, None
        with suppress(NotRunningError, OSError, ValueError):  # TimeoutError is an OSError
            async with asyncio.timeout(ANSWER_WITHIN_S):
                status = await read_status_async(self.node_socket)
        if process is not self._process or not self.is_ready:
            return  # it ended meanwhile
        now_ms = self._time.hi_res_clock_ms()
        self._answers = status is not None
        if status is not None:
            self.last, self._answered_ms = status, now_ms
        elif now_ms - self._answered_ms > HUNG_AFTER_MS:
            self._log.error("child_process.killed", pid=self.pid, reason="it answers nothing", for_ms=HUNG_AFTER_MS)
            self._kill()

    async def offer(self, number: int, config: ServiceConfig) -> str:
        """Makes the worker check a new configuration; returns what is wrong with it, or an empty text.

        A worker that does not run at this moment takes what is decided when it starts.
        """
        self._examiner = self._process if self.is_ready else None
        if self._examiner is None:
            return ""
        answer = self._offers[number] = asyncio.get_running_loop().create_future()
        self._send({"offer": number, "config": as_json(config)})
        try:
            return await asyncio.wait_for(answer, _OFFER_WITHIN_S)
        except TimeoutError:
            return f"worker {self.number} did not answer within {_OFFER_WITHIN_S:.0f} s"
        finally:
            self._offers.pop(number, None)

    def take(self, number: int, config: ServiceConfig) -> None:
        """Makes the worker apply the checked configuration; a worker started since then checks it first."""
        self.config = config
        if self._process is not self._examiner:
            self._send({"offer": number, "config": as_json(config)})
        self._send({"take": number})

    def _job(self) -> bytes:
        return json.dumps({"number": self.number, "config": as_json(self.config)}).encode() + b"\n"

    def _read(self, line: bytes) -> None:
        report = json.loads(line)
        if "offer" in report:
            offer = self._offers.get(report["offer"])
            if offer is not None and not offer.done():
                offer.set_result(str(report["problem"]))
            elif report["problem"]:
                self._log.error("worker.reconfiguration_refused", error=report["problem"])
        elif "problem" in report:
            self._problem = str(report["problem"])
        elif "prepared" in report:
            _resolve(self._prepared)
            if self._may_listen:
                self._send({"listen": True})
        elif "ready" in report:
            self._problem = ""
            self._answers = True
            self._answered_ms = self._time.hi_res_clock_ms()
            self._ready.set()
            _resolve(self._listening)

    def _ended(self, exit_code: int) -> None:
        self._ready.clear()
        if self.last is not None:
            counted = counts_of(self.last)
            self.ended = counted if self.ended is None else merged_parts([counted, self.ended])
            self.last = None
        for offer in self._offers.values():
            if not offer.done():
                offer.set_result("")
        if not self._stop_requested.is_set():
            why = f"worker {self.number} ended with exit code {exit_code} before it served; its log shows the reason"
            for waiting in (self._prepared, self._listening):
                _resolve(waiting, FleetgaugeError(self._problem or why))

    def _is_final(self, exit_code: int | None) -> bool:
        """A worker that ends before it has ever served is not started again: the start of the node fails."""
        return super()._is_final(exit_code) or self._listening.exception() is not None


def _resolve(waiting: asyncio.Future[None], error: Exception | None = None) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)
