"""The whole pipeline of a request on clocks moved by hand: bytes, channel, dispatcher, manager, answers. No socket.

An input is a program: bytes and well-made requests on four connections, time, a push log that commits late or fails,
edits of the subscriptions, ends of connections.
"""

import asyncio
import struct
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from fuzz.payloads import payloads
from fuzz.program import Program
from fuzz.target import Target
from fuzz.targets.codecs import COMPRESS
from structlog.testing import capture_logs
from support.accepted import accepted
from support.clients.raw_client import framed, get_request, header, parse_get, parse_push, push_request, uvarint
from support.payloads.payloads import metrics_data

from fleetgauge.base.clock import MockTime
from fleetgauge.base.library_log import log_through
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.listener.apis.acls import AclApis
from fleetgauge.node.listener.apis.admin import AdminApis
from fleetgauge.node.listener.apis.cluster import ClusterApis
from fleetgauge.node.listener.apis.configs import ConfigApis
from fleetgauge.node.listener.apis.subscriptions import SubscriptionsHandler
from fleetgauge.node.listener.dispatcher import RequestDispatcher
from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
from fleetgauge.node.listener.push import PushHandler
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.push_log.log import Answer, PushLogError, PushLogFullError
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.tcp_channel import TcpChannel
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import ListenerCounters
from fleetgauge.wire.context.listener_settings import ListenerSettings

MAX_INSTANCES = 6
MAX_BUFFERED_BYTES = 8_192
ANSWERS = {0, 42, 76, 87, 89, 117, 118}
"""What a client may ever read in an answer to 71 or 72 (docs/decisions/016-error-codes-that-clients-survive.md)."""

_GET, _PUSH = 71, 72
_SUBSCRIPTIONS: tuple[dict[str, dict[str, str]], ...] = (
    {},
    {"all": {"metrics": "*", "interval.ms": "100"}},
    {"all": {"metrics": "*", "interval.ms": "60000"}, "some": {"match": "client_id=r.*", "metrics": "a,b"}},
)
_STEPS_MS = (1, 50, 100, 1_000, 60_000, 200_000, 600_000)
_IDS = tuple(uuid.UUID(int=number << 64 | 5) for number in range(8))


class _Transport(asyncio.Transport):
    """Takes what is written; whether it reads and whether it is closed is only remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.reads = True
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        assert not self.closed, "written after the close"
        self.written += data

    def is_reading(self) -> bool:
        return self.reads and not self.closed

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert self.reads, "paused twice"
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads, "resumed twice"
        self.reads = True

    def close(self) -> None:
        self.closed = True

    abort = close


class _Loop:
    """What is called soon, called between operations."""

    def __init__(self) -> None:
        self._calls: deque[Callable[..., Any]] = deque()

    def call_soon(self, call: Callable[..., Any]) -> None:
        self._calls.append(call)

    def run(self) -> None:
        while self._calls:
            self._calls.popleft()()


class _Log:
    """A push log that commits when it is told to."""

    def __init__(self) -> None:
        self.waiting: deque[Push] = deque()
        self.answer: Answer

    @property
    def pending(self) -> int:
        return len(self.waiting)

    @property
    def problem(self) -> str | None:
        return None

    def append(self, push: Push) -> PushLogError | None:
        assert isinstance(push.record.metrics, bytes)
        self.waiting.append(push)
        return None

    def finish(self, count: int, error: PushLogError | None) -> None:
        taken = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        if taken:
            self.answer(taken, error)

    def counters(self) -> dict[str, int]:
        return {}

    async def drain(self) -> None: ...

    async def close(self) -> None: ...


class _Client:
    """One connection, and the answers to its well-made requests."""

    def __init__(self, node: "_Node", number: int) -> None:
        self.transport = _Transport()
        self.channel = TcpChannel(accepted(node.context, client=("127.0.0.1", 1_000 + number), index=number))
        self.channel.connection_made(self.transport)
        self.asked: deque[tuple[int, int]] = deque()
        self.is_raw = False
        self.has_reset = False

    def deliver(self, data: bytes) -> None:
        """As a loop does: nothing arrives while reading is paused or after the close."""
        if self.transport.is_reading() and data:
            self.channel.data_received(data)

    def ask(self, api_key: int, correlation_id: int, request: bytes) -> None:
        if self.transport.is_reading():
            self.asked.append((api_key, correlation_id))
            self.channel.data_received(request)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Whole responses in order, each with the api key of its request. Stops knowing after raw bytes."""
        written = self.transport.written
        while len(written) >= 4:
            (size,) = struct.unpack_from(">i", written)
            assert 4 <= size <= len(written) - 4, "a response is cut"
            body = bytes(written[4 : 4 + size])
            del written[: 4 + size]
            if self.is_raw:
                continue
            api_key, correlation_id = self.asked.popleft()
            assert body[:4] == struct.pack(">i", correlation_id), "an answer out of its turn"
            yield api_key, body[4:]
        assert not written, "a response is cut"


