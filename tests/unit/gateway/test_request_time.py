"""The quota on request time (KIP-124) through both sides of a connection, on a clock that slow parts of it move."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from support.gateway.gateway_pair import PUSH, Pair, Transport
from support.gateway.gateway_traffic import (
    authenticate,
    encoded,
    handshake,
    produce,
    request,
    response,
    response_schema,
)
from support.gateway.judged_relay import JudgedRelay

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.quotas.judge import with_throttle_time
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response

HEARTBEAT = request(12, 4, 9, b"\x02g\0\0\0\x01\x02m\0\0")
LONGEST_MS = 1_000
"""One window: no request time holds a client for longer."""
THROTTLE_TIME_SINCE = {2: 2, 3: 3, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1, 19: 2, 20: 1}
"""By api key, the version of KIP-124 that begins with a throttle time; ApiVersions (18) ends with one from 1 on."""


def heartbeat_answer(throttle_ms: int) -> bytes:
    schema = response_schema(12, 4)
    return response(12, 4, 9, encoded(schema(throttle_time=ms(throttle_ms), error_code=ErrorCode.none)))


def ms(value: int) -> timedelta:
    return timedelta(milliseconds=value)


class SlowBroker(Transport):
    """A broker's socket that takes the loop's time."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        super().__init__()
        self.takes_ms = 0
        self._sleep = sleep

    def write(self, data: bytes) -> None:
        super().write(data)
        self._sleep(self.takes_ms)


class Timed:
    """A connection whose client may take 1 % of the loop's time."""

    def __init__(self) -> None:
        self.relay = JudgedRelay()
        self.time = self.relay.time
        self.relay.limit(self.relay.managers.request, 1)
        self.pair = Pair(time=self.time, rules=self.relay.rules, is_connected=False)
        self.broker = SlowBroker(self.time.sleep)
        self.pair.channel.broker_connected(cast(Any, self.broker))

    @property
    def is_held(self) -> bool:
        return self.pair.channel._requests.mutes > 0

    @property
    def exempt(self) -> float:
        """Percent of one second, in the 30 s of the first window."""
        return self.relay.managers.request.exempt_sensor.metrics[0].measurable_value() * 30

    def from_client(self, data: bytes, takes_ms: int = 0) -> None:
        self.broker.takes_ms = takes_ms
        self.pair.channel.data_received(data)

    def from_broker(self, data: bytes) -> bytes:
        """What the client gets."""
        before = len(self.pair.client.written)
        self.pair.channel.broker_sent(data)
        return self.pair.client.written[before:]

    def waits_one_window(self, took_ms: int = 0) -> bool:
        """True if the client is held for one window from before the last `took_ms` on."""
        self.time.sleep(LONGEST_MS - took_ms - 1)
        self.relay.reap()
        before = self.is_held
        self.time.sleep(1)
        self.relay.reap()
        return before and not self.is_held


@pytest.fixture
def timed() -> Timed:
    return Timed()


def test_the_time_of_produces_without_acks_is_exempt_and_no_other_requests(timed: Timed) -> None:
    for number in range(5):
        timed.from_client(produce(number, acks=0), takes_ms=200)
    timed.from_client(HEARTBEAT)
    assert timed.from_broker(heartbeat_answer(0)) == heartbeat_answer(0)
    assert not timed.is_held
    assert timed.exempt == pytest.approx(4 * 20, rel=0.05), "a request's time is recorded with the next one"
    counts = {key.api_key: each.gateway_ns for key, each in timed.relay.rules.counts.since_start().items()}
    assert counts == {0: 4 * 200_000_000, 12: 0}


def test_later_bytes_of_a_produce_without_acks_are_exempt_too(timed: Timed) -> None:
    sent = produce(1, acks=0, records=bytes(1_000))
    timed.from_client(sent[:500], takes_ms=200)
    timed.from_client(sent[500:], takes_ms=200)
    timed.from_client(HEARTBEAT)
    assert timed.from_broker(heartbeat_answer(0)) == heartbeat_answer(0)


def test_a_produce_without_acks_behind_it_hides_no_requests_time(timed: Timed) -> None:
    timed.from_client(HEARTBEAT, takes_ms=200)
    timed.from_client(produce(1, acks=0))
    assert timed.from_broker(heartbeat_answer(0)) == heartbeat_answer(LONGEST_MS)
    assert timed.waits_one_window()


