"""Every push gets exactly one answer, and NONE only when it is in the log."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import numbers, poll_all, push_of, push_record
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.group_commit import PendingBounds
from fleetgauge.push_log.log import PushLogError, PushLogFullError, PushLogTimeoutError
from fleetgauge.push_log.loop_commit import LoopCommit
from fleetgauge.push_log.thread_commit import ThreadCommit
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushRecord

Flush = Literal["os", "fsync"]


class RecordingWriter:
    """Remembers what was written; fails, or waits at a gate, when told so."""

    def __init__(self) -> None:
        self.commits: list[list[int]] = []
        self.threads: set[int] = set()
        self.fault: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def write(self, pushes: Sequence[Push]) -> None:
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.gate.wait(PATIENCE_S)
        if self.fault is not None:
            raise self.fault
        self.commits.append(numbers([push.record for push in pushes]))

    def check_room(self) -> None:
        pass

    def roll_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass


class Answers:
    """What was answered for which push, in order."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Exception | None]] = []

    def to(self, number: int) -> Callable[[Exception | None], None]:
        return lambda error: self.given.append((number, error))

    def kinds(self) -> dict[int, type]:
        assert len({number for number, _ in self.given}) == len(self.given), "a push was answered twice"
        return {number: type(error) for number, error in self.given}


class Group:
    """A group commit whose pushes each know what to call with their outcome."""

    def __init__(self, writer: Any, clock: Any, flush: Flush, **options: Any) -> None:
        made: Any = LoopCommit if flush == "os" else ThreadCommit
        self._commit = made(writer, asyncio.get_running_loop(), clock, **options)
        self._commit.answer = self._answer
        self.time = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commit, name)

    def append(self, record: PushRecord, encoded: bytes | None, on_done: Callable[[Exception | None], None]) -> None:
        push = push_of(record, encoded)
        push.taken_at_ms = self.time.hi_res_clock_ms()
        push.reply_to = on_done
        error = self._commit.append(push)
        if error is not None:
            on_done(error)

    @staticmethod
    def _answer(pushes: Sequence[Push], error: Exception | None) -> None:
        for push in pushes:
            on_done: Any = push.reply_to
            on_done(error)


def run(
    test: Callable[[Group, RecordingWriter, Answers], Awaitable[None]], flush: Flush, **options: Any
) -> tuple[RecordingWriter, Answers]:
    """Runs a test on a loop of its own, with a clock that stands, and closes the group commit at its end."""
    writer, answers = RecordingWriter(), Answers()

    async def main() -> None:
        group = Group(writer, MockTime(), flush, **options)
        try:
            await test(group, writer, answers)
        finally:
            writer.gate.set()
            await group.close()

    with capture_logs():
        asyncio.run(main())
    return writer, answers


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_what_comes_in_one_iteration_is_one_commit_and_is_answered_after_it(flush: Flush) -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        for number in (1, 2, 3):
            group.append(push_record(number), None, answers.to(number))
        assert answers.given == []
        assert writer.commits == []
        await group.drain()
        group.append(push_record(4), None, answers.to(4))
        await group.drain()

    writer, answers = run(test, flush)
    assert writer.commits == [[1, 2, 3], [4]]
    assert answers.given == [(1, None), (2, None), (3, None), (4, None)]


def test_flush_os_commits_on_the_loop_and_flush_fsync_in_one_thread() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        for number in range(20):
            group.append(push_record(number), None, answers.to(number))
            await asyncio.sleep(0)

    assert run(test, "os")[0].threads == {threading.get_ident()}
    threads = run(test, "fsync")[0].threads
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_while_the_thread_commits_the_next_batch_gathers() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        writer.gate.clear()
        group.append(push_record(1), None, answers.to(1))
        await wait_for_async(writer.entered.is_set, "the first commit to begin")
        for number in (2, 3, 4):
            group.append(push_record(number), None, answers.to(number))
            await asyncio.sleep(0)
        assert group.pending == 4
        writer.gate.set()
        await group.drain()

    writer, answers = run(test, "fsync")
    assert writer.commits == [[1], [2, 3, 4]]
    assert len(answers.kinds()) == 4


