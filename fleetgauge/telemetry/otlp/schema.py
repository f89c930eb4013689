"""The fields of OTLP's `MetricsData` as a table of bytes, from the descriptors that protobuf's own parser uses."""

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.telemetry.otlp import fields

_FIXED64: Final = {FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64}
_FIXED32: Final = {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32}
_OF_WIRE_TYPE: Final = {0: fields.VARINT, 1: fields.FIXED64, 2: fields.BYTES, 5: fields.FIXED32}
ROW_BYTES: Final = 128
_MAX_MESSAGES: Final = 256 - fields.MESSAGE


def table_of(root: Descriptor) -> bytes:
    """Action for each field, in 128 bytes for each message type, `root` first; a field's tag is the index.

    A tag of two bytes (field number 16 and above) is not in the table.
    """
    messages = _messages(root)
    return b"".join(_row(message, messages) for message in messages)


def row_of(message: Descriptor) -> int:
    """The position of a message type's row in `METRICS_DATA`."""
    return ROW_BYTES * _messages(MetricsData.DESCRIPTOR).index(message)


def _messages(root: Descriptor) -> list[Descriptor]:
    """`root` and all message types in it."""
    messages = [root]
    for message in messages:  # which grows meanwhile
        types = [field.message_type for field in message.fields if field.message_type is not None]
        messages += [each for each in dict.fromkeys(types) if each not in messages]
    return messages


def _row(message: Descriptor, messages: list[Descriptor]) -> bytes:
    row = bytearray(ROW_BYTES)
    for number in range(1, 16):
        for wire_type, action in _OF_WIRE_TYPE.items():
            row[number << 3 | wire_type] = action
    for field in message.fields:
        if field.number < 16:
            row[field.number << 3 | 2] = _length_delimited(field, messages)
    return bytes(row)


def _length_delimited(field: FieldDescriptor, messages: list[Descriptor]) -> int:
    if field.message_type is not None:
        number = messages.index(field.message_type)
        return fields.MESSAGE + number if number < _MAX_MESSAGES else fields.UNDECIDED
    if field.type == FieldDescriptor.TYPE_STRING:
        return fields.STRING
    if field.type == FieldDescriptor.TYPE_BYTES or not field.is_repeated:
        return fields.BYTES
    if field.type in _FIXED64:
        return fields.PACKED_FIXED64
    return fields.UNDECIDED if field.type in _FIXED32 else fields.PACKED_VARINT


METRICS_DATA: Final = table_of(MetricsData.DESCRIPTOR)
