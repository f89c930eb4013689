"""The subscription id against numbers worked out by hand."""

import uuid

from fleetgauge.telemetry.subscriptions.subscription_id import java_uuid_hash, subscription_checksum, subscription_id


def test_the_checksum_is_castagnolis_over_javas_text() -> None:
    # CRC-32C's published check value is that of "123456789"; here the interval is the text's tail.
    import crc32c

    assert crc32c.crc32c(b"123456789") == 0xE3069283
    assert subscription_checksum(["*"], 1000) == crc32c.crc32c(b"[*]1000")
    assert subscription_checksum(["b.c", "a.b"], 2000) == crc32c.crc32c(b"[a.b, b.c]2000")
    assert subscription_checksum([], 300_000) == crc32c.crc32c(b"[]300000")


def test_the_hash_folds_both_halves_of_the_id() -> None:
    assert java_uuid_hash(uuid.UUID("00000001-0000-0002-0000-000400000008")) == 1 ^ 2 ^ 4 ^ 8
    assert java_uuid_hash(uuid.UUID("ffffffff-0000-0000-0000-000000000000")) == 0xFFFFFFFF


def test_the_id_is_a_signed_int32() -> None:
    assert subscription_id(0x80000000, uuid.UUID(int=0)) == -(1 << 31)
    assert subscription_id(0x7FFFFFFF, uuid.UUID(int=0)) == (1 << 31) - 1
    assert subscription_id(0, uuid.UUID("ffffffff-0000-0000-0000-000000000000")) == -1
