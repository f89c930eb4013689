"""Both streams of a gateway's connection without sockets, and the frames that pass it, made by kio."""

import io
import struct
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.base.varint import encode_varint
from fleetgauge.gateway.addresses import NodeAddresses, parse_nodes
from fleetgauge.gateway.apis import API_VERSIONS, PASSED
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.policy import Policy
from fleetgauge.gateway.responses.splices import api_versions_splicer
from fleetgauge.gateway.rules import NoRules, Rules
from fleetgauge.gateway.streams.request_stream import RequestStream
from fleetgauge.gateway.streams.response_stream import ResponseStream

OWN = {71: (0, 0), 72: (0, 0)}


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(
    api_key: int, version: int, correlation_id: int, body: bytes, client_id: str | None = "client", tags: bytes = b"\0"
) -> bytes:
    """A request with a body as it is; flexible versions get tagged fields in the header."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    is_flexible = version >= PASSED[api_key].flexible_from if api_key in PASSED else False
    return framed(struct.pack(">hhi", api_key, version, correlation_id) + name + (tags if is_flexible else b"") + body)


def encoded(message: Any) -> bytes:
    """A body by kio."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A response with a body as it is."""
    is_flexible = version >= PASSED[api_key].flexible_from and api_key != API_VERSIONS
    return framed(struct.pack(">i", correlation_id) + (b"\0" if is_flexible else b"") + body)


def produce(correlation_id: int, acks: int = 1, records: bytes = b"", version: int = 9) -> bytes:
    """A Produce request; its topics are opaque to the gateway."""
    transactional_id = b"" if version < 3 else (b"\0" if version >= 9 else b"\xff\xff")
    return request(0, version, correlation_id, transactional_id + struct.pack(">hi", acks, 1000) + records)


def request_schema(api_key: int, version: int) -> Any:
    return load_request_schema(api_key, version)


def response_schema(api_key: int, version: int) -> Any:
    return load_response_schema(api_key, version)


class Client:
    """A connection as rules and streams see it."""

    def __init__(self) -> None:
        self.connection_id = "1"
        self.listener_name = "PLAINTEXT"
        self.client_address = "127.0.0.1"
        self.client_port = 1
        self.principal: KafkaPrincipal = ANONYMOUS
        self.client_software_name = self.client_software_version = "unknown"
        self.traffic: Any = None
        self.spends_unanswered = False

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def take_loop_ns(self, *, to_now: bool = False) -> int:
        return 0

    def take_unanswered_ns(self) -> int:
        return 0

    def begin_request(self, is_answered: bool) -> None: ...


class Relay:
    """The streams of one connection; `served` holds the telemetry requests that nobody has answered yet."""

    def __init__(
        self,
        nodes: tuple[str, ...] = (),
        *,
        rules: Rules | None = None,
        answers_telemetry: bool = True,
        requires_sasl: bool = False,
        max_in_flight: int = 100,
        max_request_bytes: int = 1 << 20,
        max_kept_bytes: int = 16 << 20,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        addresses: NodeAddresses | None = parse_nodes(nodes)
        self.policy = Policy(
            addresses=addresses,
            api_versions=api_versions_splicer(OWN if answers_telemetry else {}),
            answers_telemetry=answers_telemetry,
            requires_sasl=requires_sasl,
            max_request_bytes=max_request_bytes,
            max_local_bytes=10_000,
            max_in_flight=max_in_flight,
            rules=rules or NoRules(),
        )
        self.client = Client()
        self.served: list[tuple[InFlight, bytes]] = []
        self.in_flight: list[InFlight] = []
        self.counts: defaultdict[int, int] = defaultdict(int)
        self.requests = RequestStream(
            self.policy, self.client, self.in_flight, lambda *served: self.served.append(served), self.counts
        )
        self.responses = ResponseStream(
            self.policy,
            self.client,
            self.in_flight,
            self.requests,
            may_go_on=may_go_on,
            max_kept_bytes=max_kept_bytes,
        )

    def from_client(self, data: bytes) -> bytes:
        """What the broker gets for these bytes."""
        self.requests.receive(data, 0)
        return _taken(self.requests.output)

    def from_broker(self, data: bytes) -> bytes:
        """What the client gets for these bytes."""
        self.responses.receive(data, 0)
        return _taken(self.responses.output)


def _taken(output: list[bytes]) -> bytes:
    joined = b"".join(output)
    output.clear()
    return joined


def handshake(mechanism: bytes) -> bytes:
    return request(17, 1, 0, struct.pack(">h", len(mechanism)) + mechanism)


def authenticate(token: bytes, version: int = 2) -> bytes:
    length = encode_varint(len(token) + 1) if version >= 2 else struct.pack(">i", len(token))
    return request(36, version, 0, length + token + b"\0" * (version >= 2))


def authenticated(version: int = 2, error: int = 0, answer: bytes = b"") -> bytes:
    schema = response_schema(36, version)
    code = ErrorCode.sasl_authentication_failed if error else ErrorCode.none
    return response(36, version, 0, encoded(schema(error_code=code, error_message=None, auth_bytes=answer)))


def begin(relay: Relay, mechanism: bytes = b"PLAIN") -> None:
    """A mechanism that the broker takes."""
    relay.from_client(handshake(mechanism))
    relay.from_broker(response(17, 1, 0, b"\0\0"))


def exchange(relay: Relay, *tokens: bytes, version: int = 2, error: int = 0) -> None:
    """Tokens, each answered before the next."""
    for token in tokens:
        relay.from_client(authenticate(token, version))
        relay.from_broker(authenticated(version, error))
