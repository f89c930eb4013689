"""The listener process's side of the exporter process: whatever that one does, it is heard, replaced, and stopped."""

import asyncio
import dataclasses
import errno
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime, SystemTime, Time
from fleetgauge.node.config import load_config
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.exporter_supervisor import ExporterSupervisor

TALKS = """
import json, sys
def say(number, more=""):
    print(json.dumps({"push_log": {}, "exporters": {"x": {"number": number, "state": "running", "more": more}}}))
sys.stdin.readline()
"""
WAITS = "\nsys.stdout.flush(); sys.stdin.readline()\n"
"""A stand-in for the exporter process: it ends when it is told to stop."""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job.of(load_config(overrides=[f"log.dirs={tmp_path}", "exporters.x.type=console"]))


def does(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Has the supervisor start a process that says this."""
    monkeypatch.setattr(ExporterSupervisor, "command", (sys.executable, "-c", TALKS + words + WAITS))


def supervised(
    job: Job, use: Callable[[ExporterSupervisor], Coroutine[Any, Any, None]], time: Time | None = None
) -> ExporterSupervisor:
    """Runs a supervisor for as long as the test uses it; its stop, which hears the process out, must succeed."""

    async def run() -> ExporterSupervisor:
        supervisor = ExporterSupervisor(job, time or SystemTime())
        await supervisor.start()
        try:
            await use(supervisor)
        finally:
            await supervisor.stop(10_000)
        assert supervisor.pid is None
        return supervisor

    return asyncio.run(run())


def number(supervisor: ExporterSupervisor) -> int | None:
    found = supervisor.status.get("exporters", {}).get("x", {}).get("number")
    return None if found is None else int(found)


async def reported(supervisor: ExporterSupervisor, expected: int) -> None:
    await wait_for_async(lambda: number(supervisor), f"report {expected}", until=lambda found: found == expected)


def test_a_status_that_is_too_long_is_said_and_the_next_ones_are_heard(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, "say(1); say(2, 'e' * 3_000_000); say(3, 'e' * 1_048_500); say(4)")

    async def use(supervisor: ExporterSupervisor) -> None:
        await reported(supervisor, 4)
        assert supervisor.restarts == 0

    with capture_logs() as logs:
        supervised(job, use)
    assert len([entry for entry in logs if entry["event"] == "child_process.line_too_long"]) == 1


def test_lines_that_are_no_status_change_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["no JSON", "17", "null", "{}", '{"half": ', '{"exporters": {}}]', "\udcff"]
    says = f"sys.stdout.reconfigure(errors='surrogateescape'); print(*{lines!r}, sep='\\n')"
    does(monkeypatch, f"say(1); {says}")

    async def use(supervisor: ExporterSupervisor) -> None:
        await reported(supervisor, 1)

    ended = supervised(job, use)
    assert (number(ended), ended.restarts) == (1, 0)


@pytest.mark.slow
def test_a_process_that_the_system_refuses_to_start_again_is_started_once_it_can_be(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, "say(1)")
    spawn = asyncio.create_subprocess_exec
    refusals = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOMEM, "Cannot allocate memory")]

    async def refuse(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        if refusals:
            raise refusals.pop(0)
        return await spawn(*arguments, **options)

    async def use(supervisor: ExporterSupervisor) -> None:
        await reported(supervisor, 1)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
        first = supervisor.pid
        assert supervisor._process is not None
        supervisor._process.kill()
        await wait_for_async(lambda: supervisor.pid, "another process", until=lambda pid: pid not in (None, first))
        assert (supervisor.restarts, refusals) == (1, [])

    with capture_logs() as logs:
        supervised(job, use)
    assert [entry["error"] for entry in logs if entry["event"] == "child_process.start_failed"] == [
        "[Errno 24] Too many open files"
    ], "once a minute"


@pytest.mark.slow
def test_a_stop_ends_while_the_system_refuses_to_start_the_process(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, "say(1)")

    async def refuse(*_: Any, **__: Any) -> asyncio.subprocess.Process:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    async def run() -> None:
        supervisor = ExporterSupervisor(job, SystemTime())
        await supervisor.start()
        await reported(supervisor, 1)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
        assert supervisor._process is not None
        supervisor._process.kill()
        await wait_for_async(lambda: supervisor.pid, "the end of the process", until=lambda pid: pid is None)
        await supervisor.stop(300)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


@pytest.mark.slow
def test_a_process_that_fails_again_and_again_is_started_at_the_same_pace_during_a_stop(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExporterSupervisor, "command", ("false",))

    async def run() -> int:
        supervisor = ExporterSupervisor(job, SystemTime())
        await supervisor.start()
        await wait_for_async(lambda: supervisor.restarts, "two restarts", until=lambda restarts: restarts == 2)
        await supervisor.stop(1_500)
        return supervisor.restarts

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) <= 2 + 5, "after 0.1, 0.2, 0.4, 0.8, 1.6 s"


def test_what_a_process_said_last_is_told_with_its_age_and_by_no_state_of_one_that_is_gone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, "say(1)")
    clock = MockTime()
    spawn = asyncio.create_subprocess_exec

    def state(supervisor: ExporterSupervisor) -> str:
        return str(supervisor.summary()["exporters"]["x"]["state"])

    async def use(supervisor: ExporterSupervisor) -> None:
        assert supervisor.summary()["status_age_ms"] == 0, "its silence counts from the start"
        clock.sleep(1_000)
        await reported(supervisor, 1)
        assert (supervisor.summary()["status_age_ms"], state(supervisor)) == (0, "running")
        clock.sleep(90_000)
        assert (supervisor.summary()["status_age_ms"], state(supervisor)) == (90_000, "running")
        does(monkeypatch, "")
        supervisor._command = ExporterSupervisor.command  # of the processes to come
        room = asyncio.Event()

        async def once_there_is_room(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
            await room.wait()
            return await spawn(*arguments, **options)

        monkeypatch.setattr(asyncio, "create_subprocess_exec", once_there_is_room)
        assert supervisor._process is not None
        supervisor._process.kill()
        await wait_for_async(
            lambda: state(supervisor), "the end of the process", until=lambda found: found == "stopped"
        )
        room.set()
        await wait_for_async(lambda: supervisor.pid, "another process")
        assert (supervisor.summary()["status_age_ms"], state(supervisor)) == (90_000, "starting")
        assert supervisor.summary()["exporters"]["x"]["number"] == 1, "what was counted is still told"

    supervised(job, use, clock)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "hang_timeout_ms", "problem"),
    [
        (
            "say(1); import os, signal; sys.stdout.flush(); os.kill(os.getpid(), signal.SIGSTOP)",
            2_000,
            "it has been silent for",
        ),
        (
            "print(json.dumps({'exporters': {'x': {'number': 1, 'call_ms': 999_000}}}), flush=True)",
            600_000,
            "exporter x has not returned from a call for 999 s",
        ),
    ],
)
def test_a_process_that_hangs_is_killed_and_started_again(
    job: Job, monkeypatch: pytest.MonkeyPatch, words: str, hang_timeout_ms: int, problem: str
) -> None:
    does(monkeypatch, words)

    async def use(supervisor: ExporterSupervisor) -> None:
        await wait_for_async(
            lambda: (supervisor.hangs, supervisor.restarts),
            "a kill and a restart",
            until=lambda counts: min(counts) > 0,
        )
        assert supervisor.summary()["hangs"] == supervisor.hangs
        does(monkeypatch, "say(2)")
        supervisor._command = supervisor.command
        await reported(supervisor, 2)

    with capture_logs() as logs:
        supervised(dataclasses.replace(job, hang_timeout_ms=hang_timeout_ms), use)
    assert next(entry["problem"] for entry in logs if entry["event"] == "exporters.hung").startswith(problem)


REPORTS = """
import itertools, os, threading, time
def report():
    for number in itertools.count(1):
        status = {"exporters": {"x": {"number": number, "call_ms": None}}}
        os.write(1, json.dumps(status).encode() + b"\\n")
        time.sleep(0.02)
threading.Thread(target=report, daemon=True).start()
"""


@pytest.mark.slow
def test_a_process_that_reports_while_its_exporter_waits_between_calls_is_left_alone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, REPORTS)
    monkeypatch.setattr(ExporterSupervisor, "look_every_s", 0.01)
    clock = MockTime()

    async def reports_again(supervisor: ExporterSupervisor) -> None:
        heard = number(supervisor) or 0
        await wait_for_async(lambda: number(supervisor) or 0, "a report", until=lambda latest: latest > heard)

    async def use(supervisor: ExporterSupervisor) -> None:
        for _ in range(25):
            await reports_again(supervisor)
            clock.sleep(200)
        assert (supervisor.hangs, supervisor.restarts) == (0, 0)

    supervised(dataclasses.replace(job, hang_timeout_ms=2_000), use, clock)
