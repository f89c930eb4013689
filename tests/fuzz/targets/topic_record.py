"""`push_log.kafka_topic.record_codec`: any record of a topic is a push record, or set aside with a reason."""

from collections.abc import Iterator

from fuzz.program import Program
from fuzz.target import Target
from support.payloads.label_reference import RECORD
from support.payloads.payloads import metrics_data

from fleetgauge.push_log.kafka_topic.record_codec import (
    HEADER_FIELDS,
    MalformedRecordError,
    decode_record,
    encode_record,
)

_REASONS = {
    "bad_key", "garbled_header", "header_too_long", "missing_header", "newer_schema", "not_utf8",
    "null_value",
}  # fmt: skip
_NULL = 255

Header = tuple[str, str | bytes | None]


def run(data: bytes) -> None:
    key, headers, value = _record(Program(data))
    try:
        record = decode_record(key, value, headers)
    except MalformedRecordError as error:
        assert error.reason in _REASONS
        return
    assert decode_record(*_in_order(record)) == record


def _in_order(record: object) -> tuple[bytes, bytes, list[Header]]:
    encoded = encode_record(record)  # type: ignore[arg-type]
    return encoded.key, encoded.value, encoded.headers


def _record(program: Program) -> tuple[bytes | None, list[Header], bytes | None]:
    key = _text(program)
    headers: list[Header] = []
    for _ in range(program.byte() % 32):
        name = program.byte() % (len(HEADER_FIELDS) + 1)
        headers.append((HEADER_FIELDS[name] if name < len(HEADER_FIELDS) else "other", _text(program)))
    return key, headers, program.rest() if program.byte() != _NULL else None


def _text(program: Program) -> bytes | None:
    length = program.byte()
    return None if length == _NULL else program.take(length)


def seeds() -> Iterator[bytes]:
    for metrics in (b"", metrics_data(1)):
        for given in (RECORD, RECORD._replace(schema_version=2), RECORD._replace(client_instance_id="short")):
            encoded = encode_record(given._replace(metrics=metrics))
            seed = bytes((len(encoded.key),)) + encoded.key + bytes((len(encoded.headers),))
            for name, text in encoded.headers:
                assert isinstance(text, bytes)
                seed += bytes((HEADER_FIELDS.index(name), len(text))) + text
            yield seed + b"\x00" + metrics


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=1 << 20, steps_per_byte=100)
