"""The console's reader of a topic, over brokers that a test plays."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from support.brokers.topic import TopicMessage, topic_message
from support.programs.push_log import push_record

from fleetgauge.base.clock import MockTime
from fleetgauge.console.state import topic_source
from fleetgauge.console.state.source import LOOKBACK_US
from fleetgauge.console.state.topic_source import TopicSource
from fleetgauge.push_log.kafka_topic.clients import KafkaClientMissingError
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError

MINUTE_US = 60_000_000


class Brokers:
    """A consumer, and the offsets of a topic."""

    def __init__(self, clock: MockTime, partitions: int = 2) -> None:
        self.time = clock
        self.logs: dict[int, list[TopicMessage]] = {number: [] for number in range(partitions)}
        self.first: dict[int, int] = {}
        self.at: dict[int, int] = {}
        self.paused: set[int] = set()
        self.are_away = False
        self.on_error: Any = None

    def write(self, partition: int, *, ago_us: int = 0, offset: int | None = None) -> None:
        log = self.logs.setdefault(partition, [])
        at = len(log) if offset is None else offset
        record = push_record(at)._replace(received_at=self.time.microseconds() - ago_us)
        log.append(topic_message(partition, at, record))

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self.are_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict.fromkeys(self.logs))})

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert all(place.offset == (self.time.microseconds() - LOOKBACK_US) // 1_000 for place in places)
        return [
            TopicPartition(
                place.topic, place.partition, self.first.get(place.partition, 0) if self.logs[place.partition] else -1
            )
            for place in places
        ]

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        self.at |= {place.partition: place.offset for place in places}

    def consume(self, count: int, timeout: float) -> list[TopicMessage]:
        if self.are_away:
            self.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            return []
        found = []
        for number, at in self.at.items():
            if number not in self.paused:
                new = [message for message in self.logs[number] if message.offset() >= at][:count]
                found += new
                self.at[number] = new[-1].offset() + 1 if new else at
        return found

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused |= {place.partition for place in places}

    def resume(self, places: list[TopicPartition]) -> None:
        self.paused -= {place.partition for place in places}

    def ends(self, partitions: Any) -> dict[int, int]:
        if self.are_away:
            raise PushLogError("cannot read the offsets of topic pushes: away")
        return {number: self.logs[number][-1].offset() + 1 if self.logs[number] else 0 for number in partitions}

    def close(self) -> None:
        self.at.clear()


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def brokers(clock: MockTime, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers(clock)

    def make_consumer(settings: KafkaTopicSettings, name: str, on_error: Any) -> Brokers:
        brokers.on_error = on_error
        return brokers

    monkeypatch.setattr(topic_source, "make_consumer", make_consumer)
    monkeypatch.setattr(topic_source, "TopicOffsets", lambda settings: brokers)
    return brokers


@pytest.fixture
def source(clock: MockTime, brokers: Brokers) -> TopicSource:
    return TopicSource(KafkaTopicSettings(bootstrap_servers="kafka:9092", topic="pushes"), clock)


def read(source: TopicSource, clock: MockTime, seconds: int = 3) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Partition and offset of what is read in some seconds, and the ends that were met."""
    found: list[tuple[int, int]] = []
    at_end: dict[int, int] = {}
    for _ in range(seconds):
        polled = source.poll(5)
        found += [(push.log, push.offset) for push in polled.pushes]
        at_end |= polled.at_end
        clock.sleep(1_000)
    return found, at_end


def test_all_partitions_are_read_to_their_ends_also_those_that_are_added(
    source: TopicSource, brokers: Brokers, clock: MockTime
) -> None:
    brokers.write(0)
    brokers.write(0)
    found, at_end = read(source, clock)
    assert found == [(0, 0), (0, 1)]
    assert set(at_end) == {0, 1}
    brokers.write(2)
    found, at_end = read(source, clock, 12)
    assert found == [(2, 0)]
    assert set(at_end) == {0, 1, 2}
    assert source.notices == []


def test_records_that_retention_deleted_and_that_are_no_pushes_are_counted(
    source: TopicSource, brokers: Brokers, clock: MockTime
) -> None:
    brokers.write(0)
    read(source, clock)
    brokers.write(0, offset=10)
    brokers.logs[1].append(TopicMessage((1, 0), (b"no key of a push", b"", [])))
    brokers.logs[1].append(TopicMessage((1, 1), (b"x" * 22, None, [])))
    found, _ = read(source, clock)
    assert found == [(0, 10)]
    assert source.skipped == 9 + 2


def test_a_partition_that_is_read_far_ahead_waits_for_the_other(
    source: TopicSource, brokers: Brokers, clock: MockTime
) -> None:
    for minute in range(50, 0, -1):
        brokers.write(0, ago_us=minute * MINUTE_US)
    for minute in range(10):
        for _ in range(30):
            brokers.write(1, ago_us=(50 - minute) * MINUTE_US)
    paused = 0
    found = []
    for _ in range(120):
        found += read(source, clock, 1)[0]
        paused += 0 in brokers.paused
    assert paused > 3
    assert sorted(found) == [(0, at) for at in range(50)] + [(1, at) for at in range(300)]
    assert not brokers.paused


def test_unreachable_brokers_are_a_notice_no_end_is_met_and_reading_goes_on(
    source: TopicSource, brokers: Brokers, clock: MockTime
) -> None:
    brokers.write(0)
    read(source, clock)
    brokers.are_away = True
    found, at_end = read(source, clock, 30)
    assert found == []
    assert at_end == {}
    assert source.notices[0].startswith("Topic pushes at kafka:9092 cannot be read now: ")
    brokers.are_away = False
    brokers.write(0)
    found, at_end = read(source, clock, 12)
    assert found == [(0, 1)]
    assert set(at_end) == {0, 1}
    assert source.notices == []


def test_an_end_without_a_record_before_it_is_an_end_after_some_seconds(
    source: TopicSource, brokers: Brokers, clock: MockTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.write(0)
    monkeypatch.setattr(brokers, "ends", lambda partitions: {0: 2, 1: 0})
    assert set(read(source, clock, 3)[1]) == {1}
    assert set(read(source, clock, 10)[1]) == {0, 1}


def test_without_the_extra_it_says_what_to_install(
    source: TopicSource, clock: MockTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> Any:
        raise KafkaClientMissingError

    monkeypatch.setattr(topic_source, "make_consumer", missing)
    assert source.poll(5).pushes == ()
    assert "pip install 'fleetgauge[kafka]'" in source.notices[0]
