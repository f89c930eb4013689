"""Reads request bodies from untrusted bytes, by `kio`'s schemas.

`kio`'s own reader is not used for requests. It reserves memory for as many array elements as a message announces: 4
bytes are enough to abort the whole process. It also refuses unknown tagged fields and booleans other than 0 and 1,
which Kafka accepts (Kafka protocol guide, KIP-482). The message classes are `kio`'s, and well-formed messages read the
same; a property test compares both readers.
"""

import dataclasses
import datetime
import functools
import struct
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, Final

from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.wire.errors import ProtocolError

MAX_ARRAY_ELEMENTS: Final = 10_000
"""Maximum number of elements of an array in a request, far above any real request. The topics of a Metadata request are
answered one by one, and other requests wait meanwhile.
"""

MAX_TAGGED_FIELDS: Final = 32
"""Maximum number of tagged fields of a struct, far above any real one. Two bytes make a field: without a bound, 8
million in one request would hold up the loop for seconds.
"""

_NULL_UUID = bytes(16)

Read = Callable[[bytes, int], tuple[Any, int]]


def skip_tagged_fields(data: bytes, position: int) -> int:
    """Skips the tagged fields at `position`, all unknown; returns the position after them.

    Raises:
        UnreadableError, IndexError: the data ends within them.
    """
    if data[position] == 0:
        return position + 1
    return _read_tagged_fields({}, data, position)[1]


def read_body(body_type: Any, data: bytes, position: int) -> Any:
    """Reads a request body of `kio`'s class `body_type` from `position` on.

    Bytes after the body are ignored, as Kafka ignores them.

    Raises:
        ProtocolError: `malformed_body`, the bytes do not follow the schema.
    """
    try:
        return _entity_reader(body_type)(data, position)[0]
    except (UnreadableError, IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ProtocolError("malformed_body", f"{body_type.__name__} v{body_type.__version__}: {error}") from error


def _slice(data: bytes, position: int, length: int) -> tuple[bytes, int]:
    end = position + length
    if end > len(data):
        raise UnreadableError(f"{length} bytes are announced, {len(data) - position} are left")
    return data[position:end], end


def _read_tagged_fields(known: dict[int, tuple[str, Read]], data: bytes, position: int) -> tuple[dict[str, Any], int]:
    count, position = read_uvarint(data, position)
    values: dict[str, Any] = {}
    if count > MAX_TAGGED_FIELDS:
        raise UnreadableError(f"{count} tagged fields, at most {MAX_TAGGED_FIELDS} are read")
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        content, position = _slice(data, position, size)
        if tag in known:
            name, read = known[tag]
            values[name] = read(content, 0)[0]
    return values, position


def _number(form: str) -> Read:
    packed = struct.Struct(form)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        return packed.unpack_from(data, position)[0], position + packed.size

    return read


def _read_bool(data: bytes, position: int) -> tuple[bool, int]:
    return data[position] != 0, position + 1


def _read_uuid(data: bytes, position: int) -> tuple[uuid.UUID | None, int]:
    content, end = _slice(data, position, 16)
    return (None if content == _NULL_UUID else uuid.UUID(bytes=content)), end


def _timedelta(number: Read) -> Read:
    def read(data: bytes, position: int) -> tuple[datetime.timedelta, int]:
        milliseconds, end = number(data, position)
        return datetime.timedelta(milliseconds=milliseconds), end

    return read


_int16, _int32 = _number(">h"), _number(">i")

_FIXED: Final[dict[str, Read]] = {
    "bool": _read_bool,
    "int8": _number(">b"),
    "int16": _int16,
    "int32": _int32,
    "int64": _number(">q"),
    "uint16": _number(">H"),
    "float64": _number(">d"),
    "uuid": _read_uuid,
    "timedelta_i32": _timedelta(_int32),
    "timedelta_i64": _timedelta(_number(">q")),
}


def _compact_length(data: bytes, position: int) -> tuple[int, int]:
    """Reads a length of flexible versions: 0 for null, otherwise the length plus one."""
    value = data[position]
    if value < 0x80:  # the usual case, inlined: a request may have thousands of topics
        return value - 1, position + 1
    value, position = read_uvarint(data, position)
    return value - 1, position


def _sized(length: Read, nullable: bool, *, text: bool) -> Read:
    """Builds the reader of a string or bytes with a length prefix that is negative for null."""

    def read(data: bytes, position: int) -> tuple[str | bytes | None, int]:
        count, position = length(data, position)
        if count < 0:
            if nullable:
                return None, position
            raise UnreadableError("null where a value is required")
        content, end = _slice(data, position, count)
        return (content.decode() if text else content), end

    return read


def _array(length: Read, element: Read, nullable: bool) -> Read:
    def read(data: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
        count, position = length(data, position)
        if count < 0:
            if nullable:
                return None, position
            raise UnreadableError("null where an array is required")
        # An element takes at least one byte, so a wrong count is detected before any element is read.
        if count > min(len(data) - position, MAX_ARRAY_ELEMENTS):
            raise UnreadableError(f"an array of {count} elements in {len(data) - position} bytes")
        elements = []
        for _ in range(count):
            value, position = element(data, position)
            elements.append(value)
        return tuple(elements), position

    return read


def _nullable_entity(read_entity: Read) -> Read:
    """Builds the reader of a nullable struct (KIP-893): prefixed by one byte, negative for null."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        (marker,) = struct.unpack_from(">b", data, position)
        return (None, position + 1) if marker < 0 else read_entity(data, position + 1)

    return read


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        inner = [option for option in typing.get_args(annotation) if option is not types.NoneType]
        return inner[0], True
    return annotation, False


def _primitive(kafka_type: str, *, flexible: bool, nullable: bool) -> Read:
    if kafka_type in _FIXED:
        return _FIXED[kafka_type]
    is_text = kafka_type == "string"
    if not is_text and kafka_type not in ("bytes", "records"):
        raise NotImplementedError(f"no request has a field of Kafka type {kafka_type}")
    legacy = _int16 if is_text else _int32
    return _sized(_compact_length if flexible else legacy, nullable, text=is_text)


def _single(annotation: Any, field: dataclasses.Field[Any], *, flexible: bool, nullable: bool) -> Read:
    if dataclasses.is_dataclass(annotation):
        read_entity = _entity_reader(typing.cast(Any, annotation))
        return _nullable_entity(read_entity) if nullable else read_entity
    return _primitive(field.metadata["kafka_type"], flexible=flexible, nullable=nullable)


def _field_reader(field: dataclasses.Field[Any], *, flexible: bool) -> Read:
    annotation, nullable = _without_none(field.type)
    if typing.get_origin(annotation) is not tuple:
        return _single(annotation, field, flexible=flexible, nullable=nullable)
    element = _single(typing.get_args(annotation)[0], field, flexible=flexible, nullable=False)
    return _array(_compact_length if flexible else _int32, element, nullable)


@functools.cache
def _entity_reader(entity_type: Any) -> Read:
    """Builds the reader of a `kio` class; cached."""
    flexible: bool = entity_type.__flexible__
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for field in dataclasses.fields(entity_type):
        entry = (field.name, _field_reader(field, flexible=flexible))
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = entry
        else:
            plain.append(entry)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_field in plain:
            values[name], position = read_field(data, position)
        if not flexible:
            return entity_type(**values), position
        if data[position] == 0:  # no tagged field, the usual case
            return entity_type(**values), position + 1
        tagged_values, position = _read_tagged_fields(tagged, data, position)
        values.update(tagged_values)
        return entity_type(**values), position

    return read
