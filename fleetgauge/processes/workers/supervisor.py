"""The parent's side of one worker: starts it, starts it again when it ends, asks it how it is, tells it what to do.

A worker's push log stays when it dies, and the one that follows writes on in it: nothing that was acknowledged is lost.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import structlog

from base.clock import Time
from base.errors import FleetgaugeError
from fleetgauge.admin.node_socket import NotRunningError, Status, ask_async
from fleetgauge.config import ServiceConfig
from fleetgauge.data_dir import DataDirectory
from fleetgauge.processes.restart_delay import RestartDelay
from fleetgauge.processes.workers.merge import counts_of, merged_parts
from fleetgauge.processes.workers.process import LINE_LIMIT
from fleetgauge.processes.workers.shares import as_json

log = structlog.get_logger(__name__)

ANSWER_WITHIN_S: Final = 1.0
"""A worker that takes longer for its status is told of as one that does not answer [s]."""
HUNG_AFTER_MS: Final = 30_000
"""A worker that answers nothing for so long serves nobody, and still gets its share of the connections: it is ended
and started again [ms]."""
_OFFER_WITHIN_S: Final = 5.0
_KILL_AFTER_S: Final = 1.0


class WorkerSupervisor:
    """Keeps one worker running.

    Args:
        number: which of the workers, from 1.
        config: its configuration.
        time: the clocks.

    Attributes:
        number: as given.
        config: what it is started with; after a change, what it will be started with again.
        restarts: how often it ended and was started again.
    """

    def __init__(self, number: int, config: ServiceConfig, time: Time) -> None:
        self.number = number
        self.config = config
        self.restarts = 0
        self._time = time
        self._process: asyncio.subprocess.Process | None = None
        self._examiner: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._problem = ""
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._may_listen = False
        self._stopping = asyncio.Event()
        self._offers: dict[int, asyncio.Future[str]] = {}
        self._last: Status | None = None
        self._gone: Status | None = None
        self._answers = True
        self._answered_ms = 0

    @property
    def pid(self) -> int | None:
        """Process id of the running worker, or None between two."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def serves(self) -> bool:
        """True while it runs, has its listeners, and answers."""
        return self._ready.is_set() and self.pid is not None and self._answers

    @property
    def is_ready(self) -> bool:
        """True while it runs and has its listeners, whether it answers or not."""
        return self._ready.is_set() and self.pid is not None

    @property
    def data(self) -> DataDirectory:
        """Its directory."""
        return DataDirectory(self.config.log_dirs)

    @property
    def last(self) -> Status | None:
        """What it last said of itself; None before that, and after its end."""
        return self._last

    @property
    def gone(self) -> Status | None:
        """What those before it have counted; None if it is the first."""
        return self._gone

    def reasons(self) -> list[str]:
        """Why it does not serve clients as it should, a sentence each."""
        if not self.is_ready:
            why = f": {self._problem}" if self._problem else ""
            return [f"worker {self.number} ended and is started again{why}"]
        if not self._answers:
            return [f"worker {self.number} does not answer"]
        if self._last is None:
            return []
        return [f"worker {self.number}: {reason}" for reason in self._last["node"]["not_ready"]]

    async def prepare(self) -> None:
        """Starts it, and waits until it has all but its listeners.

        Raises:
            FleetgaugeError: it does not start; the text is its own.
        """
        await self._spawn()
        self._watch = asyncio.create_task(self._keep_running())
        await self._prepared

    async def listen(self) -> None:
        """Has it listen, now and whenever it is started again, and waits until it does.

        Raises:
            FleetgaugeError: it cannot.
        """
        self._may_listen = True
        self._tell({"listen": True})
        await self._first

    async def stop(self, within_ms: int) -> None:
        """Has it stop in order, for up to `within_ms`, and ends it then."""
        self._stopping.set()
        if self._watch is None:
            return
        self._tell({"stop": within_ms})
        try:
            await asyncio.wait_for(asyncio.shield(self._watch), within_ms / 1000 + _KILL_AFTER_S)
        except TimeoutError:
            log.warning("a worker did not stop in time and is ended", worker=self.number, pid=self.pid)
            self._kill()
            await self._watch

    async def look(self) -> None:
        """Asks it for its status, which `last` and `serves` then tell; ends one that has not answered for very long."""
        if not self.is_ready or self._process is None:
            return
        process, status = self._process, None
        with suppress(NotRunningError, OSError, ValueError):  # TimeoutError is an OSError
            async with asyncio.timeout(ANSWER_WITHIN_S):
                status = await self._ask_status()
        if process is not self._process or not self.is_ready:
            return  # it ended meanwhile
        now_ms = self._time.hi_res_clock_ms()
        self._answers = status is not None
        if status is not None:
            self._last, self._answered_ms = status, now_ms
        elif now_ms - self._answered_ms > HUNG_AFTER_MS:
            log.error("a worker answers nothing and is ended", worker=self.number, pid=self.pid, for_ms=HUNG_AFTER_MS)
            self._kill()

    async def offer(self, number: int, config: ServiceConfig) -> str:
        """Has it examine a new configuration; returns what is wrong with it, or an empty text.

        A worker that is not there just now takes what is decided when it starts.
        """
        self._examiner = self._process if self.is_ready else None
        if self._examiner is None:
            return ""
        answer = self._offers[number] = asyncio.get_running_loop().create_future()
        self._tell({"offer": number, "config": as_json(config)})
        try:
            return await asyncio.wait_for(answer, _OFFER_WITHIN_S)
        except TimeoutError:
            return f"worker {self.number} did not answer within {_OFFER_WITHIN_S:.0f} s"
        finally:
            self._offers.pop(number, None)

    def take(self, number: int, config: ServiceConfig) -> None:
        """Has it take over what was found good; one that was started since then examines it first."""
        self.config = config
        if self._process is not self._examiner:
            self._tell({"offer": number, "config": as_json(config)})
        self._tell({"take": number})

    async def _ask_status(self) -> Status | None:
        async with aclosing(ask_async(self.data.node_socket, {"ask": "status"})) as answers:
            async for answer in answers:
                return answer
        return None

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fleetgauge.processes.workers.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
        )
        self._tell({"number": self.number, "config": as_json(self.config)})

    async def _keep_running(self) -> None:
        delay = RestartDelay()
        while True:
            started_ms = self._time.hi_res_clock_ms()
            code = await self._until_its_end()
            if self._stopping.is_set():
                return
            waiting = next((each for each in (self._prepared, self._first) if not each.done()), None)
            if waiting is not None:
                waiting.set_exception(FleetgaugeError(self._problem or self._ended_early(code)))
                return
            delay_s = delay.next_s(self._time.hi_res_clock_ms() - started_ms)
            log.error(
                "a worker ended and is started again",
                worker=self.number,
                exit_code=code,
                problem=self._problem,
                in_s=delay_s,
            )
            self.restarts += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
            if self._stopping.is_set():
                return
            await self._spawn_again()

    async def _spawn_again(self) -> None:
        try:
            await self._spawn()
        except OSError as error:  # no more processes, or no memory: `_until_its_end` finds the old one ended
            self._problem = f"it cannot be started: {error}"

    async def _until_its_end(self) -> int:
        """Hears what it says until it ends; returns its exit code."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(ValueError):  # a line cut by its death
                self._hear(json.loads(line))
        code = await process.wait()
        self._ready.clear()
        if self._last is not None:
            counted = counts_of(self._last)
            self._gone = counted if self._gone is None else merged_parts([counted, self._gone])
            self._last = None
        for offer in self._offers.values():
            if not offer.done():
                offer.set_result("")
        return code

    def _hear(self, words: Mapping[str, Any]) -> None:
        if "problem" in words and "offer" not in words:
            self._problem = str(words["problem"])
        elif "offer" in words:
            offer = self._offers.get(words["offer"])
            if offer is not None and not offer.done():
                offer.set_result(str(words["problem"]))
            elif words["problem"]:
                log.error("a worker keeps its configuration", worker=self.number, problem=words["problem"])
        elif "prepared" in words:
            if not self._prepared.done():
                self._prepared.set_result(None)
            if self._may_listen:
                self._tell({"listen": True})
        elif "ready" in words:
            self._problem = ""
            self._answers = True
            self._answered_ms = self._time.hi_res_clock_ms()
            self._ready.set()
            if not self._first.done():
                self._first.set_result(None)

    def _ended_early(self, code: int) -> str:
        return f"worker {self.number} ended with exit code {code} before it served; its log says why"

    def _tell(self, command: Mapping[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(OSError, RuntimeError):  # it died meanwhile, which `_keep_running` sees
            process.stdin.write(json.dumps(command).encode() + b"\n")

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
