"""Kafka's quotas on what passes a gateway: through both streams of its data path, on clocks that stand still."""

import dataclasses
import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from support.gateway.gateway_traffic import encoded, framed, request, request_schema, response, response_schema
from support.gateway.judged_relay import CLIENT, Counted, JudgedRelay

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.quotas.judge import with_throttle_time
from fleetgauge.gateway.quotas.mutations import QUOTA_EXCEEDED
from fleetgauge.gateway.requests.walk import COMPRESSIONS
from fleetgauge.gateway.rules import MAX_BODY_BYTES

WINDOW_S = 10
"""Ten whole windows of a second, and the current one."""


def read(schema: Any, frame: bytes) -> Any:
    """The response in a frame."""
    header = 9 if schema.__header_schema__.__flexible__ else 8
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    message, size = entity_reader(schema)(frame, header)
    assert header + size == len(frame)
    return message


def batch(records: int, codec: int = 0, size: int = 100) -> bytes:
    """A record batch whose header alone is real."""
    header = bytearray(61)
    struct.pack_into(">qiib", header, 0, 0, 49 + size, -1, 2)
    struct.pack_into(">h", header, 21, codec)
    struct.pack_into(">i", header, 57, records)
    return bytes(header) + bytes(size)


def produce(correlation_id: int, *batches: bytes, version: int = 9, acks: int = -1) -> bytes:
    schema = request_schema(0, version)
    topic = schema.__annotations__["topic_data"].__args__[0]
    partition = topic.__annotations__["partition_data"].__args__[0]
    body = schema(
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=(topic(name="orders", partition_data=(partition(index=0, records=b"".join(batches)),)),),
    )
    return request(0, version, correlation_id, encoded(body))


def produced(correlation_id: int, version: int = 9, error: ErrorCode = ErrorCode.none, throttle_ms: int = 0) -> bytes:
    schema = response_schema(0, version)
    topic = schema.__annotations__["responses"].__args__[0]
    partition = topic.__annotations__["partition_responses"].__args__[0]
    names = partition.__dataclass_fields__
    values = {"index": 0, "error_code": error, "base_offset": 5, "record_errors": (), "error_message": None}
    results = (partition(**{key: value for key, value in values.items() if key in names}),)
    body = schema(responses=(topic(name="orders", partition_responses=results),), throttle_time=ms(throttle_ms))
    return response(0, version, correlation_id, encoded(body))


def ms(value: int) -> timedelta:
    return timedelta(milliseconds=value)


class CountedRelay(JudgedRelay):
    client: Counted


@pytest.fixture
def relay() -> CountedRelay:
    return CountedRelay()


@pytest.mark.parametrize("version", [3, 5, 8, 9, 10, 12])
def test_a_producer_over_its_quota_waits_as_long_as_its_answer_says(relay: CountedRelay, version: int) -> None:
    frame = produce(1, batch(10, size=30_000), version=version)
    relay.limit(relay.managers.produce, 1_000)
    assert relay.from_client(frame) == frame
    assert relay.client.mutes == 1, "as a broker, that reads no further request of a connection until it has answered"
    answer = relay.from_broker(produced(1, version))
    expected = round((len(frame) - 4 - 1_000 * WINDOW_S) / 1_000 * 1_000)
    assert read(response_schema(0, version), answer).throttle_time == ms(expected)
    assert relay.client.mutes == 1
    relay.time.sleep(expected - 1)
    relay.reap()
    assert relay.client.mutes == 1
    relay.time.sleep(1)
    relay.reap()
    assert relay.client.mutes == 0
    assert relay.rules.judge.throttled["Produce"] == 1


def test_a_client_that_the_broker_has_not_accepted_uses_up_no_quota(relay: CountedRelay) -> None:
    relay.requests._policy = dataclasses.replace(relay.policy, requires_sasl=True)
    relay.limit(relay.managers.produce, 1_000)
    frame = produce(4, batch(10, size=30_000))
    assert relay.from_client(frame) == frame, "the broker refuses it"
    assert relay.client.mutes == 0
    del relay.in_flight[:]
    relay.from_client(request(17, 1, 1, b"\0\x05PLAIN"))
    relay.from_broker(response(17, 1, 1, b"\0\0\0\0\0\0"))
    relay.from_client(request(36, 2, 2, b"\x11\0alice\0a-secret\0"))
    relay.from_broker(response(36, 2, 2, b"\0\0\0\x01" + bytes(9)))
    relay.from_client(frame)
    assert relay.client.mutes == 1