class _Node:
    """The composition of `node.app`, without its edges."""

    def __init__(self) -> None:
        self.time = MockTime()
        self.loop = _Loop()
        self.log = _Log()
        self.counters = ListenerCounters()
        metrics = Metrics(time=self.time)
        self.manager = ClientMetricsManager(
            ClientMetricsSettings(
                cache_max_size=MAX_INSTANCES, telemetry_max_bytes=512, telemetry_max_decompressed_bytes=2_048
            ),
            node_id=1,
            cluster_id="fuzz",
            metrics=metrics,
            push_ids=PushIds(writer=1),
            new_instance_id=iter(uuid.UUID(int=n << 66 | 9) for n in range(1, 1 << 20)).__next__,
        )
        table = ApiTable()
        request_quota = RequestQuota(
            ClientRequestQuotaManager(ClientQuotaManagerConfig(), metrics, self.time), Identities(), table, self.time
        )
        authorization = Authorization(AuthorizationSettings(), self.time)
        subscriptions = SubscriptionsHandler(self.manager, authorization, self.time)
        pushes = PushHandler(
            self.manager, self.log, authorization, self.time, request_quota, plugin_export_timeout_ms=1_000
        )
        misdirected = MisdirectedClients(self.time)
        cluster = ClusterApis(1, "fuzz", lambda _: ("localhost", 9_092), authorization, misdirected)
        # No listener serves admin APIs here: the requests are read, and every resource is refused.
        apis = [ConfigApis(None, None), AclApis(None)]  # type: ignore[arg-type]
        admin = AdminApis(None, apis, authorization, (), request_quota, self.time)  # type: ignore[arg-type]
        self.context = ListenerContext(
            listener_name="PLAINTEXT",
            handler=RequestDispatcher(
                table,
                cluster,
                subscriptions,
                pushes,
                admin,
                self.manager.instances,
                misdirected,
                request_quota,
                self.time,
            ),
            api_table=table,
            settings=ListenerSettings(
                socket_request_max_bytes=1_024,
                max_in_flight_requests=4,
                queued_max_request_bytes=MAX_BUFFERED_BYTES,
                write_high_water_bytes=4_096,
            ),
            time=self.time,
            loop=self.loop,  # type: ignore[arg-type]
            counters=self.counters,
        )
        self.clients = [_Client(self, number) for number in range(4)]
        self.made = len(self.clients)
        self.subscription_ids: dict[uuid.UUID, int] = {}
        self.instance_ids = list(_IDS)

    def lose(self, index: int, error: Exception | None = None) -> None:
        """The connection ends, and another takes its place."""
        self.clients[index].channel.connection_lost(error)
        self.clients[index] = _Client(self, self.made)
        self.made += 1

    def settle(self) -> None:
        """What a loop does between two events; then everything that must hold."""
        self.loop.run()
        for index, client in enumerate(self.clients):
            for api_key, body in client.answers():
                self._check_answer(api_key, body)
            if client.transport.closed:
                self.lose(index)
        assert len(self.manager.instances.cache) <= MAX_INSTANCES
        assert self.context.requests.held_bytes <= MAX_BUFFERED_BYTES
        assert CloseReason.HANDLER_ERROR not in self.counters.closed

    def _check_answer(self, api_key: int, body: bytes) -> None:
        if api_key == _GET:
            answer = parse_get(body[1:])
            assert answer.client_instance_id.int > 1
            if answer.error_code == 0:
                self.subscription_ids[answer.client_instance_id] = answer.subscription_id
                self.instance_ids.append(answer.client_instance_id)
        elif api_key == _PUSH:
            answer = parse_push(body[1:])  # type: ignore[assignment]
        else:
            return
        assert answer.throttle_time_ms == 0
        assert answer.error_code in ANSWERS

    def end(self) -> None:
        """Every push is answered, every connection ends: nothing is left behind."""
        self.log.finish(len(self.log.waiting), None)
        self.settle()
        for client in self.clients:
            client.channel.connection_lost(None)
        self.loop.run()
        assert not self.context.channels
        assert self.context.requests.held_bytes == 0
        assert len(self.manager.instances.cache) == 0
        self.manager.close()


def run(data: bytes) -> None:
    program = Program(data)
    log_through(structlog.get_logger)  # as a process of a node does
    with capture_logs() as logs:
        node = _Node()
        node.settle()
        while program.is_left:
            _OPERATIONS[program.byte() % len(_OPERATIONS)](node, program)
            node.settle()
        node.end()
    assert not [entry for entry in logs if "exc_info" in entry or entry["log_level"] == "error"], logs


