"""The counters of one pipeline: written by its thread, read from any.

Reasons and details may be a destination's own text, so both their length and the number of reasons are bounded.
"""

import threading
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from exporters.delivery.histogram import EXPORT_BOUNDS_S, FRESHNESS_BOUNDS_S, Histogram, HistogramStats, empty
from exporters.exporter import Delivered, bounded_text
from push_log.log import Batch

MAX_REASONS: Final = 64
"""Maximum number of distinct reasons, for failed attempts and for rejections each; they are labels of a time series."""
OTHER_REASON: Final = "other"
"""Counts all further reasons."""
_MAX_REASON_CHARS: Final = 64


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
    export_s: HistogramStats = field(default_factory=lambda: empty(EXPORT_BOUNDS_S))
    freshness_s: HistogramStats = field(default_factory=lambda: empty(FRESHNESS_BOUNDS_S))


class DeliveryCounters:
    """Counts into one `DeliveryStats`, and copies it on request."""

    def __init__(self, exporter: str) -> None:
        self._lock = threading.Lock()
        self._now = DeliveryStats(exporter=exporter)
        self._is_failing = False
        self._export_s = Histogram(EXPORT_BOUNDS_S)
        self._freshness_s = Histogram(FRESHNESS_BOUNDS_S)

    def enter(self, state: PipelineState) -> None:
        """Changes to `state`."""
        with self._lock:
            self._now.state = state

    def recovered(self, *, now_us: int) -> None:
        """Notes that the operation that had failed succeeded at `now_us` (wall time)."""
        with self._lock:
            self._recover(now_us)

    def unreachable(self, reason: str, detail: str, *, now_us: int) -> None:
        """Notes that the destination cannot be reached, before there is anything to deliver."""
        with self._lock:
            self._fail(reason, detail, now_us, passes=True)

    def delivered(self, batch: Batch, outcome: Delivered, *, now_us: int, took_ms: int) -> None:
        """Counts a successful export that ended at `now_us` (wall time) after `took_ms`."""
        refused = {record.push_id for record in outcome.refused}
        taken = [record for record in batch.records if record.push_id not in refused]
        with self._lock:
            self._now.delivered_records += len(taken)
            self._now.delivered_bytes += sum(len(record.metrics) for record in taken)
            self._now.delivered_batches += 1
            self._now.rejected_points += outcome.rejected
            self._now.last_delivered_at = now_us
            self._now.last_export_ms = took_ms
            self._export_s.observe((took_ms / 1e3,))
            self._freshness_s.observe((now_us - record.received_at) / 1e6 for record in taken)
            self._recover(now_us)
            if outcome.rejected:
                self._fail("partial_success", f"{outcome.rejected} data points rejected: {outcome.detail}", now_us)

    def replayed(self, letters: int) -> None:
        """Counts dead letters that a replay delivered."""
        with self._lock:
            self._now.replayed_records += letters

    def without_room(self, letters: int) -> None:
        """Counts rejected pushes that the dead letters had no room for."""
        with self._lock:
            self._now.letters_without_room += letters

    def retried(self, reason: str, detail: str, *, now_us: int) -> str:
        """Counts a failed attempt; returns the reason that it counts under, see `OTHER_REASON`."""
        with self._lock:
            self._now.state = PipelineState.RETRYING
            self._fail(reason, detail, now_us, passes=True)
            return _count(self._now.retried, reason)

    def refused(self, reason: str, detail: str, *, now_us: int) -> str:
        """Counts a permanently rejected push; returns the reason that it counts under, see `OTHER_REASON`."""
        with self._lock:
            self._fail(reason, detail, now_us)
            return _count(self._now.refused, reason)

    def split(self) -> None:
        """Counts a batch cut in halves."""
        with self._lock:
            self._now.splits += 1

    def passed_on(self, records: int) -> None:
        """Counts pushes that another process delivers now."""
        with self._lock:
            self._now.passed_on_records += records

    def snapshot(self) -> DeliveryStats:
        """A copy; later counting does not change it."""
        with self._lock:
            return replace(
                self._now,
                retried=dict(self._now.retried),
                refused=dict(self._now.refused),
                export_s=self._export_s.snapshot(),
                freshness_s=self._freshness_s.snapshot(),
            )

    def _fail(self, reason: str, detail: str, now_us: int, *, passes: bool = False) -> None:
        """Notes a failure; if it `passes`, the next success ends it."""
        self._now.last_error = bounded_text(f"{reason}: {detail}" if detail else reason)
        self._now.last_error_at = now_us
        self._now.last_error_over_at = None
        self._is_failing = passes

    def _recover(self, now_us: int) -> None:
        if self._is_failing:
            self._is_failing = False
            self._now.last_error_over_at = now_us


def _count(counts: dict[str, int], reason: str) -> str:
    known = bounded_text(reason, _MAX_REASON_CHARS)
    if known not in counts and len(counts) >= MAX_REASONS:
        known = OTHER_REASON
    counts[known] = counts.get(known, 0) + 1
    return known
