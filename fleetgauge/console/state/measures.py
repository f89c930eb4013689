"""Measures that the console shows: columns of the wide rows (`fleet.measures`), with names and units."""

from typing import Final, NamedTuple


class ShownMeasure(NamedTuple):
    """A column, its name on the page, and its unit. `is_count` marks growth within a minute."""

    column: str
    label: str
    unit: str
    is_count: bool = False


LATENCY: Final = "request_latency_avg_ms"
LAG: Final = "lag_records"
POLL_IDLE: Final = "poll_idle_ratio_avg"
REBALANCES: Final = "rebalances"
PRODUCE_THROTTLE: Final = "produce_throttle_avg_ms"
FETCH_THROTTLE: Final = "fetch_throttle_avg_ms"

SHOWN: Final = (
    ShownMeasure(LATENCY, "Request latency", "ms"),
    ShownMeasure(PRODUCE_THROTTLE, "Throttled, produce", "ms"),
    ShownMeasure(FETCH_THROTTLE, "Throttled, fetch", "ms"),
    ShownMeasure(LAG, "Lag", "records"),
    ShownMeasure("records_consumed", "Records consumed", "records/min", is_count=True),
    ShownMeasure(POLL_IDLE, "Idle in poll()", "ratio"),
    ShownMeasure(REBALANCES, "Rebalances", "per min", is_count=True),
    ShownMeasure("records_sent", "Records sent", "records/min", is_count=True),
    ShownMeasure("record_errors", "Records failed", "records/min", is_count=True),
    ShownMeasure("record_retries", "Retried records", "records/min", is_count=True),
    ShownMeasure("records_per_request_avg", "Records a request", "records"),
    ShownMeasure("batch_size_avg_bytes", "Batch size", "B"),
    ShownMeasure("bytes_sent_per_s", "Bytes sent", "B/s"),
    ShownMeasure("connections_created", "Connections opened", "per min", is_count=True),
)
"""Measures in the order of display: the average over a minute of receipt, or the growth in it."""

COLUMNS: Final = tuple(measure.column for measure in SHOWN)
AVERAGES: Final = tuple(measure.column for measure in SHOWN if not measure.is_count)
"""Measures that are known while a minute is still running."""
