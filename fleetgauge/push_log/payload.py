"""Decompresses payloads that the log stored as received."""

from typing import Final

from fleetgauge.telemetry.codecs import CompressionType, decompressors

_TYPES: Final = {kind.label: kind for kind in CompressionType}
_MAX_BYTES: Final = 1 << 30
"""Maximum size [B], far above any `telemetry.max.decompressed.bytes`, which limited every payload before it was logged.
It also limits zstd's window, and must not reject an acknowledged payload. The exact size is checked for each row."""


class PayloadDecoder:
    """Decoder of stored payloads. Not thread-safe, since it reuses its decompression contexts."""

    def __init__(self) -> None:
        self._decompressors = decompressors(_MAX_BYTES)

    def plain(self, stored: bytes, encoding: str | None, size_bytes: int) -> bytes:
        """Returns the decompressed payload, which must have `size_bytes`.

        Raises:
            FleetgaugeError: the bytes are invalid for their codec.
            ValueError: the codec is unknown, or the size differs.
        """
        metrics = stored if encoding is None else self._decompress(stored, encoding)
        if len(metrics) != size_bytes:
            raise ValueError(f"{len(metrics)} B of metrics where {size_bytes} B were logged")
        return metrics

    def _decompress(self, stored: bytes, encoding: str) -> bytes:
        kind = _TYPES.get(encoding)
        if kind is None:
            raise ValueError(f"unknown codec {encoding!r}")
        return self._decompressors[kind](stored)
