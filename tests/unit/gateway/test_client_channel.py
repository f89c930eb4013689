"""A client's connection and the broker's, on transports and a loop that do nothing by themselves."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any, cast

from support.gateway_traffic import produce, request, response

from base.clock import MockTime
from gateway.client_channel import ClientChannel
from gateway.gateway import Gateway, GatewaySettings
from gateway.in_flight import InFlight
from gateway.rules import ClientConnection, NoRules, RequestVerdict, Rules
from wire.api_table import ApiTable
from wire.channel import Channel
from wire.close_reason import CloseReason
from wire.codec import Request, encode_push_telemetry_response
from wire.listener_context import ListenerContext
from wire.listener_counters import ListenerCounters
from wire.listener_security import ListenerSecurity
from wire.listener_settings import ListenerSettings
from wire.new_channel import Accepted

FETCH = request(1, 15, 1, b"\0" * 10)
FETCHED = response(1, 15, 1, b"records")
PUSH = request(72, 0, 2, bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x01\x00")
IDLE_MS = 600_000


class Transport:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.reads = True
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed, "asyncio drops what is written after close()"
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 2


class _Loop:
    """Runs no task, and calls only when the test does."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> Any:
        coroutine.close()
        return None

    async def create_connection(self, *args: Any, **keys: Any) -> None:
        "a..b".encode("idna")

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)


class _Handler:
    """Answers pushes at once."""

    request_clock = None

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        return encode_push_telemetry_response(request.correlation_id, 0, 0)

    def connection_made(self, channel: Channel) -> None: ...

    def connection_lost(self, channel: Channel, reason: str) -> None: ...


class Pair:
    """A client's connection and the one to its broker.

    Attributes:
        client, broker: the transports.
        channel: the connection.
    """

    def __init__(
        self, *, rules: Rules | None = None, max_in_flight: int = 100, is_connected: bool = True, **settings: Any
    ) -> None:
        self.time = MockTime()
        gateway = Gateway(
            GatewaySettings(
                host="127.0.0.1",
                port=9092,
                request_max_bytes=1 << 20,
                telemetry_max_bytes=1 << 20,
                max_in_flight_requests=max_in_flight,
                response_timeout_ms=3 * IDLE_MS,
                rules=rules or NoRules(),
            )
        )
        self.context = ListenerContext(
            listener_name="PLAINTEXT",
            handler=cast(Any, _Handler()),
            api_table=ApiTable(),
            settings=ListenerSettings(connections_max_idle_ms=IDLE_MS, **settings),
            time=self.time,
            loop=cast(asyncio.AbstractEventLoop, _Loop()),
            counters=ListenerCounters(),
        )
        made = gateway.channel(
            Accepted(
                context=self.context,
                shared=cast(Any, None),
                security=ListenerSecurity(),
                handshake=None,
                connection_id="1",
                client_address="127.0.0.1",
                client_port=1,
                place=None,
            )
        )
        self.channel = cast(ClientChannel, made)
        self.client, self.broker = Transport(), Transport()
        self.channel.connection_made(cast(Any, self.client))
        if is_connected:
            self.channel.broker_connected(cast(Any, self.broker))

    def close_reason(self) -> str | None:
        return self.channel._close_reason


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
    assert pair.client.reads
    pair.channel.data_received(sent[500:] + FETCH)
    assert pair.broker.written == sent
    assert not pair.client.reads
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