@pytest.mark.parametrize("flush", ["os", "fsync"])
@pytest.mark.parametrize("fault", [PushLogFullError("no room"), PushLogError("broken"), RuntimeError("a bug")])
def test_a_failed_commit_is_told_to_all_of_its_pushes_and_to_no_other(flush: Flush, fault: Exception) -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        writer.fault = fault
        group.append(push_record(1), None, answers.to(1))
        group.append(push_record(2), None, answers.to(2))
        await group.drain()
        writer.fault = None
        group.append(push_record(3), None, answers.to(3))
        await group.drain()
        assert group.counters() | {"logged": 1, "failed": 2, "pending": 0} == group.counters()

    writer, answers = run(test, flush)
    assert writer.commits == [[3]]
    told = PushLogError if isinstance(fault, RuntimeError) else type(fault)
    assert answers.kinds() == {1: told, 2: told, 3: type(None)}


def test_a_full_disk_is_logged_once_a_minute_and_not_for_every_push() -> None:
    writer, answers, clock = RecordingWriter(), Answers(), MockTime()
    writer.fault = PushLogFullError("no room")

    async def main() -> None:
        group = Group(writer, clock, "os")
        for number in range(120):
            group.append(push_record(number), None, answers.to(number))
            await group.drain()
            clock.sleep(1_000)
        await group.close()

    with capture_logs() as said:
        asyncio.run(main())
    assert [entry["reason"] for entry in said] == ["no room", "no room"]


def test_a_commit_that_takes_too_long_is_answered_once_and_what_comes_later_is_ignored() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        writer.gate.clear()
        group.append(push_record(1), None, answers.to(1))
        group.time.sleep(30)
        await wait_for_async(lambda: answers.given, "an answer")
        assert group.pending == 1
        writer.gate.set()
        await group.drain()

    _, answers = run(test, "fsync", ack_timeout_ms=30)
    assert answers.kinds() == {1: PushLogTimeoutError}


@pytest.mark.slow
def test_a_push_that_waited_too_long_is_answered_and_never_written() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        writer.gate.clear()
        group.append(push_record(1), None, answers.to(1))
        await wait_for_async(writer.entered.is_set, "the first commit to begin")
        group.append(push_record(2), None, answers.to(2))
        group.time.sleep(30)
        await wait_for_async(lambda: answers.given, "two answers", until=lambda given: len(given) == 2)
        group.append(push_record(3), None, answers.to(3))
        writer.gate.set()
        await group.drain()

    writer, answers = run(test, "fsync", ack_timeout_ms=30)
    assert writer.commits == [[1], [3]]
    assert answers.kinds() == {1: PushLogTimeoutError, 2: PushLogTimeoutError, 3: type(None)}


def test_with_fsync_too_many_pending_pushes_are_refused_at_once() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        for number in (1, 2, 3):
            group.append(push_record(number), None, answers.to(number))
        assert answers.kinds() == {3: PushLogFullError}
        await group.drain()
        group.append(push_record(4), None, answers.to(4))
        await group.drain()

    writer, answers = run(test, "fsync", bounds=PendingBounds(records=2))
    assert writer.commits == [[1, 2], [4]]
    assert answers.kinds() == {1: type(None), 2: type(None), 3: PushLogFullError, 4: type(None)}


def test_on_the_loop_a_full_batch_is_written_before_the_next_push_is_taken() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        for number in (1, 2, 3):
            group.append(push_record(number), None, answers.to(number))
        assert answers.kinds() == {1: type(None), 2: type(None)}
        assert group.pending == 1
        await group.drain()

    writer, answers = run(test, "os", bounds=PendingBounds(records=2))
    assert writer.commits == [[1, 2], [3]]
    assert answers.kinds() == {1: type(None), 2: type(None), 3: type(None)}


LINGER_US = 500


class Lingering:
    """A group commit with a linger time, on a clock that its sleep moves, and what arrives while it sleeps."""

    def __init__(self, **options: Any) -> None:
        self.time = MockTime()
        self.slept_us: list[int] = []
        self.arriving: list[int] = []
        self.writer = RecordingWriter()
        self.answers = Answers()
        self.group = Group(self.writer, self.time, "os", linger_us=LINGER_US, sleep=self._sleep, **options)

    def append(self, *numbers: int) -> None:
        for number in numbers:
            self.group.append(push_record(number), None, self.answers.to(number))

    def _sleep(self, seconds: float) -> None:
        self.slept_us.append(round(seconds * 1e6))
        self.time.sleep(seconds * 1_000)
        asyncio.get_running_loop().call_soon(self.append, *self.arriving)  # read when the loop goes on
        self.arriving = []


