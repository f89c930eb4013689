"""A Kafka client made of `struct` and a socket, outside our own code: what it sees is what went over the wire.

Requests are built by hand from the protocol's definition of ApiVersions v3, GetTelemetrySubscriptions v0 and
PushTelemetry v0; responses are taken apart by hand.
"""

import socket
import struct
import uuid
from dataclasses import dataclass
from itertools import count
from typing import Self

from support.waiting import PATIENCE_S

API_VERSIONS, GET_TELEMETRY, PUSH_TELEMETRY = 18, 71, 72
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


@dataclass(frozen=True)
class Subscription:
    error_code: int
    throttle_time_ms: int
    client_instance_id: uuid.UUID
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]


@dataclass(frozen=True)
class PushAnswer:
    throttle_time_ms: int
    error_code: int


def header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    return struct.pack(">hhi", api_key, api_version, correlation_id) + name + b"\0"


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def get_request(correlation_id: int, instance_id: uuid.UUID | None, client_id: str | None = "raw") -> bytes:
    body = (instance_id.bytes if instance_id else bytes(16)) + b"\0"
    return framed(header(GET_TELEMETRY, 0, correlation_id, client_id) + body)


def push_request(
    correlation_id: int,
    instance_id: uuid.UUID | None,
    subscription_id: int,
    metrics: bytes | None,
    *,
    compression_type: int = NONE,
    terminating: bool = False,
    client_id: str | None = "raw",
) -> bytes:
    payload = b"\0" if metrics is None else uvarint(len(metrics) + 1) + metrics
    body = (
        (instance_id.bytes if instance_id else bytes(16))
        + struct.pack(">i?b", subscription_id, terminating, compression_type)
        + payload
        + b"\0"
    )
    return framed(header(PUSH_TELEMETRY, 0, correlation_id, client_id) + body)


def parse_get(body: bytes) -> Subscription:
    throttle, error = struct.unpack_from(">ih", body, 0)
    instance_id = uuid.UUID(bytes=body[6:22])
    (subscription_id,) = struct.unpack_from(">i", body, 22)
    length, at = read_uvarint(body, 26)
    codecs = list(struct.unpack_from(f">{length - 1}b", body, at)) if length > 1 else []
    at += len(codecs)
    interval, max_bytes, delta = struct.unpack_from(">ii?", body, at)
    length, at = read_uvarint(body, at + 9)
    metrics = []
    for _ in range(length - 1):
        size, at = read_uvarint(body, at)
        metrics.append(body[at : at + size - 1].decode())
        at += size - 1
    return Subscription(error, throttle, instance_id, subscription_id, codecs, interval, max_bytes, delta, metrics)


def parse_push(body: bytes) -> PushAnswer:
    throttle, error = struct.unpack_from(">ih", body, 0)
    return PushAnswer(throttle, error)


class RawClient:
    """One connection; every call waits for its answer."""

    def __init__(
        self,
        port: int,
        *,
        client_id: str = "raw",
        timeout_s: float = PATIENCE_S,
        host: str = "127.0.0.1",
        source: str | None = None,
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout_s, None if source is None else (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_ids = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next response without its size; raises ConnectionError when the connection ends."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self.socket.recv(size - len(chunks))
            if not chunk:
                raise ConnectionError("the connection ended")
            chunks += chunk
        return bytes(chunks)

    def api_versions(self, version: int = 3, name: str = "raw-client", software_version: str = "1.0") -> bytes:
        """The response body of ApiVersions, from after the correlation id."""
        correlation_id = next(self._correlation_ids)
        body = header(API_VERSIONS, version, correlation_id, self.client_id)
        if version >= 3:
            for text in (name, software_version):
                body += uvarint(len(text) + 1) + text.encode()
            body += b"\0"
        else:
            body = body[:-1]
        self.send(framed(body))
        frame = self.receive_frame()
        assert frame[:4] == struct.pack(">i", correlation_id)
        return frame[4:]

    def get(self, instance_id: uuid.UUID | None = None) -> Subscription:
        correlation_id = next(self._correlation_ids)
        self.send(get_request(correlation_id, instance_id, self.client_id))
        return parse_get(self._answer(correlation_id))

    def push(
        self,
        subscription: Subscription,
        metrics: bytes | None,
        *,
        instance_id: uuid.UUID | None = None,
        subscription_id: int | None = None,
        compression_type: int = NONE,
        terminating: bool = False,
    ) -> PushAnswer:
        correlation_id = next(self._correlation_ids)
        self.send(
            push_request(
                correlation_id,
                subscription.client_instance_id if instance_id is None else instance_id,
                subscription.subscription_id if subscription_id is None else subscription_id,
                metrics,
                compression_type=compression_type,
                terminating=terminating,
                client_id=self.client_id,
            )
        )
        return parse_push(self._answer(correlation_id))

    def _answer(self, correlation_id: int) -> bytes:
        frame = self.receive_frame()
        assert frame[:5] == struct.pack(">i", correlation_id) + b"\0", frame[:5]
        return frame[5:]
