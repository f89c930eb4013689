"""The listener's side of the topic, with a producer that acknowledges when the test says so."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Producer
from structlog.testing import capture_logs
from support.programs.push_log import push_of, push_record
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.group_commit import PendingBounds
from fleetgauge.push_log.kafka_topic.appender import KafkaTopicAppender
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError, PushLogFullError, PushLogTimeoutError
from fleetgauge.telemetry.push import Push

MakeProducer = Callable[[Callable[[KafkaError], None]], Producer]
SETTINGS = KafkaTopicSettings(bootstrap_servers="nowhere:9092")


class FakeProducer:
    """Keeps what is produced until `acknowledge`; calls back from within `poll`, as librdkafka does."""

    def __init__(self, on_error: Callable[[KafkaError], None]) -> None:
        self.on_error = on_error
        self.queued: list[tuple[Any, ...]] = []
        self.reports: list[Callable[[], None]] = []
        self.refusal: Exception | None = None
        self.flushed = False
        self.polls = 0

    def produce(self, topic: str, value: Any = None, key: Any = None, *, headers: Any = None, on_delivery: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.queued.append((topic, key, value, headers, on_delivery))

    def acknowledge(self, count: int | None = None, error: KafkaError | None = None) -> None:
        for *_, on_delivery in self.queued[:count]:
            self.reports.append(lambda on_delivery=on_delivery: on_delivery(error, None))  # type: ignore[misc]
        del self.queued[:count]

    def fail(self, error: KafkaError) -> None:
        self.reports.append(lambda: self.on_error(error))

    def poll(self, timeout: float = 0) -> int:
        self.polls += 1
        reports, self.reports = self.reports, []
        for report in reports:
            report()
        return len(reports)

    def flush(self, timeout: float = 0) -> int:
        self.flushed = True
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> None:
        return None


class Rig:
    """An appender whose topic is found when `missing` is None."""

    def __init__(self, **options: Any) -> None:
        self.time = MockTime()
        self.missing: str | None = None
        self.searches = 0
        self.producers: list[FakeProducer] = []
        self.answers: list[Exception | None] = []
        self.appender = KafkaTopicAppender(
            SETTINGS,
            asyncio.get_running_loop(),
            self.time,
            producer=cast(MakeProducer, self.make),
            find_topic=self.find,
            **options,
        )
        self.appender.answer = lambda pushes, error: self.answers.extend(error for _ in pushes)

    @property
    def producer(self) -> FakeProducer:
        return self.producers[-1]

    def make(self, on_error: Callable[[KafkaError], None]) -> FakeProducer:
        self.producers.append(FakeProducer(on_error))
        return self.producer

    def find(self) -> None:
        self.searches += 1
        if self.missing is not None:
            raise PushLogError(self.missing)

    def append(self, count: int = 1, size: int = 10) -> None:
        for number in range(count):
            push = push_of(push_record(number, b"x" * size), b"zstd")
            push.taken_at_ms = self.time.hi_res_clock_ms()
            error = self.appender.append(push)
            if error is not None:
                self.answers.append(error)

    async def answered(self, count: int) -> None:
        await wait_for_async(lambda: self.answers, f"{count} answers", until=lambda answers: len(answers) == count)

    async def left(self, count: int) -> None:
        await wait_for_async(lambda: self.appender.pending, f"{count} pending", until=lambda left: left == count)

    async def reached(self) -> None:
        await wait_for_async(lambda: self.appender.problem, "the topic", until=lambda problem: problem is None)

    async def fails(self, problem: str) -> None:
        await wait_for_async(lambda: self.appender.problem, problem, until=lambda found: problem in (found or ""))

    async def polled(self) -> None:
        """Until the appender has looked twice at what its producer reports, and at the clock."""
        before = self.producer.polls
        await wait_for_async(lambda: self.producer.polls, "two polls", until=lambda polls: polls >= before + 2)


def run(scenario: Callable[[Rig], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        rig = Rig(**options)
        await rig.appender.start(PATIENCE_S)
        await scenario(rig)
        for producer in rig.producers:
            producer.acknowledge()
        await rig.appender.close()

    with capture_logs():
        asyncio.run(main())


def test_a_push_is_answered_when_its_record_is_acknowledged_and_not_before() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append(3)
        await rig.polled()
        assert rig.answers == []
        assert rig.appender.pending == 3
        rig.producer.acknowledge(2)
        await rig.answered(2)
        assert rig.answers == [None, None]
        assert rig.appender.counters()["logged"] == 2
        assert rig.appender.pending == 1
        topic, key, _, headers, _ = rig.producer.queued[0]
        assert (topic, key, dict(headers)["client_id"]) == ("fleetgauge-pushes", b"Tm-1TLjmRReIm-FbmcCcIA", b"client-2")

    run(scenario)


def test_a_slow_topic_is_answered_as_a_timeout_once_and_its_late_record_is_counted() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append(2)
        rig.time.sleep(499)
        await rig.polled()
        assert rig.answers == []
        rig.time.sleep(1)
        await rig.answered(2)
        assert all(isinstance(answer, PushLogTimeoutError) for answer in rig.answers)
        assert rig.appender.pending == 2, "the records are still on their way"
        rig.producer.acknowledge()
        await rig.left(0)
        assert len(rig.answers) == 2
        counters = rig.appender.counters()
        assert (counters["logged"], counters["logged_late"], counters["timed_out"]) == (0, 2, 2)

    run(scenario)


def test_beyond_its_bounds_the_queue_refuses_at_once() -> None:
    async def by_records(rig: Rig) -> None:
        rig.append(4)
        assert [type(answer) for answer in rig.answers] == [PushLogFullError]
        rig.producer.acknowledge(1)
        await rig.left(2)
        rig.append()
        assert rig.appender.pending == 3
        assert rig.appender.counters()["refused_full"] == 1

    async def by_bytes(rig: Rig) -> None:
        rig.append(size=5_000)
        assert rig.answers == [], "a push larger than the bound is taken where nothing else waits"
        rig.append(size=1)
        assert [type(answer) for answer in rig.answers] == [PushLogFullError]

    run(by_records, bounds=PendingBounds(records=3))
    run(by_bytes, bounds=PendingBounds(size_bytes=1_000))


def test_a_full_queue_of_the_client_library_is_a_full_log() -> None:
    async def scenario(rig: Rig) -> None:
        rig.producer.refusal = BufferError("Local: Queue full")
        rig.append()
        assert [type(answer) for answer in rig.answers] == [PushLogFullError]
        assert rig.appender.pending == 0

    run(scenario)


def test_a_record_that_the_topic_refuses_is_an_error_for_its_push_alone() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append(2)
        rig.producer.acknowledge(1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        rig.producer.acknowledge(1)
        await rig.answered(2)
        assert isinstance(rig.answers[0], PushLogError)
        assert "MSG_SIZE_TOO_LARGE" in str(rig.answers[0])
        assert rig.answers[1] is None
        assert rig.appender.counters()["failed"] == 1

    run(scenario)


def test_an_exception_of_the_producer_answers_the_push_and_nothing_else() -> None:
    async def scenario(rig: Rig) -> None:
        rig.producer.refusal = RuntimeError("a bug")
        rig.append()
        rig.producer.refusal = None
        rig.append()
        rig.producer.acknowledge()
        await rig.answered(2)
        assert isinstance(rig.answers[0], PushLogError)
        assert rig.answers[1] is None

    run(scenario)


def test_while_the_topic_cannot_be_reached_pushes_are_refused_at_once_and_taken_when_it_can() -> None:
    async def main() -> None:
        rig = Rig()
        rig.missing = "no broker answers"
        await rig.appender.start(0.05)
        await rig.fails("no broker answers")
        rig.append()
        assert [str(answer) for answer in rig.answers] == ["no broker answers"]
        assert rig.producers == []
        rig.missing = None
        await rig.reached()
        rig.append()
        rig.producer.acknowledge()
        await rig.answered(2)
        assert rig.answers[1] is None
        assert rig.appender.counters()["refused_away"] == 1
        await rig.appender.close()

    with capture_logs() as logs:
        asyncio.run(main())
    events = [entry["event"] for entry in logs]
    assert events.count("push_log.topic_unreachable") == 1
    assert "push_log.topic_reached" in events


def test_a_topic_that_goes_away_is_noticed_by_the_first_timeout_and_then_refused_without_a_wait() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        rig.missing = "no broker answers"
        rig.time.sleep(500)
        await rig.fails("no broker answers")
        rig.append()
        assert [type(answer) for answer in rig.answers] == [PushLogTimeoutError, PushLogError]
        rig.missing = None
        await rig.reached()
        assert len(rig.producers) == 1, "the producer finds its brokers again by itself"

    run(scenario)


def test_after_a_fatal_error_another_producer_is_made_once_the_old_one_has_given_up_its_records() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        old = rig.producer
        old.fail(KafkaError(KafkaError._FATAL, "fenced", True))
        await rig.fails("1 of its records")
        rig.append()
        assert "fenced" in str(rig.answers[0]), "what went wrong is said for as long as pushes are refused for it"
        old.acknowledge(error=KafkaError(KafkaError._PURGE_QUEUE))
        await rig.reached()
        assert isinstance(rig.answers[1], PushLogError)
        assert rig.producer is not old
        rig.append()
        rig.producer.acknowledge()
        await rig.answered(3)
        assert rig.answers[2] is None

    run(scenario)


def test_a_search_that_fails_in_a_way_that_nobody_expects_goes_on() -> None:
    async def main() -> None:
        faults: list[Exception] = [RuntimeError("a bug")]

        def find() -> None:
            if faults:
                raise faults.pop()

        loop = asyncio.get_running_loop()
        appender = KafkaTopicAppender(
            SETTINGS, loop, MockTime(), producer=cast(MakeProducer, FakeProducer), find_topic=find
        )
        await appender.start(PATIENCE_S)
        assert appender.problem is None
        await appender.close()

    with capture_logs():
        asyncio.run(main())


@pytest.mark.parametrize("acknowledged", [True, False])
def test_closing_waits_for_every_answer_and_takes_no_more(acknowledged: bool) -> None:
    async def main() -> None:
        rig = Rig()
        await rig.appender.start(PATIENCE_S)
        rig.append(2)
        closing = asyncio.create_task(rig.appender.close())
        await rig.polled()
        assert not closing.done()
        rig.append()
        assert "closed" in str(rig.answers[0])
        if acknowledged:
            rig.producer.acknowledge()
        else:
            rig.time.sleep(500)
        async with asyncio.timeout(PATIENCE_S):
            await closing
        expected = type(None) if acknowledged else PushLogTimeoutError
        assert [type(answer) for answer in rig.answers[1:]] == [expected] * 2
        assert rig.producer.flushed is not acknowledged

    with capture_logs():
        asyncio.run(main())


def test_a_sender_that_fails_does_not_keep_the_next_from_its_answer() -> None:
    async def scenario(rig: Rig) -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))

        def answer(pushes: Sequence[Push], error: Exception | None) -> None:
            if not faults:
                raise RuntimeError("a bug")
            rig.answers.append(error)

        rig.appender.answer = answer
        rig.append(2)
        rig.producer.acknowledge(1)
        await wait_for_async(lambda: faults, "the fault of the sender")
        rig.producer.acknowledge()
        await rig.answered(1)
        assert len(faults) == 1

    run(scenario)
