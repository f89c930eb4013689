"""The subscription id against an implementation that shares nothing with ours."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.telemetry.subscriptions.subscription_id import subscription_checksum, subscription_id


def crc32c_bitwise(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def java_int(value: int) -> int:
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "big"), "big", signed=True)


def java_long(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def kafka_subscription_id(metrics: list[str], interval_ms: int, instance_id: uuid.UUID) -> int:
    text = "[" + ", ".join(sorted(metrics)) + "]" + str(interval_ms)
    xor = java_long(instance_id.bytes[:8]) ^ java_long(instance_id.bytes[8:])
    return java_int(crc32c_bitwise(text.encode())) ^ (java_int(xor >> 32) ^ java_int(xor))


@given(
    metrics=st.lists(st.text(max_size=12), max_size=4, unique=True),
    interval_ms=st.integers(100, 3_600_000),
    instance_id=st.uuids(),
)
def test_the_id_is_kafkas(metrics: list[str], interval_ms: int, instance_id: uuid.UUID) -> None:
    ours = subscription_id(subscription_checksum(metrics, interval_ms), instance_id)
    assert ours == kafka_subscription_id(metrics, interval_ms, instance_id)
    assert -(1 << 31) <= ours < 1 << 31
    assert ours == subscription_id(subscription_checksum(reversed(metrics), interval_ms), instance_id)
