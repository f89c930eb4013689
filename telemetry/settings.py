"""The settings of this room, and the one home of their defaults."""

from dataclasses import dataclass, field

from telemetry.codecs import CompressionType
from telemetry.instances.sender_bounds import SenderLimits
from telemetry.subscriptions.resources import INTERVAL_MS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsSettings:
    """The defaults of everything that can be set here; `fleetgauge.config` maps Kafka's keys onto it.

    Attributes:
        telemetry_max_bytes: largest payload as received [B] (`telemetry.max.bytes`).
        telemetry_max_decompressed_bytes: largest payload decompressed [B] (`telemetry.max.decompressed.bytes`).
        max_compression_ratio: largest payload decompressed as a multiple of its size as received, beyond the first MiB.
            Real ones reach 10 to 25; checking 16 MiB takes half a second that others wait, and is to cost its sender
            some upload (docs/decisions/018-bounded-validation.md).
        compression_types: accepted and announced in this order (`telemetry.compression.types`). NONE is always
            accepted and never announced (KIP-714, AcceptedCompressionTypes).
        cache_max_size: client instances remembered.
        instance_metrics_max: instances that have metrics of their own beside the totals
            (`telemetry.client.instance.metrics.max`).
        default_interval_ms: push interval of clients that no subscription matches [ms].
        delta_temporality: clients send sums as deltas.
        sender_limits: what one address or principal may send with all its instances.
        max_label_bytes: longest client-given label value in a push record [B, UTF-8]; the rest is cut and counted.
    """

    telemetry_max_bytes: int = 1 << 20
    telemetry_max_decompressed_bytes: int = 16 << 20
    max_compression_ratio: int = 100
    compression_types: tuple[CompressionType, ...] = (
        CompressionType.ZSTD,
        CompressionType.LZ4,
        CompressionType.GZIP,
        CompressionType.SNAPPY,
    )
    cache_max_size: int = 16_384
    instance_metrics_max: int = 0
    default_interval_ms: int = INTERVAL_MS_DEFAULT
    delta_temporality: bool = True
    sender_limits: SenderLimits = field(default_factory=SenderLimits)
    max_label_bytes: int = 1_024
