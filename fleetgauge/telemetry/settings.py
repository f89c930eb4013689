"""The settings of client telemetry and their defaults."""

from dataclasses import dataclass, field

from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.instances.sender_bounds import SenderLimits
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsSettings:
    """Settings of `ClientMetricsManager`; `node.config` maps Kafka's keys to them.

    Attributes:
        telemetry_max_bytes: largest payload as received [B] (`telemetry.max.bytes`).
        telemetry_max_decompressed_bytes: largest payload decompressed [B] (`telemetry.max.decompressed.bytes`).
        accept_malformed: payloads that are not well-formed OTLP are accepted, as by a broker, and not refused
            (`telemetry.malformed`).
        max_compression_ratio: largest ratio of decompressed to received size, beyond the first MiB. Real payloads
            reach 10 to 25. Validating 16 MiB blocks the loop for half a second, so a sender has to upload a
            corresponding amount.
        compression_types: accepted, and announced in this order (`telemetry.compression.types`). NONE is always
            accepted and never announced (KIP-714, AcceptedCompressionTypes).
        cache_max_size: maximum number of client instances.
        instance_metrics_max: maximum number of instances with metrics of their own besides the totals
            (`telemetry.client.instance.metrics.max`).
        default_interval_ms: push interval of clients without a matching subscription [ms].
        delta_temporality: clients send sums as deltas.
        sender_limits: limits of one address or principal over all its instances.
        max_label_bytes: longest client-given label value in a push record [B, UTF-8]; longer values are cut and
            counted.
    """

    telemetry_max_bytes: int = 1 << 20
    telemetry_max_decompressed_bytes: int = 16 << 20
    accept_malformed: bool = True
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
