"""`codec`, `request_reader` and `push_telemetry` of `wire.messages`: header and body, against kio and each other."""

import io
import struct
import uuid
from collections.abc import Iterator
from typing import Any

from fuzz.target import Target
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer
from support.clients.raw_client import get_request, header, push_request, uvarint
from support.payloads.payloads import metrics_data

from fleetgauge.wire.api_table import ADMIN_KEYS, SERVED, ApiKey, ApiTable
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request, parse_request, read_admin_request
from fleetgauge.wire.messages.push_telemetry import PushTelemetry, read_push_telemetry
from fleetgauge.wire.messages.request_reader import read_body

_TABLE = ApiTable()
_REASONS = {"short_frame", "unknown_api_key", "unsupported_version", "malformed_header", "malformed_body"}
_PUSH = load_request_schema(ApiKey.PUSH_TELEMETRY, 0)


def run(data: bytes) -> None:
    try:
        request = parse_request(data, _TABLE)
    except ProtocolError as error:
        assert error.reason in _REASONS, error
    else:
        _check(request)
    _both_push_readers(data)


def _check(request: Request) -> None:
    """What was read, written by kio, reads the same by kio and by us. (kio is never shown a stranger's own bytes.)"""
    body: Any = request.body
    if body is None:
        assert request.api_key == ApiKey.API_VERSIONS
        return
    if isinstance(body, bytes):
        assert request.api_key in ADMIN_KEYS
        try:
            body = read_admin_request(request)
        except ProtocolError as error:
            assert error.reason == "malformed_body"
            return
    if isinstance(body, PushTelemetry):
        body = _PUSH(**body._asdict())
    buffer = io.BytesIO()
    try:
        entity_writer(type(body))(buffer, body)
    except (ValueError, OverflowError, struct.error):
        return  # what the wire can say, and kio's types cannot: text of a length that only Kafka's varints have
    written = buffer.getvalue()
    by_kio, _ = entity_reader(type(body))(written, 0)
    assert by_kio == body
    assert read_body(type(body), written, 0) == body


def _both_push_readers(data: bytes) -> None:
    """The hot reader and the general one agree, but for a null payload, which only the hot one takes."""
    try:
        hot: Any = read_push_telemetry(data, 0)
    except ProtocolError:
        hot = None
    try:
        general: Any = read_body(_PUSH, data, 0)
    except ProtocolError as error:
        assert hot is None or (hot.metrics == b"" and "null" in str(error)), (hot, error)
        return
    assert hot is not None
    assert tuple(hot) == tuple(getattr(general, name) for name in PushTelemetry._fields)


def seeds() -> Iterator[bytes]:
    yield get_request(1, None)[4:]
    yield get_request(1, uuid.UUID(int=77), None)[4:]
    push = push_request(2, uuid.UUID(int=77), -5, metrics_data(2), compression_type=4)[4:]
    yield push
    yield push[len(header(72, 0, 2, "raw")) :]
    for api in SERVED:
        for version in range(api.min_version, api.max_version + 2):
            start = header(api.key, version, 9, "client")
            yield start[:-1] + struct.pack(">i", 1) + struct.pack(">h", 1) + b"t" + b"\x01\x01\x01"
            yield start + uvarint(7) + b"kafka1" + uvarint(4) + b"3.9" + b"\x00"
            yield start + b"\x02" + bytes(range(16)) + b"\x02t\x00" + b"\x01\x00\x01\x00"


TARGET = Target(run=run, seeds=seeds, max_bytes=512, memory_bytes=2 << 20, steps_per_byte=200)
