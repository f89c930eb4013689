"""A client's connection through a gateway and the broker's, on transports and a loop that do nothing by themselves."""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from support.accepted import accepted
from support.gateway.gateway_traffic import request, response

from fleetgauge.base.clock import MockTime
from fleetgauge.gateway.addresses import parse_nodes
from fleetgauge.gateway.client_channel import ClientChannel
from fleetgauge.gateway.gateway import Gateway, GatewaySettings
from fleetgauge.gateway.rules import NoRules, Rules
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.handshakes import Handshakes
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import AuthenticationCounters, ListenerCounters
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.listener_settings import ListenerSettings
from fleetgauge.wire.context.secure_context import SecureContext
from fleetgauge.wire.context.unread_responses import UnreadResponses
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.sasl.login import Login
from fleetgauge.wire.security_protocol import SecurityProtocol

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
        self.later: list[Callable[[], None]] = []

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> Any:
        coroutine.close()
        return None

    async def create_connection(self, *args: Any, **keys: Any) -> None:
        "a..b".encode("idna")

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_later(self, delay_s: float, call: Callable[..., None], *args: Any) -> None:
        self.later.append(lambda: call(*args))

    def next(self) -> None:
        """One iteration."""
        due, self.soon = self.soon, []
        for call in due:
            call()

    def run(self) -> None:
        """Iterations until nothing is due."""
        while self.soon:
            self.next()


class _Handler:
    """Answers pushes at once, and remembers log-ins."""

    request_clock = None

    def __init__(self) -> None:
        self.log_ins: list[tuple[str, str]] = []
        self.handled: list[int] = []

    def authentication_ended(self, channel: Channel, user: str, mechanism: str, failure: str) -> None:
        self.log_ins.append((str(channel.principal), failure))

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        self.handled.append(request.api_key)
        return encode_push_telemetry_response(request.correlation_id, 0, 0)

    def connection_made(self, channel: Channel) -> None: ...

    def connection_lost(self, channel: Channel, reason: str) -> None: ...


class Pair:
    """A client's connection and the one to its broker.

    `time` is the clock of all its parts, `nodes` are those of `gateway.nodes`, `unread` is shared by pairs, `login` is
    the gateway's user at the broker, `sasl` the listener's users; `settings` are the listener's.

    Attributes:
        client, broker: the transports.
        channel: the connection.
    """

    def __init__(
        self,
        *,
        time: MockTime | None = None,
        rules: Rules | None = None,
        max_in_flight: int = 100,
        is_connected: bool = True,
        nodes: Sequence[str] = (),
        unread: UnreadResponses | None = None,
        login: Login | None = None,
        sasl: SaslSettings | None = None,
        **settings: Any,
    ) -> None:
        self.time, self.handler, self.loop = time or MockTime(), _Handler(), _Loop()
        self.gateway = gateway = Gateway(
            GatewaySettings(
                login=login,
                host="127.0.0.1",
                port=9092,
                request_max_bytes=1 << 20,
                telemetry_max_bytes=1 << 20,
                max_in_flight_requests=max_in_flight,
                response_timeout_ms=3 * IDLE_MS,
                addresses=parse_nodes(nodes),
                rules=rules or NoRules(),
            )
        )
        self.context = ListenerContext(
            listener_name="PLAINTEXT",
            handler=cast(Any, self.handler),
            api_table=ApiTable(),
            settings=ListenerSettings(connections_max_idle_ms=IDLE_MS, **settings),
            time=self.time,
            loop=cast(asyncio.AbstractEventLoop, self.loop),
            counters=ListenerCounters(),
            unread=unread,
        )
        protocol = SecurityProtocol.PLAINTEXT if sasl is None else SecurityProtocol.SASL_PLAINTEXT
        self.security = ListenerSecurity(protocol=protocol, sasl=sasl)
        self.handshakes = Handshakes(max_unfinished=10, timeout_ms=30_000)
        self.shared = SecureContext(self.security, self.handshakes, AuthenticationCounters())
        made = gateway.channel(
            accepted(self.context, self.shared, None if sasl is None else self.handshakes.begin(lambda _: None, 0))
        )
        self.channel = cast(ClientChannel, made)
        self.client, self.broker = Transport(), Transport()
        self.channel.connection_made(cast(Any, self.client))
        if is_connected:
            self.channel.broker_connected(cast(Any, self.broker))

    def close_reason(self) -> str | None:
        return self.channel._close_reason
