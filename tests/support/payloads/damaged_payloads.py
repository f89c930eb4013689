"""Payloads that are damaged in every way that tests compare, and what can be read of each."""

from typing import Final

from support.payloads.payloads import metrics_data

LATIN_1: Final = "Köln".encode("latin-1")
REPLACED: Final = "K\ufffdln"
"""The same as it is delivered."""


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of up to 127 bytes, written by hand."""
    length = len(content)
    size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    return bytes([number << 3 | 2]) + size + content


def with_rack(rack: bytes) -> bytes:
    """A payload as librdkafka's: one resource with the attribute `client_rack`, and one gauge."""
    attribute = field(1, b"client_rack") + field(2, field(1, rack))
    resource = field(1, field(1, attribute))
    point = field(1, b"\x19" + bytes(7) + b"\x01" + b"\x21" + bytes(8))
    metric = field(1, b"org.apache.kafka.producer.connection.creation.total") + field(5, point)
    return field(1, resource + field(2, field(2, metric)))


def nested(depth: int) -> bytes:
    """An attribute whose value is an array in an array, and so on."""
    value = field(1, b"x")
    for _ in range(depth):
        value = _long_field(5, _long_field(1, value))
    attribute = field(1, b"deep") + _long_field(2, value)
    return _long_field(1, _long_field(1, _long_field(1, attribute)))


def _long_field(number: int, content: bytes) -> bytes:
    length, size = len(content), bytearray()
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    return bytes([number << 3 | 2]) + bytes(size) + content


READABLE: Final = {
    "text in Latin-1": with_rack(LATIN_1),
    "a metric's name in Latin-1": with_rack(b"r1").replace(b"connection", b"c\xf6nnection"[:10]),
    "half of a surrogate pair": with_rack(b"\xed\xa0\x80x"),
    "text cut within a character": with_rack("Köln".encode()[:2]),
    "Latin-1, and fields that OTLP lacks": with_rack(LATIN_1) + field(15, b"\xff") + b"\xa2\x06\x01\xff",
}
"""Delivered with U+FFFD in their text."""

WELL_FORMED: Final = {
    "empty": b"",
    "fields that OTLP lacks": metrics_data() + field(15, b"\xff") + b"\xa2\x06\x01\xff",
    "a group, which OTLP lacks": metrics_data() + b"\x7b\x08\x01\x7c",
    "nested 20 deep": nested(20),
}
"""Delivered as they are."""

UNREADABLE: Final = {
    "cut off": metrics_data()[:-3],
    "bytes behind it": metrics_data() + b"\x0a",
    "a length beyond its end": b"\x0a\xff\xff\xff\xff\x0f",
    "a wire type that does not exist": metrics_data() + b"\x0f",
    "nested too deeply": nested(60),
    "plain text": b"this is no protobuf at all",
    "Latin-1, and cut off": with_rack(LATIN_1)[:-3],
}
"""Dead letters of exporters that read payloads."""