def test_within_its_quota_a_producer_gets_the_brokers_answer_byte_by_byte(relay: CountedRelay) -> None:
    relay.limit(relay.managers.produce, 1_000_000)
    relay.from_client(produce(1, batch(10)))
    answer = produced(1, throttle_ms=70)
    assert b"".join(relay.from_broker(answer[at : at + 1]) for at in range(len(answer))) == answer
    assert relay.client.mutes == 0


def test_the_longer_throttle_time_of_broker_and_gateway_is_told(relay: CountedRelay) -> None:
    relay.limit(relay.managers.produce, 1_000)
    relay.from_client(produce(1, batch(10, size=10_100)))
    answer = relay.from_broker(produced(1, throttle_ms=60_000))
    assert read(response_schema(0, 9), answer).throttle_time == ms(60_000)


def test_a_producer_without_acks_is_held_at_once(relay: CountedRelay) -> None:
    relay.limit(relay.managers.produce, 1_000)
    frame = produce(1, batch(3, codec=4, size=20_000), acks=0)
    assert relay.from_client(frame) == frame
    assert relay.client.mutes == 1
    relay.time.sleep(60_000)
    relay.reap()
    assert relay.client.mutes == 0
    (counts,) = relay.rules.counts.since_start().values()
    assert (counts.requests, counts.throttled, counts.records, counts.batches) == (1, 1, 3, 1)


def fetch(
    correlation_id: int, *, version: int = 12, epoch: int = 0, session: int = 0, max_bytes: int = 50_000_000
) -> bytes:
    schema = request_schema(1, version)
    values = {
        "replica_id": -1,
        "max_wait": ms(500),
        "min_bytes": 60_000,
        "max_bytes": max_bytes,
        "session_id": session,
        "session_epoch": epoch,
        "topics": (),
        "forgotten_topics_data": (),
        "isolation_level": 0,
        "rack_id": "",
    }
    body = schema(**{key: value for key, value in values.items() if key in schema.__dataclass_fields__})
    return request(1, version, correlation_id, encoded(body))


def fetched(
    correlation_id: int,
    *,
    version: int = 12,
    size: int = 1_000,
    session: int = 7,
    error: int = 0,
    throttle_ms: int = 0,
) -> bytes:
    schema = response_schema(1, version)
    topic = schema.__annotations__["responses"].__args__[0]
    partition = topic.__annotations__["partitions"].__args__[0]
    values = {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "high_watermark": 9,
        "last_stable_offset": 9,
        "log_start_offset": 0,
        "aborted_transactions": (),
        "preferred_read_replica": -1,
        "records": bytes(size),
    }
    partitions = (partition(**{key: value for key, value in values.items() if key in partition.__dataclass_fields__}),)
    ids: dict[str, Any] = {"topic": "orders"} if "topic" in topic.__dataclass_fields__ else {"topic_id": UUID(int=1)}
    whole = {
        "throttle_time": ms(throttle_ms),
        "error_code": ErrorCode(error),
        "session_id": session,
        "responses": (topic(**ids, partitions=partitions),),
    }
    body = schema(**{key: value for key, value in whole.items() if key in schema.__dataclass_fields__})
    return response(1, version, correlation_id, encoded(body))


