"""What a reader holds of the topic: what it hands out, what it may still deliver, and where the cursor goes."""

from collections.abc import Collection
from typing import Any

import pytest
from support.brokers.topic import TopicMessage, place, topic_message
from support.programs.push_log import numbers, push_record

from fleetgauge.exporters.exporter import halves
from fleetgauge.push_log.kafka_topic.record_codec import decode_record
from fleetgauge.push_log.kafka_topic.shares import Gap, Shares
from fleetgauge.push_log.log import Batch


@pytest.fixture
def shares() -> Shares:
    made = Shares("otlp")
    made.want(1_000_000, 1_000)
    return made


def fetch(shares: Shares, partition: int, *offsets: int) -> None:
    for offset in offsets:
        shares.add(topic_message(partition, offset))


def poll(shares: Shares, *, bad: Collection[tuple[int, int]] = ()) -> Batch | None:
    """Everything that is there; records at the places `bad` are none."""
    taken = shares.take()
    messages: list[Any] = [fetched.message for fetched in taken]
    records = {
        index: decode_record(messages[index].key(), messages[index].value(), messages[index].headers())
        for index, fetched in enumerate(taken)
        if (fetched.partition, fetched.offset) not in bad
    }
    return shares.hand_out(taken, records)


def polled(shares: Shares, *, bad: Collection[tuple[int, int]] = ()) -> Batch:
    batch = poll(shares, bad=bad)
    assert batch is not None
    return batch


def test_records_are_handed_out_in_the_order_of_each_partition(shares: Shares) -> None:
    shares.begin([0, 1])
    fetch(shares, 1, 5, 6)
    fetch(shares, 0, 9)
    fetch(shares, 1, 7)
    batch = polled(shares)
    assert numbers(batch.records) == [place(1, 5), place(1, 6), place(0, 9), place(1, 7)]
    assert shares.due(batch) == {0: 10, 1: 8}
    assert (batch.exporter, len(set(batch.shares))) == ("otlp", 2)


def test_records_of_a_partition_that_is_not_ours_are_dropped(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 1, 5)
    assert poll(shares) is None


def test_a_batch_keeps_its_bounds_and_a_record_larger_than_them_comes_alone(shares: Shares) -> None:
    shares.begin([0])
    for offset, size in enumerate([40, 50, 30, 500, 20]):
        shares.add(topic_message(0, offset, push_record(offset, b"x" * size)))
    shares.want(100, 10)
    assert shares.is_full
    sizes = []
    while (taken := shares.take()) != []:
        sizes.append([fetched.size_bytes for fetched in taken])
    assert sizes == [[40, 50], [30], [500], [20]]
    assert not shares.is_full


def test_no_more_than_the_wanted_records_are_handed_out_at_once(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 0, *range(5))
    shares.want(1_000, 2)
    assert [len(shares.take()) for _ in range(4)] == [2, 2, 1, 0]


def test_what_was_fetched_of_a_partition_that_goes_is_dropped_and_the_rest_is_kept(shares: Shares) -> None:
    shares.begin([0, 1])
    fetch(shares, 0, 1, 2)
    fetch(shares, 1, 3)
    shares.end([0])
    batch = polled(shares)
    assert numbers(batch.records) == [place(1, 3)]
    assert [share.partition for share in shares.current] == [1]


def test_a_batch_under_way_loses_the_records_of_a_partition_that_goes(shares: Shares) -> None:
    shares.begin([0, 1])
    fetch(shares, 0, 1)
    fetch(shares, 1, 2, 3)
    batch = polled(shares)
    first, second = halves(batch)
    assert shares.owned(batch) is batch
    shares.end([0])
    owned = shares.owned(batch)
    assert owned is not None
    assert numbers(owned.records) == [place(1, 2), place(1, 3)]
    assert shares.owned(first) is None
    assert shares.owned(second) is second
    assert shares.due(batch) == {1: 4}
    assert shares.settle(batch) == 1