def _raw(node: _Node, program: Program) -> None:
    client = node.clients[program.byte() % 4]
    client.is_raw = True
    client.deliver(program.take(program.byte()))


def _get(node: _Node, program: Program) -> None:
    index = program.byte()
    instance_id = None if index & 0x80 else node.instance_ids[index % len(node.instance_ids)]
    _ask(node, program, _GET, lambda correlation_id, name: get_request(correlation_id, instance_id, name))


def _push(node: _Node, program: Program) -> None:
    instance_id = node.instance_ids[program.byte() % len(node.instance_ids)]
    flags = program.byte()
    codec = CompressionType(program.byte() % len(CompressionType))
    payload = program.take(program.byte() * 2)
    subscription_id = node.subscription_ids.get(instance_id, 0) ^ (flags & 1)
    metrics = payload if flags & 2 else COMPRESS[codec](payload)

    def request(correlation_id: int, name: str) -> bytes:
        return push_request(
            correlation_id, instance_id, subscription_id, metrics,
            compression_type=codec, terminating=bool(flags & 4), client_id=name,
        )  # fmt: skip

    _ask(node, program, _PUSH, request)


def _other(node: _Node, program: Program) -> None:
    api_key, version = ((18, 3), (18, 99), (3, 9), (60, 1))[program.byte() % 4]
    body = program.take(program.byte())
    if api_key == 18:
        body = uvarint(len(body) + 1) + body + b"\x02v\x00"
    elif api_key == 3:
        body = uvarint(len(body) + 1) + b"".join(b"\x02" + bytes((each & 0x7F,)) + b"\x00" for each in body) + bytes(4)
    else:
        body = b"\x00\x01\x00"
    _ask(node, program, api_key, lambda number, name: framed(header(api_key, version, number, name) + body))


def _ask(node: _Node, program: Program, api_key: int, request: Callable[[int, str], bytes]) -> None:
    client = node.clients[program.byte() % 4]
    correlation_id = program.byte()
    client.ask(api_key, correlation_id, request(correlation_id, ("", "raw", "r" * 300)[correlation_id % 3]))


def _wait(node: _Node, program: Program) -> None:
    node.time.sleep(_STEPS_MS[program.byte() % len(_STEPS_MS)])
    now_ms = node.time.hi_res_clock_ms()
    node.manager.instances.expire(now_ms)
    for client in node.clients:
        client.channel.expire(now_ms)


def _commit(node: _Node, program: Program) -> None:
    choice = program.byte()
    node.log.finish(1 + choice // 2 % 4, PushLogFullError("full") if choice % 2 else None)


def _lose(node: _Node, program: Program) -> None:
    choice = program.byte()
    node.lose(choice % 4, ConnectionResetError() if choice & 4 else None)


def _end_input(node: _Node, program: Program) -> None:
    client = node.clients[program.byte() % 4]
    if not client.transport.closed:
        client.channel.eof_received()


def _pause(node: _Node, program: Program) -> None:
    choice = program.byte()
    channel = node.clients[choice % 4].channel
    channel.pause_writing() if choice & 4 else channel.resume_writing()


def _subscribe(node: _Node, program: Program) -> None:
    node.manager.subscriptions.replace(_SUBSCRIPTIONS[program.byte() % len(_SUBSCRIPTIONS)])


_OPERATIONS: tuple[Callable[[_Node, Program], None], ...] = (
    _raw, _get, _push, _push, _commit, _wait, _other, _lose, _end_input, _pause, _subscribe, _get,
)  # fmt: skip


def seeds() -> Iterator[bytes]:
    subscribe, connection, ask = b"\x0a\x01", b"\x00", b"\x01"
    get = b"\x01\x80" + connection + ask
    for payload in (metrics_data(1), *payloads()):
        if len(payload) < 500:
            for codec in CompressionType:
                known = bytes((len(_IDS), 0, codec, (len(payload) + 1) // 2))
                push = b"\x02" + known + payload + b"\x00" * (len(payload) % 2) + connection + b"\x02"
                yield subscribe + get + push + b"\x04\x00" + b"\x05\x03" + push + b"\x04\x01" + b"\x07\x00"
    for request in (get_request(1, None), push_request(2, uuid.UUID(int=9), 3, metrics_data(1))):
        yield b"\x00\x01" + bytes((len(request),)) + request + b"\x08\x01"
    for kind in range(4):
        yield b"\x06" + bytes((kind, 5)) + b"kafka" + b"\x02\x07"
    yield subscribe + b"".join(b"\x01" + bytes((number,)) + connection + ask for number in range(8)) + b"\x05\x05"


TARGET = Target(run=run, seeds=seeds, max_bytes=1_024, memory_bytes=8 << 20, steps_per_byte=2_000)