def test_later_bytes_of_a_request_that_began_behind_a_produce_without_acks_are_its_own(timed: Timed) -> None:
    timed.pair.channel.mute()
    sent = produce(2, records=bytes(1_000))
    timed.from_client(produce(1, acks=0) + sent[:500])
    timed.pair.channel.unmute()
    timed.from_client(sent[500:], takes_ms=200)
    timed.from_broker(response(0, 9, 2, b"\x01" + bytes(4) + b"\0"))
    assert timed.is_held
    assert timed.exempt == 0


def test_a_push_that_the_gateway_answers_is_held_for_its_time(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = timed.pair.handler.handle

    def slow(channel: Channel, request: Request) -> bytes | None:
        timed.time.sleep(200)
        return handle(channel, request)

    monkeypatch.setattr(timed.pair.handler, "handle", slow)
    timed.from_client(PUSH)
    assert timed.pair.client.written == encode_push_telemetry_response(2, LONGEST_MS, 0)
    assert timed.waits_one_window(took_ms=200)
    assert timed.relay.rules.judge.throttled["Request"] == 1


def sasl_answer(api_key: int, error: ErrorCode) -> bytes:
    if api_key == 17:
        return response(17, 1, 0, encoded(response_schema(17, 1)(error_code=error, mechanisms=())))
    return response(36, 2, 0, encoded(response_schema(36, 2)(error_code=error, error_message=None, auth_bytes=b"")))


SASL = pytest.mark.parametrize(("api_key", "sent"), [(17, handshake(b"PLAIN")), (36, authenticate(b"\0a\0b"))])
OUTCOMES = pytest.mark.parametrize(
    ("error", "is_log_in"),
    [(ErrorCode.none, True), (ErrorCode.sasl_authentication_failed, True), (ErrorCode.illegal_sasl_state, False)],
)


@SASL
@OUTCOMES
def test_sasl_is_exempt_as_part_of_a_log_in_alone(
    timed: Timed, api_key: int, sent: bytes, error: ErrorCode, is_log_in: bool
) -> None:
    timed.from_client(sent, takes_ms=200)
    answer = sasl_answer(api_key, error)
    assert timed.from_broker(answer) == answer
    assert timed.is_held is not is_log_in
    assert timed.exempt == pytest.approx(20 if is_log_in else 0)


@SASL
@OUTCOMES
def test_sasl_that_ends_at_the_gateway_is_exempt_as_part_of_a_log_in_alone(
    timed: Timed, api_key: int, sent: bytes, error: ErrorCode, is_log_in: bool
) -> None:
    relay = timed.relay
    relay.requests._ends_sasl = True
    relay.from_client(sent)
    ((in_flight, _),) = relay.served
    in_flight.local = answer = sasl_answer(api_key, error)
    relay.client.loop_ns = 200_000_000
    assert relay.from_broker(b"") == answer
    assert relay.client.mutes == (not is_log_in)
    assert timed.exempt == pytest.approx(20 if is_log_in else 0)


@pytest.mark.parametrize(("api_key", "since"), THROTTLE_TIME_SINCE.items())
def test_each_response_has_its_throttle_time_from_the_version_of_kip_124_on(api_key: int, since: int) -> None:
    body = bytes(100)
    patched = (2_000).to_bytes(4) + body[4:]
    for version in range(since + 1):
        sent = InFlight(api_key, version, 9, "app", 100, 0)
        assert with_throttle_time(sent, body, 2_000) == (patched if version == since else body)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_carries_its_throttle_time_from_version_1_on(timed: Timed, version: int) -> None:
    schema = response_schema(18, version)
    item = schema.__annotations__["api_keys"].__args__[0]
    keys = tuple(item(api_key=key, min_version=0, max_version=3) for key in (0, 1, 3, 999))
    more = {"throttle_time": ms(0)} if version else {}
    body = b"\x02a\x021\0" if version >= 3 else b""
    timed.from_client(request(18, version, 9, body), takes_ms=200)
    answer = timed.from_broker(
        response(18, version, 9, encoded(schema(error_code=ErrorCode.none, api_keys=keys, **more)))
    )
    message, size = entity_reader(schema)(answer, 8)
    assert 8 + size == len(answer)
    assert [each.api_key for each in message.api_keys] == [0, 1, 3, 71, 72]
    assert getattr(message, "throttle_time", ms(LONGEST_MS)) == ms(LONGEST_MS)
    assert timed.waits_one_window()


def test_an_api_versions_that_an_old_broker_refuses_stays_as_it_is(timed: Timed) -> None:
    refused = response(18, 0, 9, b"\0\x23" + b"\0\0\0\x01" + b"\0\x12\0\0\0\x02")
    timed.from_client(request(18, 4, 9, b"\x02a\x021\0"), takes_ms=200)
    assert timed.from_broker(refused) == refused
    assert timed.waits_one_window()