def test_with_a_linger_time_only_what_follows_a_commit_waits_and_is_joined_with_what_arrives_meanwhile() -> None:
    async def main() -> Lingering:
        node = Lingering()
        node.append(1)
        await node.group.drain()
        assert node.slept_us == []
        node.time.sleep(0.2)
        node.arriving = [4, 5]
        node.append(2, 3)
        await asyncio.sleep(0)
        assert node.answers.given == [(1, None)]
        await node.group.drain()
        assert node.slept_us == [300]
        node.time.sleep(0.5)
        node.append(6)
        await node.group.drain()
        await node.group.close()
        return node

    node = asyncio.run(main())
    assert node.slept_us == [300]
    assert node.writer.commits == [[1], [2, 3, 4, 5], [6]]
    assert node.answers.given == [(number, None) for number in range(1, 7)]


def test_with_a_linger_time_a_full_batch_is_still_written_before_the_next_push_is_taken() -> None:
    async def main() -> Lingering:
        node = Lingering(bounds=PendingBounds(records=2))
        node.append(1)
        await node.group.drain()
        node.append(2, 3, 4)
        assert node.writer.commits == [[1], [2, 3]]
        assert node.slept_us == []
        await node.group.close()
        return node

    node = asyncio.run(main())
    assert node.writer.commits == [[1], [2, 3], [4]]
    assert sum(node.slept_us) <= LINGER_US
    assert len(node.answers.kinds()) == 4


def test_with_a_linger_time_a_failed_commit_is_told_to_the_joined_pushes_and_what_lingers_on_close_is_written() -> None:
    async def main() -> Lingering:
        node = Lingering()
        node.append(1)
        await node.group.drain()
        node.writer.fault = PushLogFullError("no room")
        node.arriving = [3]
        node.append(2)
        await node.group.drain()
        node.writer.fault = None
        node.append(4)
        await node.group.close()
        node.append(5)
        return node

    with capture_logs():
        node = asyncio.run(main())
    assert node.slept_us == [LINGER_US, LINGER_US]
    assert node.writer.commits == [[1], [4]]
    none = type(None)
    assert node.answers.kinds() == {1: none, 2: PushLogFullError, 3: PushLogFullError, 4: none, 5: PushLogError}


def test_without_a_linger_time_no_commit_waits() -> None:
    def refuse(_seconds: float) -> None:
        raise AssertionError("slept")

    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        for number in (1, 2, 3):
            group.append(push_record(number), None, answers.to(number))
            await group.drain()

    assert run(test, "os", sleep=refuse)[0].commits == [[1], [2], [3]]


def test_too_many_pending_bytes_are_refused_and_a_single_large_push_is_not() -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        group.append(push_record(1, b"x" * 5_000), b"y" * 50, answers.to(1))
        group.append(push_record(2, b"x"), None, answers.to(2))
        assert answers.kinds() == {2: PushLogFullError}
        await group.drain()
        group.append(push_record(3, b"x" * 500), b"y" * 501, answers.to(3))
        await group.drain()
        group.append(push_record(4, b"x" * 500), b"y" * 100, answers.to(4))
        group.append(push_record(5, b"x" * 300), b"y" * 100, answers.to(5))
        await group.drain()

    _, answers = run(test, "fsync", bounds=PendingBounds(size_bytes=1_000))
    assert answers.kinds() == {1: type(None), 2: PushLogFullError, 3: type(None), 4: type(None), 5: type(None)}


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_a_fault_in_answering_is_told_to_the_loop_and_the_log_goes_on(flush: Flush) -> None:
    faults: list[dict[str, Any]] = []

    def fail(_error: Exception | None) -> None:
        raise RuntimeError("the connection is gone")

    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        group.append(push_record(1), None, fail)
        await group.drain()
        group.append(push_record(2), None, answers.to(2))
        await group.drain()

    _, answers = run(test, flush)
    assert answers.given == [(2, None)]
    assert [str(fault["exception"]) for fault in faults] == ["the connection is gone"]


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_closing_waits_for_what_was_appended_and_refuses_what_comes_after(flush: Flush) -> None:
    async def test(group: Group, writer: RecordingWriter, answers: Answers) -> None:
        group.append(push_record(1), None, answers.to(1))
        await group.close()
        assert answers.given == [(1, None)]
        group.append(push_record(2), None, answers.to(2))

    _, answers = run(test, flush)
    assert answers.kinds() == {1: type(None), 2: PushLogError}


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_over_the_real_log_all_that_was_answered_none_can_be_read(log: Any, flush: Flush) -> None:
    writer, answers = log.writer(), Answers()

    async def main() -> None:
        group = Group(writer, MockTime(), flush)
        for number in range(200):
            group.append(push_record(number), None, answers.to(number))
            if number % 7 == 0:
                await asyncio.sleep(0)
        await group.close()

    asyncio.run(main())
    assert set(answers.kinds().values()) == {type(None)}
    assert poll_all(log.reader()) == list(range(200))
