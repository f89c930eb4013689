"""Encodes a push record as a record of a Kafka topic, and decodes it (docs/operate/push-log-kafka.md).

Key: the 22-character client instance id, so that a client's pushes stay in order. Value: `metrics`, empty for a
heartbeat, never null. Headers: every other field under its name, as UTF-8 text; a field that is None has no header.
The broker plugin writes the same format. Brokers do not validate records, so the decoder does. It does not examine the
payload: see `exporters.delivery.readable`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.push_record import (
    SCHEMA_VERSION,
    PushRecord,
    format_instance_id,
    is_push_id,
    parse_instance_id,
)

T = TypeVar("T")

Headers = Sequence[tuple[str, str | bytes | None]]
"""Headers as confluent-kafka returns them; of several with one name the last counts, as in Kafka's `lastHeader`."""

MAX_HEADER_BYTES: Final = 32_767
"""Longest accepted header [B]: no string of Kafka's protocol is longer, so no label of a broker is."""

HEADER_FIELDS: Final = tuple(name for name in PushRecord._fields if name not in ("client_instance_id", "metrics"))
"""The fields that are stored as headers, and the names of those."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_COMPRESSION_TYPES: Final = frozenset(kind.label for kind in CompressionType)
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class MalformedRecordError(FleetgaugeError):
    """A record of the topic is not a push record.

    Attributes:
        reason: a short stable name, for counters.
        detail: a sentence with the values.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class TopicRecord(NamedTuple):
    """Key, value and headers of a produced record."""

    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]]


def encode_record(record: PushRecord) -> TopicRecord:
    """Encodes a push record for the topic."""
    headers: list[tuple[str, str | bytes | None]]
    headers = [(name, _text(value)) for name in HEADER_FIELDS if (value := getattr(record, name)) is not None]
    return TopicRecord(record.client_instance_id.encode(), record.metrics, headers)


def decode_record(key: bytes | None, value: bytes | None, headers: Headers | None) -> PushRecord:
    """Decodes the push record in a record of the topic. Headers with other names are ignored.

    Raises:
        MalformedRecordError: this version cannot decode it; no other exception is raised.
    """
    texts = _texts(headers or ())
    schema_version = _required(texts, "schema_version", _integer(1, _INT32_MAX))
    if schema_version > SCHEMA_VERSION:
        raise MalformedRecordError(
            "newer_schema", f"schema_version is {schema_version}, and this reader knows {SCHEMA_VERSION} at most"
        )
    if value is None:
        raise MalformedRecordError("null_value", "the value is null (a heartbeat's is empty)")
    return PushRecord(
        push_id=_required(texts, "push_id", _push_id),
        received_at=_required(texts, "received_at", _integer(0, _INT64_MAX)),
        receiver_node_id=_required(texts, "receiver_node_id", _integer(-1, _INT32_MAX)),
        cluster_id=_required(texts, "cluster_id", _as_it_is),
        listener=_required(texts, "listener", _as_it_is),
        client_instance_id=_instance_id(key),
        client_id=_required(texts, "client_id", _as_it_is),
        client_software_name=_required(texts, "client_software_name", _as_it_is),
        client_software_version=_required(texts, "client_software_version", _as_it_is),
        client_source_address=_required(texts, "client_source_address", _as_it_is),
        client_source_port=_optional(texts, "client_source_port", _integer(0, 65_535)),
        principal=_required(texts, "principal", _as_it_is),
        subscription_id=_optional(texts, "subscription_id", _integer(-_INT32_MAX - 1, _INT32_MAX)),
        push_interval_ms=_optional(texts, "push_interval_ms", _integer(0, _INT32_MAX)),
        terminating=_required(texts, "terminating", _true_or_false) == "true",
        compression_type=_optional(texts, "compression_type", _compression_type),
        payload_bytes=_optional(texts, "payload_bytes", _integer(0, _INT32_MAX)),
        schema_version=schema_version,
        metrics=value,
    )


def _text(value: str | int | bool) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return str(value).encode()


def _texts(headers: Headers) -> dict[str, str]:
    """The text of the headers that are fields."""
    texts: dict[str, str] = {}
    for name, content in headers:
        if name not in HEADER_FIELDS:
            continue
        if content is None:
            texts.pop(name, None)  # a null header counts as missing
            continue
        if len(content) > MAX_HEADER_BYTES:
            raise MalformedRecordError(
                "header_too_long", f"header {name} has {len(content)} B, and {MAX_HEADER_BYTES} B are allowed"
            )
        try:
            texts[name] = content if isinstance(content, str) else content.decode()
        except UnicodeDecodeError as error:
            raise MalformedRecordError(
                "not_utf8", f"header {name} is not UTF-8: {error.reason} at byte {error.start}"
            ) from None
    return texts


def _required(texts: Mapping[str, str], name: str, read: Callable[[str, str], T]) -> T:
    if name not in texts:
        raise MalformedRecordError("missing_header", f"there is no header {name}")
    return read(name, texts[name])


def _optional(texts: Mapping[str, str], name: str, read: Callable[[str, str], T]) -> T | None:
    return read(name, texts[name]) if name in texts else None


def _as_it_is(_name: str, text: str) -> str:
    return text


def _garbled(name: str, text: str, due: str) -> MalformedRecordError:
    return MalformedRecordError("garbled_header", f"header {name} is {text[:40]!r}, and {due}")


def _checked(is_valid: Callable[[str], bool], due: str) -> Callable[[str, str], str]:
    """Reads a text that is valid; `due` ends the sentence about any other."""

    def read(name: str, text: str) -> str:
        if not is_valid(text):
            raise _garbled(name, text, due)
        return text

    return read


def _integer(minimum: int, maximum: int) -> Callable[[str, str], int]:
    due = f"a number from {minimum} to {maximum} is expected"

    def read(name: str, text: str) -> int:
        if _INTEGER.fullmatch(text) and minimum <= (number := int(text)) <= maximum:
            return number
        raise _garbled(name, text, due)

    return read


_true_or_false: Final = _checked(("true", "false").__contains__, "true or false is expected")
_push_id: Final = _checked(is_push_id, "32 lower-case hex digits are expected")
_compression_type: Final = _checked(_COMPRESSION_TYPES.__contains__, "that is not a compression type")


def _instance_id(key: bytes | None) -> str:
    """The key, only in Kafka's own form: another form of the same id would count as another client later."""
    try:
        text = (key or b"").decode("ascii")
        if len(text) == 22 and format_instance_id(parse_instance_id(text)) == text:
            return text
    except ValueError:
        pass
    raise MalformedRecordError(
        "bad_key", f"the key is {(key or b'')[:40]!r}, and an instance id of 22 characters is expected"
    )
