"""The push record: one accepted push with all known attributes of its sender. Single definition of its fields.

Used by the log, the topic, the landing zone, the broker plugin and Spark. Imports only the standard library, since the
module is shipped to Spark's executors.
"""

import base64
import os
import re
import uuid
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 1
"""Version of the record's schema; a reader accepts all versions up to its own and sets newer records aside."""

PUSH_ID_LENGTH: Final = 32

_PUSH_ID = re.compile(r"[0-9a-f]{32}")


class PushRecord(NamedTuple):
    """One accepted push.

    A field is None if the receiver cannot know it: a broker passes no `subscription_id`, `compression_type` and
    `payload_bytes` to its plugin, and before Kafka 4.2 no `push_interval_ms`.
    """

    push_id: str
    """32 hex digits, unique, sortable by time of receipt: the key for deduplication."""
    received_at: int
    """Wall time of receipt [us since the epoch, UTC]."""
    receiver_node_id: int
    """Kafka node id of the node that received the push (label `node_id`)."""
    cluster_id: str
    listener: str
    """Name of the receiving listener, e.g. `PLAINTEXT`."""
    client_instance_id: str
    """The KIP-714 instance id in Kafka's form: URL-safe base64, 22 characters."""
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: int | None
    principal: str
    """In Kafka's form, e.g. `User:ANONYMOUS`."""
    subscription_id: int | None
    """Signed int32."""
    push_interval_ms: int | None
    """Push interval of the instance at the time of the push [ms]."""
    terminating: bool
    compression_type: str | None
    """`none`, `gzip`, `snappy`, `lz4` or `zstd`, as sent by the client."""
    payload_bytes: int | None
    """Size as received, compressed [B]."""
    schema_version: int
    metrics: bytes
    """OTLP `MetricsData` of the client, decompressed, without labels. Empty for a heartbeat."""


class PushIds:
    """Generator of push ids: time of receipt [us] (16 hex digits), writer (8, random per process start), sequence (8).

    >>> PushIds(writer=0xABCD1234).next_id(1_700_000_000_000_000)
    '00060a24181e4000abcd123400000000'
    """

    def __init__(self, writer: int | None = None) -> None:
        chosen = int.from_bytes(os.urandom(4), "big") if writer is None else writer
        self._writer = chosen & 0xFFFFFFFF
        self._sequence = 0

    def next_id(self, received_at_us: int) -> str:
        """Returns the id of the next push, received at `received_at_us` [us since the epoch]."""
        sequence = self._sequence
        self._sequence = (sequence + 1) & 0xFFFFFFFF
        number = received_at_us << 64 | self._writer << 32 | sequence
        return number.to_bytes(16, "big").hex()  # faster than formatting three numbers


def is_push_id(text: str) -> bool:
    """True for 32 lower-case hex digits."""
    return _PUSH_ID.fullmatch(text) is not None


def format_instance_id(instance_id: uuid.UUID) -> str:
    """Formats an instance id as Kafka does: URL-safe base64 without padding, 22 characters.

    >>> format_instance_id(uuid.UUID("4e6fb54c-b8e6-4517-889b-e15b99c09c20"))
    'Tm-1TLjmRReIm-FbmcCcIA'
    """
    return base64.urlsafe_b64encode(instance_id.bytes)[:22].decode()


def parse_instance_id(text: str) -> uuid.UUID:
    """Parses an instance id in any form that clients log.

    URL-safe base64 (Java), standard base64 with or without padding (librdkafka), 32 hex digits (franz-go), the
    hyphenated form.

    >>> parse_instance_id("Tm+1TLjmRReIm+FbmcCcIA==")
    UUID('4e6fb54c-b8e6-4517-889b-e15b99c09c20')

    Raises:
        ValueError: the text is in none of these forms.
    """
    stripped = text.strip().rstrip("=")
    if len(stripped) in (32, 36):
        return uuid.UUID(stripped)
    if len(stripped) == 22 and re.fullmatch(r"[A-Za-z0-9+/_-]{22}", stripped):
        return uuid.UUID(bytes=base64.b64decode(stripped.replace("-", "+").replace("_", "/") + "=="))
    raise ValueError(
        f"{text!r} is not a client instance id: expected 22 characters of base64, 32 hex digits, or a hyphenated UUID"
    )
