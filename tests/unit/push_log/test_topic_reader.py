"""The reader's thread with a consumer that does as the test says: pauses, errors, rebalances, ends."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs
from support.brokers.topic import TopicMessage, place, topic_message
from support.programs.push_log import numbers
from support.waiting import wait_for

from fleetgauge.push_log.kafka_topic.group_member import GroupMember
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import Batch, PushLogError

SETTINGS = KafkaTopicSettings(bootstrap_servers="nowhere:9092", topic="pushes")


class Metadata:
    def __init__(self, error: KafkaError | None) -> None:
        self.topics = {"pushes": self}
        self.error = error


class FakeConsumer:
    """A consumer whose next results of `consume` the test puts into `coming`: messages, or something to do."""

    def __init__(self, cursors: dict[int, int]) -> None:
        self.coming: queue.Queue[list[Any] | Callable[[], None]] = queue.Queue()
        self.cursors = cursors
        self.paused: set[int] = set()
        self.assigned: set[int] = set()
        self.commit_errors: list[KafkaException] = []
        self.topic_error: KafkaError | None = None
        self.polls = 0
        self.closed = False
        self.thread = threading.current_thread()

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        assert topics == ["pushes"]
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def assign(self, *partitions: int) -> None:
        def rebalance() -> None:
            self.assigned.update(partitions)
            self.on_assign(self, [TopicPartition("pushes", partition) for partition in partitions])

        self.coming.put(rebalance)

    def revoke(self, *partitions: int, lost: bool = False) -> None:
        def rebalance() -> None:
            self.assigned.difference_update(partitions)
            callback = self.on_lost if lost else self.on_revoke
            callback(self, [TopicPartition("pushes", partition) for partition in partitions])

        self.coming.put(rebalance)

    def fetch(self, partition: int, *offsets: int) -> None:
        self.coming.put([topic_message(partition, offset) for offset in offsets])

    def incremental_assign(self, places: list[TopicPartition]) -> None: ...

    def consume(self, count: int, timeout: float) -> list[TopicMessage]:
        self.polls += 1
        try:
            found = self.coming.get(timeout=0.002)
        except queue.Empty:
            return []
        if callable(found):
            found()
            return []
        return list(found)

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused.update(place.partition for place in places)

    def resume(self, places: list[TopicPartition]) -> None:
        self.paused.difference_update(place.partition for place in places)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition("pushes", place.partition, self.cursors.get(place.partition, -1001)) for place in places]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        if self.commit_errors:
            raise self.commit_errors.pop(0)
        self.cursors.update((place.partition, place.offset) for place in offsets)
        return offsets

    def list_topics(self, topic: str, timeout: float) -> Metadata:
        return Metadata(self.topic_error)

    def close(self) -> None:
        self.closed = True


class Offsets:
    """Partitions that begin at `low` and end at `high`."""

    low, high = 0, 100

    def beginnings(self, partitions: Any) -> dict[int, int]:
        return dict.fromkeys(partitions, self.low)

    def ends(self, partitions: Any) -> dict[int, int]:
        return dict.fromkeys(partitions, self.high)


class Rig:
    def __init__(self) -> None:
        self.cursors: dict[int, int] = {}
        self.consumers: list[FakeConsumer] = []
        self.on_error: Callable[[KafkaError], None] = lambda error: None
        self.offsets = Offsets()
        self.faults: list[Exception] = []
        self.reader = KafkaTopicReader(SETTINGS, "otlp", consumer=self.make, offsets=self.offsets)  # type: ignore[arg-type]

    @property
    def consumer(self) -> FakeConsumer:
        return self.consumers[-1]

    def make(self, on_error: Callable[[KafkaError], None]) -> Any:
        self.on_error = on_error
        if self.faults:
            raise self.faults.pop()
        self.consumers.append(FakeConsumer(self.cursors))
        return self.consumer

    def poll(self, max_records: int = 100) -> Batch:
        batch = wait_for(lambda: self.reader.poll(1 << 20, max_records, 20), "a batch")
        assert batch is not None
        return batch

    def pauses(self, *partitions: int) -> None:
        wait_for(lambda: self.consumer.paused, f"{partitions} paused", until=lambda paused: paused == set(partitions))

    def reads(self, *partitions: int) -> None:
        wait_for(lambda: self.reader.partitions, f"partitions {partitions}", until=lambda read: read == partitions)

    def problem(self) -> str | None:
        """What the next poll says."""
        try:
            assert self.reader.poll(1 << 20, 10, 0) is None
        except PushLogError as error:
            return str(error)
        return None

    def fails(self) -> str:
        return wait_for(self.problem, "an error for who polls") or ""

    def recovers(self) -> None:
        wait_for(self.problem, "polls without an error", until=lambda problem: problem is None)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(GroupMember, "pause_after_s", 0.02)
    monkeypatch.setattr(GroupMember, "check_every_ms", 5)
    monkeypatch.setattr(GroupMember, "restart_after_s", 0.01)
    with capture_logs():
        made = Rig()
        assert made.reader.poll(1, 1, 0) is None  # joins the group
        yield made
        made.reader.close()


def test_while_a_batch_waits_to_be_taken_the_partitions_are_paused_and_polling_goes_on(rig: Rig) -> None:
    rig.consumer.assign(0, 1)
    rig.consumer.fetch(0, 1, 2, 3)
    rig.pauses(0, 1)
    polls = rig.consumer.polls
    wait_for(lambda: rig.consumer.polls, "ten polls", until=lambda now: now > polls + 10)
    batch = rig.poll(max_records=2)
    assert numbers(batch.records) == [place(0, 1), place(0, 2)]
    rest = rig.poll(max_records=2)
    assert numbers(rest.records) == [place(0, 3)]
    rig.pauses()


def test_partitions_that_come_while_others_are_paused_are_paused_too(rig: Rig) -> None:
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    rig.pauses(0)
    rig.consumer.assign(5)
    rig.pauses(0, 5)


def test_a_commit_is_served_while_everything_is_paused(rig: Rig) -> None:
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1, 2)
    batch = rig.poll(max_records=1)
    rig.pauses(0)
    assert rig.reader.commit(batch) == 0
    assert rig.cursors == {0: 2}


@pytest.mark.parametrize("lost", [True, False])
def test_what_a_rebalance_takes_is_neither_delivered_nor_committed_here(rig: Rig, lost: bool) -> None:
    rig.consumer.assign(0, 1)
    rig.consumer.coming.put([topic_message(0, 1), topic_message(1, 7)])
    batch = rig.poll(max_records=2)
    rig.consumer.revoke(0, lost=lost)
    rig.reads(1)
    owned = rig.reader.owned(batch)
    assert owned is not None
    assert numbers(owned.records) == [place(1, 7)]
    assert rig.reader.commit(batch) == 1
    assert rig.cursors == {1: 8}


def test_a_cursor_that_cannot_be_moved_can_be_moved_later(rig: Rig) -> None:
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    batch = rig.poll()
    rig.consumer.commit_errors = [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))]
    with pytest.raises(PushLogError, match="NOT_COORDINATOR"):
        rig.reader.commit(batch)
    assert rig.reader.commit(batch) == 0
    assert rig.cursors == {0: 2}
    assert rig.reader.commit(batch) == 0, "again is no harm"


@pytest.mark.slow
@pytest.mark.parametrize("code", [KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION])
def test_a_commit_waits_for_the_end_of_a_rebalance_which_is_no_error(rig: Rig, code: int) -> None:
    """What of the batch is still this reader's is committed then; the rest is the other's."""
    rig.consumer.assign(0, 1)
    rig.consumer.coming.put([topic_message(0, 1), topic_message(1, 7)])
    batch = rig.poll(max_records=2)
    rig.consumer.commit_errors = [KafkaException(KafkaError(code))] * 3
    rig.consumer.revoke(0)
    assert rig.reader.commit(batch) == 1
    assert rig.consumer.commit_errors == []
    assert rig.cursors == {1: 8}


def test_a_rebalance_that_does_not_end_is_an_error_in_the_end(rig: Rig) -> None:
    rig.reader.rebalance_within_ms = 300
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    batch = rig.poll()
    rig.consumer.commit_errors = [KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))] * 1_000
    with pytest.raises(PushLogError, match="REBALANCE_IN_PROGRESS"):
        rig.reader.commit(batch)


def test_the_group_is_joined_with_the_first_poll_and_not_before() -> None:
    """An exporter that cannot start must not keep partitions from other processes."""
    rig = Rig()
    assert not hasattr(rig.consumer, "on_assign"), "it has subscribed"
    rig.reader.close()
    assert rig.consumer.closed
    assert rig.consumer.polls == 0
    rig = Rig()
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    assert numbers(rig.poll().records) == [place(0, 1)]
    assert hasattr(rig.consumer, "on_assign")
    rig.reader.close()


def test_a_consumer_that_fails_is_replaced_and_goes_on_from_the_cursor(rig: Rig) -> None:
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    batch = rig.poll()

    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "fenced", True))

    first = rig.consumer
    first.coming.put(fail)
    wait_for(lambda: rig.consumers, "a second consumer", until=lambda made: len(made) == 2)
    assert first.closed
    assert rig.reader.commit(batch) == 1, "its partition may be another's now"
    assert rig.cursors == {}
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1, 2)
    assert numbers(rig.poll(max_records=2).records) == [place(0, 1), place(0, 2)]


def test_a_consumer_that_can_be_neither_ended_nor_replaced_at_once_is_replaced_later(rig: Rig) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "fenced", True))

    first = rig.consumer
    first.close = fail  # type: ignore[method-assign]
    rig.faults = [KafkaException(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.location: no such file"))] * 2
    first.coming.put(fail)
    wait_for(lambda: rig.consumers, "a second consumer", until=lambda made: len(made) == 2)
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    assert numbers(rig.poll().records) == [place(0, 1)]


def test_a_topic_out_of_reach_is_said_to_who_polls_until_it_is_back(rig: Rig) -> None:
    rig.consumer.topic_error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    rig.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert "UNKNOWN_TOPIC_OR_PART" in rig.fails()
    rig.consumer.topic_error = None
    rig.recovers()


def test_an_error_that_proves_harmless_is_not_said_to_who_polls(rig: Rig) -> None:
    rig.on_error(KafkaError(KafkaError._TRANSPORT))
    for _ in range(20):
        assert rig.problem() is None


def test_a_missing_right_is_said_until_records_come(rig: Rig) -> None:
    rig.on_error(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert "GROUP_AUTHORIZATION_FAILED" in rig.fails()
    rig.consumer.assign(0)
    rig.recovers()


def test_what_lies_before_the_topic_s_beginning_is_lost_and_other_gaps_are_none(rig: Rig) -> None:
    rig.cursors[0] = 10
    rig.offsets.low = 15
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 20, 21, 23)
    assert numbers(rig.poll(max_records=3).records) == [place(0, 20), place(0, 21), place(0, 23)]
    wait_for(lambda: rig.reader.member.lost_records, "five lost records", until=lambda lost: lost == 5)


def test_the_lag_counts_from_the_cursor_or_from_the_beginning_where_that_is_later(rig: Rig) -> None:
    rig.cursors.update({0: 90, 1: 3})
    rig.offsets.low = 40
    rig.consumer.assign(0, 1, 2)
    rig.reads(0, 1, 2)
    wait_for(lambda: rig.reader.lag().records, "the lag", until=lambda records: records == 10 + 60 + 60)
    assert rig.reader.lag().bytes is None


def test_without_a_partition_the_lag_is_unknown_and_not_0(rig: Rig) -> None:
    with pytest.raises(PushLogError, match="no partition is assigned"):
        rig.reader.lag()
    rig.consumer.assign(0)
    rig.reads(0)
    before = rig.reader.last_lag
    lag = rig.reader.lag()
    assert (before, rig.reader.last_lag) == (None, lag)
    rig.consumer.revoke(0)
    rig.reads()
    rig.reader.close()
    assert rig.reader.last_lag is None


def test_closing_ends_the_thread_and_later_calls_say_so(rig: Rig) -> None:
    rig.consumer.assign(0)
    rig.consumer.fetch(0, 1)
    batch = rig.poll()
    rig.reader.close()
    assert rig.consumer.closed
    assert (rig.reader.last_lag or pytest.fail("unknown")).records == 100
    with pytest.raises(PushLogError, match="did not answer"):
        rig.reader.commit(batch)
