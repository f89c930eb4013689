"""Compression types of a push, with Kafka's numbers."""

import enum


class CompressionType(enum.IntEnum):
    """Kafka's compression types (KIP-714, PushTelemetryRequest.CompressionType: those of the record batch v2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in configs and push records, for example `zstd`."""
        return self.name.lower()