def test_a_partition_that_goes_and_comes_back_is_another_share(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 0, 1, 2)
    batch = polled(shares)
    shares.end([0])
    shares.begin([0])
    assert shares.owned(batch) is None, "its records come again under the new share"
    assert shares.due(batch) == {}
    assert shares.settle(batch) == 2
    fetch(shares, 0, 1, 2)
    assert shares.due(polled(shares)) == {0: 3}


def test_a_partition_that_is_assigned_twice_begins_anew(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 0, 1, 2)
    shares.begin([0])
    assert poll(shares) is None


def test_committing_a_batch_passes_those_before_it_and_not_those_after(shares: Shares) -> None:
    shares.begin([0])
    batches = []
    for offset in range(4):
        fetch(shares, 0, offset)
        batches.append(polled(shares))
    assert shares.due(batches[1]) == {0: 2}
    assert shares.settle(batches[1]) == 0
    assert shares.due(batches[3]) == {0: 4}
    assert shares.due(batches[0]) == {}, "it is settled"


def test_batches_that_begin_and_end_alike_and_differ_between_have_different_positions(shares: Shares) -> None:
    shares.begin([0, 1, 2])
    fetch(shares, 0, 1)
    fetch(shares, 1, 1)
    fetch(shares, 2, 1)
    whole = polled(shares)
    shares.begin([0, 1, 2])
    fetch(shares, 0, 1)
    fetch(shares, 2, 1)
    part = polled(shares)
    shares.begin([0, 1, 2])
    fetch(shares, 0, 1)
    fetch(shares, 1, 1)
    fetch(shares, 2, 1)
    same = polled(shares)
    assert whole.first_position == part.first_position
    assert whole.last_position != part.last_position, "or the landing zone would take one file for the other"
    assert whole.last_position == same.last_position


def test_records_set_aside_are_committed_with_the_batch_that_they_came_with(shares: Shares) -> None:
    shares.begin([0, 1])
    fetch(shares, 0, 1, 2)
    fetch(shares, 1, 1)
    batch = polled(shares, bad={(0, 2), (1, 1)})
    assert numbers(batch.records) == [place(0, 1)]
    assert shares.skipped() == {}
    assert shares.due(batch) == {0: 3, 1: 2}


def test_records_set_aside_alone_are_committed_once_nothing_before_them_waits(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 0, 1)
    waiting = polled(shares)
    fetch(shares, 0, 2)
    assert poll(shares, bad={(0, 2)}) is None
    assert shares.skipped() == {}, "the cursor must not pass what was not delivered"
    shares.settle(waiting)
    assert shares.skipped() == {0: 3}
    shares.moved({0: 3})
    assert shares.skipped() == {}


def test_records_set_aside_of_a_partition_that_went_are_not_committed(shares: Shares) -> None:
    shares.begin([0])
    fetch(shares, 0, 1)
    assert poll(shares, bad={(0, 1)}) is None
    shares.end([0])
    assert shares.skipped() == {}


def test_a_batch_polled_after_records_set_aside_takes_them_along(shares: Shares) -> None:
    shares.begin([0, 1])
    fetch(shares, 0, 4)
    assert poll(shares, bad={(0, 4)}) is None
    fetch(shares, 1, 1)
    assert shares.due(polled(shares)) == {0: 5, 1: 2}


def test_a_gap_after_the_cursor_or_between_records_is_told(shares: Shares) -> None:
    shares.begin([0, 1])
    shares.starts_at(0, 10)
    assert shares.add(topic_message(0, 25)) == Gap(0, 10, 25)
    assert shares.add(topic_message(0, 26)) is None
    assert shares.add(topic_message(0, 30)) == Gap(0, 27, 30)
    shares.starts_at(1, None)
    assert shares.add(topic_message(1, 40)) is None, "a group without a cursor has lost nothing"


def test_the_oldest_record_is_the_first_that_is_not_committed(shares: Shares) -> None:
    without = shares.oldest_received_at
    shares.begin([0])
    shares.add(TopicMessage((0, 1), topic_message(0, 1).record, timestamp_ms=99))
    assert (without, shares.oldest_received_at) == (None, 99_000)
    batch = polled(shares)
    taken = shares.oldest_received_at
    shares.settle(batch)
    assert (taken, shares.oldest_received_at) == (batch.records[0].received_at, None)
