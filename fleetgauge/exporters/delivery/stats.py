"""The counters of one pipeline, as values; `report` counts.

Reasons and details may be a destination's own text, so both their length and the number of reasons are bounded.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fleetgauge.exporters.delivery.histogram import EXPORT_BOUNDS_S, FRESHNESS_BOUNDS_S, Histogram, HistogramStats

MAX_REASONS: Final = 64
"""Maximum number of distinct reasons, for failed attempts and for rejections each; they are labels of a time series."""
OTHER_REASON: Final = "other"
"""Counts all further reasons."""


class PipelineState(StrEnum):
    """State of a pipeline."""

    STARTING = "starting"
    """Not yet ready to deliver: the exporter could not start, or was not started."""
    RUNNING = "running"
    RETRYING = "retrying"
    """The destination or the log is not available; the text of the last error tells which."""
    STOPPED = "stopped"
    REVOKED = "revoked"
    """Another process took the cursor over."""


@dataclass(slots=True, kw_only=True)
class DeliveryStats:
    """A snapshot of a pipeline.

    Attributes:
        exporter: its name.
        state: see `PipelineState`.
        delivered_records: delivered pushes, including heartbeats.
        delivered_bytes: their decompressed metrics [B].
        delivered_batches: successful exports.
        rejected_points: data points that the destination accepted and discarded.
        retried: failed attempts by reason.
        refused: permanently rejected pushes by reason.
        passed_on_records: pushes whose share of the log passed to another process before their cursor had moved; that
            process delivers them, again if this one already had.
        replayed_records: dead letters delivered by a replay.
        letters_without_room: rejected pushes that a full disk kept out of the dead letters: neither delivered nor kept.
        splits: batches cut in halves, because they were too large or held something unacceptable.
        last_error: text of the last failure, with its reason; None before the first.
        last_error_at: wall time of it [us since the epoch].
        last_error_over_at: wall time when the failed operation succeeded, or the destination accepted something again
            [us since the epoch]; None until then, and for failures that do not end, such as a rejected push.
        last_delivered_at: wall time of the last successful export [us since the epoch].
        last_export_ms: duration of that export [ms].
        call_ms: for how long the exporter has not returned from the call that it is in [ms]; None while it is in none.
        export_s: durations of successful exports [s].
        freshness_s: for each delivered push, the time from its receipt to the end of its export [s]; without replays.
    """

    exporter: str
    state: PipelineState = PipelineState.STARTING
    delivered_records: int = 0
    delivered_bytes: int = 0
    delivered_batches: int = 0
    rejected_points: int = 0
    retried: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    passed_on_records: int = 0
    replayed_records: int = 0
    letters_without_room: int = 0
    splits: int = 0
    last_error: str | None = None
    last_error_at: int | None = None
    last_error_over_at: int | None = None
    last_delivered_at: int | None = None
    last_export_ms: int | None = None
    call_ms: int | None = None
    export_s: HistogramStats = field(default_factory=lambda: Histogram(EXPORT_BOUNDS_S).snapshot())
    freshness_s: HistogramStats = field(default_factory=lambda: Histogram(FRESHNESS_BOUNDS_S).snapshot())
