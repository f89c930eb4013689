"""What every push log promises to the exporters, on the embedded one and on a topic of a real broker."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import pytest
from support.payloads.payloads import metrics_data
from support.programs.delivery import PATIENCE_MS
from support.programs.push_log import RecordWriter, numbers, push_of, push_record, small_log
from support.waiting import PATIENCE_S, pause, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.exporter import BatchSettings, Delivered, Outcome, Refused, Retry, RetrySettings
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.kafka_topic.appender import KafkaTopicAppender
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import Batch, PushLogReader

pytestmark = pytest.mark.integration

PAYLOAD = metrics_data(2)


class Log(Protocol):
    """Either log."""

    def append(self, *which: int) -> None: ...

    def reader(self, exporter: str = "otlp") -> PushLogReader: ...


class EmbeddedLog:
    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._settings = small_log(path)
        self._stack = stack
        self._writer = stack.enter_context(closing(RecordWriter(self._settings, SystemTime())))

    def append(self, *which: int) -> None:
        for number in which:
            self._writer.append(push_record(number, PAYLOAD))
        self._writer.commit()

    def reader(self, exporter: str = "otlp") -> PushLogReader:
        return self._stack.enter_context(closing(SqlitePushLogReader(self._settings, exporter)))


class TopicLog:
    def __init__(self, settings: KafkaTopicSettings, stack: ExitStack) -> None:
        self._settings = settings
        self._stack = stack

    def append(self, *which: int) -> None:
        asyncio.run(self._append(which))

    def reader(self, exporter: str = "otlp") -> PushLogReader:
        return self._stack.enter_context(closing(KafkaTopicReader(self._settings, exporter)))

    async def _append(self, which: tuple[int, ...]) -> None:
        loop = asyncio.get_running_loop()
        appender = KafkaTopicAppender(self._settings, loop, SystemTime(), ack_timeout_ms=PATIENCE_MS)
        await appender.start(PATIENCE_S)
        failures: list[Exception | None] = []
        appender.answer = lambda pushes, error: failures.extend(error for _ in pushes)
        failures += [appender.append(push_of(push_record(number, PAYLOAD))) for number in which]
        await appender.close()
        assert set(failures) == {None}


@pytest.fixture(params=["sqlite", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield EmbeddedLog(tmp_path / "push-log", stack)
        else:
            yield TopicLog(request.getfixturevalue("topic"), stack)


def poll(reader: PushLogReader, *, max_records: int = 1_000) -> Batch:
    """The next batch; what was just appended may be on its way to a reader."""
    batch = wait_for(lambda: reader.poll(1 << 30, max_records, 100), "a batch")
    assert batch is not None
    return batch


def poll_numbers(reader: PushLogReader, count: int, *, commit: bool = True) -> list[int]:
    """The numbers of the next `count` records."""
    found: list[int] = []
    while len(found) < count:
        batch = poll(reader)
        found += numbers(batch.records)
        if commit:
            assert reader.commit(batch) == 0
    return found


def test_what_was_appended_is_read_whole_and_in_order(log: Log) -> None:
    log.append(*range(200))
    reader = log.reader()
    batch = poll(reader)
    assert batch.records[0] == push_record(int(batch.records[0].push_id, 16), PAYLOAD)
    rest = poll_numbers(reader, 200 - len(batch.records)) if len(batch.records) < 200 else []
    assert numbers(batch.records) + rest == list(range(200))
    assert batch.first_position <= batch.last_position


def test_a_batch_has_no_more_records_than_were_asked_for(log: Log) -> None:
    log.append(*range(10))
    reader = log.reader()
    found: list[int] = []
    while len(found) < 10:
        batch = poll(reader, max_records=3)
        assert len(batch.records) <= 3
        found += numbers(batch.records)
    assert found == list(range(10))


def test_what_was_not_committed_comes_again_to_the_next_reader_and_what_was_does_not(log: Log) -> None:
    log.append(*range(5))
    first = log.reader()
    assert poll_numbers(first, 5) == list(range(5))
    log.append(5, 6, 7)
    assert poll_numbers(first, 3, commit=False) == [5, 6, 7]
    first.close()
    assert poll_numbers(log.reader(), 3) == [5, 6, 7]


def test_committing_a_batch_passes_those_polled_before_it(log: Log) -> None:
    log.append(*range(6))
    reader = log.reader()
    batches = [poll(reader, max_records=2) for _ in range(3)]
    reader.commit(batches[1])
    reader.close()
    assert poll_numbers(log.reader(), 2) == [4, 5]


def test_exporters_have_cursors_of_their_own(log: Log) -> None:
    log.append(*range(3))
    otlp, landing = log.reader("otlp"), log.reader("landing")
    assert poll_numbers(otlp, 3) == [0, 1, 2]
    assert poll_numbers(landing, 3) == [0, 1, 2]


def test_the_lag_is_what_is_not_committed(log: Log) -> None:
    log.append(*range(4))
    reader = log.reader()
    first = poll(reader, max_records=1)
    assert reader.lag().records == 4
    assert reader.lag().oldest_received_at == first.records[0].received_at
    reader.commit(first)
    assert reader.lag().records == 3
    poll_numbers(reader, 3)
    assert (reader.lag().records, reader.lag().oldest_received_at) == (0, None)


def test_a_wakeup_ends_a_poll_that_waits(log: Log) -> None:
    """It would wait for an hour; a wakeup that comes before it ends it, too."""
    reader = log.reader()
    polled: list[Batch | None] = []
    waiting = threading.Thread(target=lambda: polled.append(reader.poll(1 << 30, 1_000, 3_600_000)), daemon=True)
    waiting.start()
    pause(0.2, "nothing shows that a poll waits")
    assert polled == []
    reader.wakeup()
    waiting.join(PATIENCE_S)
    assert polled == [None]


class Destination:
    """Takes what it gets; away for its first tries, and never takes the push `bad`."""

    name = "otlp"
    batch = BatchSettings(max_bytes=1 << 20, max_records=16, linger_ms=50)
    retry = RetrySettings(backoff_ms=10, backoff_max_ms=50)

    def __init__(self, bad: int) -> None:
        self.bad = f"{bad:032x}"
        self.away = 3
        self.got: Counter[int] = Counter()

    def start(self) -> None: ...

    def export(self, batch: Batch) -> Outcome:
        if self.away:
            self.away -= 1
            return Retry(reason="unavailable")
        if self.bad in {record.push_id for record in batch.records}:
            return Refused(reason="invalid_argument")
        self.got.update(numbers(batch.records))
        return Delivered()

    def close(self) -> None: ...


def test_a_pipeline_delivers_everything_once_but_what_the_destination_refuses(log: Log) -> None:
    log.append(*range(100))
    destination = Destination(bad=42)
    reader = log.reader()
    pipeline = Pipeline(reader, destination, time=SystemTime())
    pipeline.start()
    wait_for(destination.got.total, "all pushes but the refused one", until=lambda count: count >= 99)
    assert pipeline.stop(PATIENCE_MS)
    assert destination.got == Counter(number for number in range(100) if number != 42)
    stats = pipeline.stats()
    assert (stats.delivered_records, stats.refused, stats.retried) == (99, {"invalid_argument": 1}, {"unavailable": 3})
    log.append(100)
    assert poll_numbers(log.reader(), 1) == [100], "everything else was committed"
