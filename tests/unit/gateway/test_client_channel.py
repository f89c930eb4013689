"""A client's connection and the broker's, on transports and a loop that do nothing by themselves."""

import asyncio
from typing import Any, cast

from support.gateway.gateway_pair import FETCH, FETCHED, IDLE_MS, PUSH, Pair
from support.gateway.gateway_traffic import produce, response

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.rules import ClientConnection, NoRules, RequestVerdict
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.messages.codec import encode_push_telemetry_response


class _MutesProducers(NoRules):
    """Mutes a producer when its request comes, as its quota does."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        connection.mute()
        return None


def test_what_a_client_sent_before_its_end_passes_though_it_was_muted() -> None:
    pair = Pair(rules=_MutesProducers())
    first, second = produce(1, 0, b"a"), produce(2, 0, b"b")
    pair.channel.data_received(first + second)
    pair.channel.eof_received()
    assert pair.broker.written == first
    pair.channel.unmute()
    assert pair.broker.written == first + second
    pair.channel.unmute()
    assert pair.broker.is_closed


def test_a_client_that_ends_within_a_request_is_closed_at_once() -> None:
    pair = Pair()
    pair.channel.data_received(produce(1, records=b"r" * 1000)[:500])
    pair.channel.eof_received()
    assert pair.close_reason() == CloseReason.TRUNCATED_FRAME


def test_a_client_that_ends_within_a_request_gets_the_answers_to_those_before() -> None:
    pair = Pair()
    pair.channel.data_received(FETCH + produce(1, records=b"r" * 1000)[:500])
    pair.channel.eof_received()
    assert pair.close_reason() is None
    pair.channel.broker_sent(FETCHED)
    assert pair.client.written == FETCHED
    assert pair.close_reason() == CloseReason.TRUNCATED_FRAME


def test_a_stop_reads_the_rest_of_a_request_and_passes_its_answer() -> None:
    pair = Pair()
    sent = produce(1, records=b"r" * 1000)
    answer = response(0, 9, 1, b"done")
    pair.channel.data_received(sent[:500])
    pair.channel.drain()
    meanwhile = pair.client.reads
    pair.channel.data_received(sent[500:] + FETCH)
    assert pair.broker.written == sent
    assert (meanwhile, pair.client.reads) == (True, False)
    pair.channel.broker_sent(answer)
    assert pair.client.written == answer
    assert pair.close_reason() == CloseReason.LISTENER_STOPPED


def test_a_client_that_does_not_read_is_not_blamed_on_the_broker() -> None:
    pair = Pair()
    pair.channel.data_received(FETCH)
    pair.channel.broker_sent(response(1, 15, 1, b"r" * 1000)[:500])
    pair.channel.data_received(FETCH)
    pair.channel.pause_writing()
    assert not pair.broker.reads
    pair.time.sleep(IDLE_MS - 1)
    pair.channel.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() is None
    pair.time.sleep(1)
    pair.channel.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == CloseReason.RESPONSES_UNREAD


def test_a_client_that_does_not_read_answers_is_not_read_from() -> None:
    pair = Pair()
    pair.channel.data_received(PUSH)
    pair.channel.pause_writing()
    assert not pair.client.reads
    pair.channel.resume_writing()
    assert pair.client.reads


def test_a_name_of_the_broker_that_cannot_be_looked_up_ends_the_connection() -> None:
    pair = Pair(is_connected=False)
    asyncio.run(pair.channel._connect(cast(Any, pair.client)))
    assert pair.close_reason() == "broker_unreachable"


def test_many_requests_that_the_gateway_answers_in_one_chunk() -> None:
    pair = Pair(max_in_flight=1)
    many = 5_000
    pair.channel.data_received(PUSH * many)
    assert pair.close_reason() is None
    assert pair.client.written == encode_push_telemetry_response(2, 0, 0) * many


def test_the_time_for_which_a_client_was_muted_does_not_count_for_its_request() -> None:
    pair = Pair(rules=_MutesProducers(), request_receive_timeout_ms=30_000)
    pair.channel.data_received(produce(1, 0, b"a") + FETCH[:10])
    pair.time.sleep(40_000)
    pair.channel.unmute()
    pair.context.requests.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() is None
    pair.time.sleep(30_000)
    pair.context.requests.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == CloseReason.REQUEST_UNFINISHED


def test_requests_that_arrive_in_time_are_not_an_unfinished_one() -> None:
    pair = Pair(request_receive_timeout_ms=30_000)
    header = len(FETCH) - 10
    pair.channel.data_received(FETCH[: header - 3])
    for _ in range(5):
        pair.time.sleep(10_000)
        pair.context.requests.expire(pair.time.hi_res_clock_ms())
        assert pair.close_reason() is None
        pair.channel.data_received(FETCH[header - 3 :] + FETCH[: header - 3])
        pair.channel.broker_sent(FETCHED)
    pair.time.sleep(30_000)
    pair.context.requests.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == CloseReason.REQUEST_UNFINISHED