@pytest.mark.parametrize("version", [4, 6, 7, 11, 12, 13, 15])
@pytest.mark.parametrize("chunk", [1, 700, 1 << 20])
def test_a_throttled_fetch_is_answered_empty_and_not_recorded(relay: CountedRelay, version: int, chunk: int) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    relay.from_client(fetch(1, version=version, epoch=3, session=7))
    first = fetched(1, version=version, size=9_000)
    assert relay.from_broker(first) == first
    relay.from_client(fetch(2, version=version, epoch=4, session=7) + fetch(3, version=version, epoch=5, session=7))
    second, third = (fetched(number, version=version, size=9_000) for number in (2, 3))
    relay.time.sleep(1_000)
    stream = second + third
    passed = b"".join(relay.from_broker(stream[at : at + chunk]) for at in range(0, len(stream), chunk))
    end = 4 + struct.unpack(">i", passed[:4])[0]
    schema = response_schema(1, version)
    answers = [read(schema, passed[:end]), read(schema, passed[end:])]
    for each in answers:
        assert each.responses == ()
        assert each.throttle_time > ms(6_000)
        assert getattr(each, "session_id", 7) == 7
    assert answers[0].throttle_time == answers[1].throttle_time, "the first was not recorded"
    assert relay.rules.judge.throttled["Fetch"] == 2
    assert relay.client.mutes == 2


def test_a_fetch_asks_for_no_more_than_its_windows_hold(relay: CountedRelay) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    passed = relay.from_client(fetch(1))
    body = read_request(request_schema(1, 12), passed)
    assert (body.max_bytes, body.min_bytes) == (10_000, 10_000)
    small = fetch(2, max_bytes=9_000)
    assert relay.from_client(small) == small


def read_request(schema: Any, frame: bytes) -> Any:
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    header = 14 + len(CLIENT) + 1
    message, size = entity_reader(schema)(frame, header)
    assert header + size == len(frame)
    return message


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_that_is_answered_empty_keeps_the_longer_throttle_time_of_the_broker(
    relay: CountedRelay, version: int
) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    relay.from_client(fetch(1, version=version, epoch=3, session=7) + fetch(2, version=version, epoch=4, session=7))
    relay.from_broker(fetched(1, version=version, size=9_900))
    answer = read(
        response_schema(1, version), relay.from_broker(fetched(2, version=version, size=9_000, throttle_ms=90_000))
    )
    assert answer.responses == ()
    assert answer.throttle_time == ms(90_000)


@pytest.mark.parametrize("extra", [1, 20_000, 100_000])
def test_a_fetch_that_is_longer_than_what_is_collected_passes_as_it_is(relay: CountedRelay, extra: int) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    header_bytes = 10 + len(CLIENT) + 1
    frame = framed(fetch(1)[4:].ljust(header_bytes + MAX_BODY_BYTES + extra, b"\0"))
    relay.requests._policy = dataclasses.replace(relay.policy, max_request_bytes=8 << 20)
    assert relay.from_client(frame) == frame


def test_a_single_batch_above_the_windows_is_delivered_all_the_same(relay: CountedRelay) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    relay.from_client(fetch(1, epoch=1, session=7))
    answer = read(response_schema(1, 12), relay.from_broker(fetched(1, size=30_000)))
    assert len(answer.responses[0].partitions[0].records) == 30_000
    assert answer.throttle_time > ms(15_000)
    assert relay.client.mutes == 1


def test_a_fetch_outside_of_a_session_is_answered_before_the_broker_is_asked(relay: CountedRelay) -> None:
    relay.limit(relay.managers.fetch, 100_000)
    relay.from_client(fetch(1))
    relay.from_broker(fetched(1, size=90_000))
    relay.limit(relay.managers.fetch, 1_000)
    assert relay.from_client(fetch(2)) == b""
    answer = read(response_schema(1, 12), relay.from_broker(b""))
    assert (answer.responses, answer.session_id) == ((), 0)
    assert answer.throttle_time > ms(165_000)  # as if the broker had answered as much again
    assert relay.client.mutes == 1


@pytest.mark.parametrize(("version", "empty"), [(0, 4), (1, 8), (3, 8)])
def test_fetches_older_than_every_known_layout_are_answered_empty_too(
    relay: CountedRelay, version: int, empty: int
) -> None:
    relay.limit(relay.managers.fetch, 1_000)
    for number, size in ((1, 9_000), (2, 9_000)):
        asked = request(1, version, number, bytes(16))
        assert relay.from_client(asked) == asked
        answer = relay.from_broker(response(1, version, number, bytes(size)))
    assert len(answer) == 8 + empty
    assert answer.endswith(bytes(4))
    assert relay.client.mutes == 1


