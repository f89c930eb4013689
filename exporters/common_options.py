"""The keys that every type of exporter has: batches, retries, labels. Their defaults live with the settings."""

from exporters.delivery.outcome import BatchSettings
from exporters.delivery.retry import RetrySettings
from exporters.labels import LABEL_NAMES, LabelSettings
from exporters.options import Options


def batch_settings(options: Options, default: BatchSettings) -> BatchSettings:
    """`batch.max.bytes`, `batch.max.records`, `linger.ms`."""
    return BatchSettings(
        max_bytes=options.integer("batch.max.bytes", default.max_bytes, minimum=1),
        max_records=options.integer("batch.max.records", default.max_records, minimum=1, maximum=1_000_000),
        linger_ms=options.integer("linger.ms", default.linger_ms, minimum=0),
    )


def retry_settings(options: Options, default: RetrySettings) -> RetrySettings:
    """`retry.backoff.ms`, `retry.backoff.max.ms`."""
    backoff_max_ms = options.integer("retry.backoff.max.ms", default.backoff_max_ms, minimum=1)
    first_ms = min(default.backoff_ms, backoff_max_ms)
    backoff_ms = options.integer("retry.backoff.ms", first_ms, minimum=1, maximum=backoff_max_ms)
    return RetrySettings(backoff_ms=backoff_ms, backoff_max_ms=backoff_max_ms)


def label_settings(options: Options, default: LabelSettings) -> LabelSettings:
    """`labels`, `static.labels`, `namespace`, `label.max.bytes`."""
    static = options.mapping("static.labels") or default.static
    try:
        return LabelSettings(
            labels=options.names("labels", default.labels, LABEL_NAMES),
            static=static,
            namespace=options.optional_text("namespace") or default.namespace,
            max_value_bytes=options.integer("label.max.bytes", default.max_value_bytes, minimum=1),
        )
    except ValueError as error:
        raise options.error("static.labels", dict(static), str(error)) from error
