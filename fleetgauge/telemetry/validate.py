"""Validates that a payload is well-formed OTLP, so that one faulty client cannot fail a batch with others' pushes.

The node that receives a payload notes the verdict, and by default accepts the push all the same, as a broker does.
Readers that parse payloads call `read_metrics`.

A parsed message takes up to 32 times the memory of its bytes (an empty one takes two bytes on the wire), so 16 MiB of a
malicious payload would take 512 MiB. A large payload is therefore parsed in pieces, each freed before the next: a
protobuf message cut between its fields is two messages of the same type, and both parse if and only if the whole does.
"""

from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.base.varint import UnreadableError, encode_varint, read_varint
from fleetgauge.telemetry.otlp import IS_COMPILED
from fleetgauge.telemetry.otlp.check import is_well_formed
from fleetgauge.telemetry.otlp.library_metrics import with_scope_metrics
from fleetgauge.telemetry.otlp.repair import TextRepair
from fleetgauge.telemetry.otlp.schema import METRICS_DATA

PIECE_BYTES: Final = 1 << 20
"""Maximum size of a piece [B]; a payload up to this size is parsed as a whole."""

MIN_BYTES_PER_FIELD: Final = 16
"""Minimum average size of a field in a piece [B]. Metrics, points and attributes are larger; a denser payload is
malicious.
"""

_MAX_DEPTH: Final = 100
"""Nesting limit of protobuf's own parsers."""

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}


_from_string: Final = MetricsData.FromString


def validate_metrics(metrics: bytes, piece_bytes: int = PIECE_BYTES) -> None:
    """Checks that `metrics` parses as an OTLP `MetricsData`: lengths, wire types, UTF-8 and depth of nesting.

    An empty payload is a heartbeat and well-formed. Unknown fields are allowed, as in protobuf. The verdict is always
    that of protobuf's parser: the compiled check spares its work, and leaves to it what is malformed.

    Raises:
        InvalidRecordError: it does not parse (KIP-714, Error handling).
        TelemetryTooLargeError: it is larger than `piece_bytes` [B], and its fields are almost empty.
    """
    if len(metrics) <= piece_bytes:
        if _is_usual(metrics):
            return
        try:
            _from_string(metrics)
        except DecodeError as error:
            raise _malformed(error) from None
    else:
        _PieceByPiece(metrics, piece_bytes).check(0, len(metrics), MetricsData.DESCRIPTOR, ())


def _is_usual(metrics: bytes) -> bool:
    """True if the compiled check takes a payload: it is well-formed, without field numbers above 15."""
    return IS_COMPILED and is_well_formed(metrics, METRICS_DATA)


class ReadableMetrics(NamedTuple):
    """A payload as protobuf's parser takes it.

    Attributes:
        metrics: the payload; text that is not UTF-8 has U+FFFD in place of the invalid bytes, and metrics in the form
            of OTLP before 0.15 are `scope_metrics`.
        replaced: number of texts that were replaced.
        example: the first of them as replaced, cut; empty if there are none.
    """

    metrics: bytes
    replaced: int
    example: str


def read_metrics(metrics: bytes) -> ReadableMetrics:
    """`metrics` with invalid text replaced, if that makes it well-formed, and `with_scope_metrics`.

    Raises:
        InvalidRecordError: it does not parse, whatever its text; the message has the reason.
        TelemetryTooLargeError: as for `validate_metrics`.
    """
    if len(metrics) <= PIECE_BYTES and _is_usual(metrics):
        return ReadableMetrics(metrics, 0, "")
    try:
        validate_metrics(metrics)
    except InvalidRecordError as error:
        return _repaired(metrics, error)
    return ReadableMetrics(with_scope_metrics(metrics), 0, "")


def _repaired(metrics: bytes, error: InvalidRecordError) -> ReadableMetrics:
    try:
        repair = TextRepair(metrics, METRICS_DATA)
    except ValueError as problem:
        raise _malformed(problem) from None
    if not repair.replaced:
        raise error
    validate_metrics(repair.metrics)
    return ReadableMetrics(with_scope_metrics(repair.metrics), repair.replaced, repair.example)


class PayloadFault(NamedTuple):
    """Why a payload is not well-formed.

    Attributes:
        reason: `INVALID_TEXT` or `NOT_OTLP`.
        detail: a sentence.
    """

    reason: str
    detail: str


INVALID_TEXT: Final = "invalid_utf8"
"""The payload is delivered, with U+FFFD in its text."""
NOT_OTLP: Final = "malformed_metrics_data"
"""The payload cannot be read: a dead letter of every exporter that has to."""


def fault_of(metrics: bytes) -> PayloadFault:
    """Why `metrics`, which `validate_metrics` refused, is not well-formed."""
    try:
        reading = read_metrics(metrics)
    except (InvalidRecordError, TelemetryTooLargeError) as error:
        return PayloadFault(NOT_OTLP, str(error))
    return PayloadFault(INVALID_TEXT, f"text is not UTF-8, and delivered as {reading.example!r}")


def _malformed(detail: object) -> InvalidRecordError:
    return InvalidRecordError(f"the payload is not OTLP MetricsData: {detail}")


class _PieceByPiece:
    """Parses a large message in pieces; descends only into fields larger than a piece."""

    def __init__(self, data: bytes, piece_bytes: int) -> None:
        self._data = data
        self._piece_bytes = piece_bytes
        self._max_fields = max(1, piece_bytes // MIN_BYTES_PER_FIELD)

    def check(self, start: int, end: int, descriptor: Any, path: tuple[int, ...]) -> None:
        """Checks the message of type `descriptor` in `start:end`; `path` has the field numbers that lead to it."""
        if len(path) > _MAX_DEPTH:
            raise _malformed("nested too deeply")
        piece_start = position = start
        fields = 0
        while position < end:
            field_start = position
            try:
                number, content, position = self._field(position, end)
            except UnreadableError:
                raise _malformed("a number is cut off or too long") from None
            fields += 1
            submessage = None
            if content and position - content > self._piece_bytes:
                field = descriptor.fields_by_number.get(number)
                submessage = field.message_type if field is not None else None
            if submessage is not None or position - piece_start > self._piece_bytes:
                self._parse_piece(piece_start, field_start, path)
                piece_start, fields = field_start, 1
            if submessage is not None:
                self.check(content, position, submessage, (*path, number))
                piece_start, fields = position, 0
            if fields > self._max_fields:
                raise TelemetryTooLargeError(f"more than {fields - 1} fields in {self._piece_bytes} bytes")
        self._parse_piece(piece_start, end, path)

    def _parse_piece(self, start: int, end: int, path: tuple[int, ...]) -> None:
        """Parses some fields, wrapped in their enclosing messages so that the depth limit applies as in the whole."""
        piece = self._data[start:end]
        for number in reversed(path):
            piece = encode_varint(number << 3 | _LENGTH_DELIMITED) + encode_varint(len(piece)) + piece
        validate_metrics(piece, len(piece))

    def _field(self, position: int, end: int) -> tuple[int, int, int]:
        """Returns the field's number, the start of its content (0 if it has no length), and the end of the field."""
        tag, position = read_varint(self._data, position, end)
        wire_type = tag & 7
        content = 0
        if wire_type == _LENGTH_DELIMITED:
            length, content = read_varint(self._data, position, end)
            position = content + length
        elif wire_type == _VARINT:
            _, position = read_varint(self._data, position, end)
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        else:
            raise _malformed(f"wire type {wire_type}")
        if position > end:
            raise _malformed("it is cut off")
        return tag >> 3, content, position
