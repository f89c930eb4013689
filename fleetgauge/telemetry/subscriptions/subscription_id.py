"""The subscription id: a checksum of the requested metrics and interval, combined with the instance id."""

import uuid
from collections.abc import Iterable

from crc32c import crc32c

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


def subscription_checksum(metrics: Iterable[str], push_interval_ms: int) -> int:
    """Returns CRC32C [unsigned 32 bits] of the metric prefixes and the interval [ms] in Kafka's text form.

    The text is Java's form of the sorted list followed by the interval: `[*]1000`, `[a.b, b.c]2000`.
    """
    return crc32c(f"[{', '.join(sorted(metrics))}]{push_interval_ms}".encode())


def java_uuid_hash(instance_id: uuid.UUID) -> int:
    """`org.apache.kafka.common.Uuid.hashCode()` [unsigned 32 bits]: both halves xored, then folded."""
    folded = (instance_id.int >> 64) ^ (instance_id.int & _MASK_64)
    return (folded >> 32) ^ (folded & _MASK_32)


def subscription_id(checksum: int, instance_id: uuid.UUID) -> int:
    """Returns the subscription id [signed int32] of a client for a subscription with this checksum.

    Bit-identical with Kafka's for one prefix; Kafka does not sort several (KIP-714, SubscriptionId; Kafka's
    `ClientMetricsManager.computeSubscriptionId`).

    >>> subscription_id(subscription_checksum(["*"], 1000), uuid.UUID("4e6fb54c-b8e6-4517-889b-e15b99c09c20"))
    -715571303
    """
    unsigned = checksum ^ java_uuid_hash(instance_id)
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
