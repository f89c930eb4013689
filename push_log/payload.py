"""Decompressing payloads that the log stored as they were received."""

from typing import Final

from telemetry.codecs import CompressionType, decompressors

_TYPES: Final = {kind.label: kind for kind in CompressionType}
_MAX_BYTES: Final = 1 << 30
"""Far above any `telemetry.max.decompressed.bytes`, which bounded every payload before it was logged; here the bound
also limits zstd's window, and must refuse nothing that was acknowledged. The size itself is checked for each row."""


class PayloadDecoder:
    """Turns stored payloads back into metrics. Its contexts are reused: for one thread."""

    def __init__(self) -> None:
        self._decompressors = decompressors(_MAX_BYTES)

    def plain(self, stored: bytes, encoding: str | None, size_bytes: int) -> bytes:
        """The decompressed payload, which is known to have `size_bytes`.

        Raises:
            FleetgaugeError: the bytes are not what their codec writes.
            ValueError: the codec is unknown, or the size is another.
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