def test_an_error_of_a_fetch_is_never_replaced(relay: CountedRelay) -> None:
    relay.limit(relay.managers.fetch, 10)
    relay.from_client(fetch(1, epoch=1, session=7))
    code = ErrorCode.fetch_session_id_not_found.value
    answer = read(response_schema(1, 12), relay.from_broker(fetched(1, size=50, error=code)))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found


def create_topics(correlation_id: int, topics: dict[str, int], version: int = 7) -> bytes:
    schema = request_schema(19, version)
    topic = schema.__annotations__["topics"].__args__[0]
    made = tuple(
        topic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name, count in topics.items()
    )
    return request(19, version, correlation_id, encoded(schema(topics=made, timeout=ms(1), validate_only=False)))


def created(correlation_id: int, names: list[str], version: int = 7) -> bytes:
    schema = response_schema(19, version)
    result = schema.__annotations__["topics"].__args__[0]
    fields = {"topic_id": UUID(int=1), "error_code": ErrorCode.none, "error_message": None, "configs": ()}
    values = {key: value for key, value in fields.items() if key in result.__dataclass_fields__}
    results = tuple(result(name=name, **values) for name in names)
    return response(19, version, correlation_id, encoded(schema(topics=results, throttle_time=ms(0))))


def test_topics_above_a_strict_quota_are_refused_and_the_others_created(relay: CountedRelay) -> None:
    relay.limit(relay.managers.controller_mutation, 2)  # a burst of 22
    passed = relay.from_client(create_topics(1, {"a": 20, "b": 12, "c": 1}))
    assert [each.name for each in read_request(request_schema(19, 7), passed).topics] == ["a", "b"]
    answer = read(response_schema(19, 7), relay.from_broker(created(1, ["a", "b"])))
    errors = {each.name: (each.error_code, each.error_message) for each in answer.topics}
    assert errors["c"] == (ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
    assert errors["a"] == errors["b"] == (ErrorCode.none, None)
    assert answer.throttle_time == ms(5_000), "ten tokens below zero at two a second"
    assert relay.client.mutes == 1


def test_a_request_that_is_refused_as_a_whole_never_reaches_the_broker(relay: CountedRelay) -> None:
    relay.limit(relay.managers.controller_mutation, 1)
    relay.from_client(create_topics(1, {"a": 20}))
    relay.from_broker(created(1, ["a"]))
    relay.client.mutes = 0
    assert relay.from_client(create_topics(2, {"b": 1}, version=6)) == b""
    answer = read(response_schema(19, 6), relay.from_broker(b""))
    assert [each.error_code for each in answer.topics] == [ErrorCode.throttling_quota_exceeded]
    assert answer.throttle_time == ms(9_000)


def test_clients_that_do_not_know_the_error_are_throttled_only(relay: CountedRelay) -> None:
    relay.limit(relay.managers.controller_mutation, 1)
    frame = create_topics(1, {"a": 20, "b": 5}, version=5)
    assert relay.from_client(frame) == frame
    answer = read(response_schema(19, 5), relay.from_broker(created(1, ["a", "b"], version=5)))
    assert answer.throttle_time == ms(14_000)
    assert [each.error_code for each in answer.topics] == [ErrorCode.none, ErrorCode.none]


def metadata_of(correlation_id: int, partitions: int) -> bytes:
    schema = response_schema(3, 12)
    topic = schema.__annotations__["topics"].__args__[0]
    partition = topic.__annotations__["partitions"].__args__[0]
    some = tuple(
        partition(
            error_code=ErrorCode.none, partition_index=index, leader_id=1, leader_epoch=0,
            replica_nodes=(1,), isr_nodes=(1,), offline_replicas=(),
        )
        for index in range(partitions)
    )  # fmt: skip
    body = schema(
        throttle_time=ms(0), brokers=(), cluster_id="c", controller_id=1,
        topics=(
            topic(error_code=ErrorCode.none, name="orders", topic_id=UUID(int=9), is_internal=False, partitions=some),
        ),
    )  # fmt: skip
    return response(3, 12, correlation_id, encoded(body))


@pytest.mark.parametrize("by_id", [False, True])
def test_a_deleted_topic_counts_with_the_partitions_that_metadata_told(relay: CountedRelay, by_id: bool) -> None:
    schema = request_schema(3, 12)
    relay.from_client(
        request(3, 12, 1, encoded(schema(topics=(), include_topic_authorized_operations=False)), tags=b"\0")
    )
    relay.from_broker(metadata_of(1, 17))
    relay.limit(relay.managers.controller_mutation, 1)
    schema = request_schema(20, 6)
    state = schema.__annotations__["topics"].__args__[0]
    gone = state(name=None, topic_id=UUID(int=9)) if by_id else state(name="orders", topic_id=None)
    relay.from_client(request(20, 6, 2, encoded(schema(topics=(gone,), timeout=ms(1)))))
    (metric,) = (
        each
        for name, each in relay.metrics.metrics().items()
        if (name.name, name.group) == ("tokens", "ControllerMutation")
    )
    assert metric.metric_value() == 11 - 17


def test_time_in_the_gateway_above_the_request_quota_throttles(relay: CountedRelay) -> None:
    relay.limit(relay.managers.request, 1)
    heartbeat = request(12, 4, 1, encoded(request_schema(12, 4)(group_id="g", generation_id=1, member_id="m")))
    relay.from_client(heartbeat)
    relay.client.loop_ns = 150_000_000
    body = response_schema(12, 4)(throttle_time=ms(0), error_code=ErrorCode.rebalance_in_progress)
    answer = read(response_schema(12, 4), relay.from_broker(response(12, 4, 1, encoded(body))))
    assert answer.throttle_time > ms(0)
    assert answer.error_code is ErrorCode.rebalance_in_progress
    assert relay.client.mutes == 1
    assert relay.rules.judge.throttled["Request"] == 1


def test_traffic_is_counted_by_client_api_and_group(relay: CountedRelay) -> None:
    relay.from_client(produce(1, batch(10, codec=4), batch(5, codec=0)))
    relay.time.sleep(3)
    answer = produced(1, error=ErrorCode.not_leader_or_follower)
    for at in range(len(answer)):
        relay.from_broker(answer[at : at + 1])
    commit = request_schema(8, 7)(group_id="billing", member_id="m", topics=())
    relay.from_client(request(8, 7, 2, encoded(commit)))
    relay.from_broker(response(8, 7, 2, encoded(response_schema(8, 7)(throttle_time=ms(0), topics=()))))
    minute = {(key.api_key, key.group_id): counts for key, counts in relay.rules.counts.roll().items()}
    assert set(minute) == {(0, ""), (8, "billing")}
    produced_counts = minute[0, ""]
    assert (produced_counts.records, produced_counts.batches) == (15, 2)
    assert dict(zip(COMPRESSIONS, produced_counts.compressions, strict=True))["zstd"] == 1
    assert produced_counts.errors == {6: 1}
    assert produced_counts.broker_ns == 3_000_000
    assert relay.rules.counts.roll() == {}
    assert {key.group_id for key in relay.rules.counts.since_start()} == {""}


def test_errors_of_an_answer_that_ends_in_the_next_minute_are_counted_there(relay: CountedRelay) -> None:
    relay.from_client(produce(1, batch(1)))
    answer = produced(1, error=ErrorCode.not_leader_or_follower)
    relay.from_broker(answer[:-10])
    relay.rules.counts.roll()
    relay.from_broker(answer[-10:])
    assert [counts.errors for counts in relay.rules.counts.roll().values()] == [{6: 1}]


@pytest.mark.parametrize(("api_key", "version"), [(18, 3), (0, 99), (8, 2)])
def test_an_answer_without_a_place_for_the_throttle_time_is_left_as_it_is(api_key: int, version: int) -> None:
    assert with_throttle_time(InFlight(api_key, version, 1, "client", 0, 0), bytes(40), 5) == bytes(40)


def test_frames_are_as_kio_reads_them() -> None:
    assert framed(b"ab") == b"\0\0\0\2ab"
