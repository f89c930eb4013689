"""What one pipeline has done so far: counted in its thread, read from any.

Reasons and details may be a destination's own words: what is kept of them is bounded.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from exporters.delivery.histogram import EXPORT_BOUNDS_S, FRESHNESS_BOUNDS_S, Histogram, HistogramStats, empty
from exporters.delivery.outcome import Delivered, words
from push_log.log import Batch

MAX_REASONS: Final = 64
"""So many reasons are told apart, of failed tries and of refusals each; they are labels of a time series."""
OTHER_REASON: Final = "other"
"""What the others are counted by."""
_MAX_REASON_CHARS: Final = 64


class PipelineState(StrEnum):
    """Where a pipeline is."""

    STARTING = "starting"
    """Not yet ready to deliver: its destination cannot be prepared, or it was not started."""
    RUNNING = "running"
    RETRYING = "retrying"
    """The destination or the log is not available; the text of the last error says which."""
    STOPPED = "stopped"
    REVOKED = "revoked"
    """Another process took the cursor over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStats:
    """A snapshot of a pipeline.

    Attributes:
        exporter: its name.
        state: see `PipelineState`.
        delivered_records: pushes whose destination has them, heartbeats too.
        delivered_bytes: their decompressed metrics [B].
        delivered_batches: successful exports.
        rejected_points: data points that a destination took and threw away.
        retried: failed tries by reason.
        refused: pushes given up for good, by reason.
        passed_on_records: pushes whose share of the log passed to another process before their cursor had moved: that
            one delivers them, again where this one had already.
        replayed_records: pushes delivered again since an operator asked for it, after they had been refused.
        letters_without_room: refused pushes that a full disk kept out of the dead letters: neither delivered nor kept.
        splits: batches cut in halves, since they were too large or held something unacceptable.
        last_error: text of the last failure, with its reason; None before the first.
        last_error_at: wall time of it [us since the epoch].
        last_error_over_at: wall time when what had failed succeeded, or the destination took something again [us since
            the epoch]; None while that is not so, and where there is nothing to cure, as of a refused push.
        last_delivered_at: wall time of the last successful export [us since the epoch].
        last_export_ms: how long that export took [ms].
        export_s: how long successful exports took [s].
        freshness_s: of each push delivered, the time from its receipt to the end of its export [s]; without replays.
    """

    exporter: str
    state: PipelineState = PipelineState.STARTING
    delivered_records: int = 0
    delivered_bytes: int = 0
    delivered_batches: int = 0
    rejected_points: int = 0
    retried: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
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
    """The mutable side of `DeliveryStats`."""

    def __init__(self, exporter: str) -> None:
        self._lock = threading.Lock()
        self._exporter = exporter
        self._state = PipelineState.STARTING
        self._records = self._bytes = self._batches = self._rejected = self._splits = self._passed_on = 0
        self._replayed = self._letters_without_room = 0
        self._retried: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._last_error: str | None = None
        self._last_error_at: int | None = None
        self._last_error_over_at: int | None = None
        self._is_failing = False
        self._last_delivered_at: int | None = None
        self._last_export_ms: int | None = None
        self._export_s = Histogram(EXPORT_BOUNDS_S)
        self._freshness_s = Histogram(FRESHNESS_BOUNDS_S)

    def enter(self, state: PipelineState) -> None:
        """Moves to `state`."""
        with self._lock:
            self._state = state

    def recovered(self, *, now_us: int) -> None:
        """What had failed succeeded at `now_us` (wall time)."""
        with self._lock:
            self._recover(now_us)

    def unreachable(self, reason: str, detail: str, *, now_us: int) -> None:
        """Notes that the destination was not there when it was looked for, before there was anything to deliver."""
        with self._lock:
            self._fail(reason, detail, now_us, passes=True)

    def delivered(self, batch: Batch, outcome: Delivered, *, now_us: int, took_ms: int) -> None:
        """Counts a successful export that ended at `now_us` (wall time) after `took_ms`."""
        refused = {record.push_id for record in outcome.refused}
        taken = [record for record in batch.records if record.push_id not in refused]
        with self._lock:
            self._records += len(taken)
            self._bytes += sum(len(record.metrics) for record in taken)
            self._batches += 1
            self._rejected += outcome.rejected
            self._last_delivered_at = now_us
            self._last_export_ms = took_ms
            self._export_s.observe((took_ms / 1e3,))
            self._freshness_s.observe((now_us - record.received_at) / 1e6 for record in taken)
            self._recover(now_us)
            if outcome.rejected:
                self._fail("partial_success", f"{outcome.rejected} data points rejected: {outcome.detail}", now_us)

    def replayed(self, records: int) -> None:
        """Counts pushes that were delivered after they had been refused."""
        with self._lock:
            self._replayed += records

    def without_room(self, letters: int) -> None:
        """Counts refused pushes that could not be kept."""
        with self._lock:
            self._letters_without_room += letters

    def retried(self, reason: str, detail: str, *, now_us: int) -> str:
        """Counts a failed try; returns by which reason, see `OTHER_REASON`."""
        with self._lock:
            self._state = PipelineState.RETRYING
            self._fail(reason, detail, now_us, passes=True)
            return _counted(self._retried, reason)

    def refused(self, reason: str, detail: str, *, now_us: int) -> str:
        """Counts a push given up; returns by which reason, see `OTHER_REASON`."""
        with self._lock:
            self._fail(reason, detail, now_us)
            return _counted(self._refused, reason)

    def split(self) -> None:
        """Counts a batch cut in halves."""
        with self._lock:
            self._splits += 1

    def passed_on(self, records: int) -> None:
        """Counts pushes that became another process's."""
        with self._lock:
            self._passed_on += records

    def snapshot(self) -> DeliveryStats:
        """Everything as of now; later counting does not change it."""
        with self._lock:
            return DeliveryStats(
                exporter=self._exporter,
                state=self._state,
                delivered_records=self._records,
                delivered_bytes=self._bytes,
                delivered_batches=self._batches,
                rejected_points=self._rejected,
                retried=dict(self._retried),
                refused=dict(self._refused),
                passed_on_records=self._passed_on,
                replayed_records=self._replayed,
                letters_without_room=self._letters_without_room,
                splits=self._splits,
                last_error=self._last_error,
                last_error_at=self._last_error_at,
                last_error_over_at=self._last_error_over_at,
                last_delivered_at=self._last_delivered_at,
                last_export_ms=self._last_export_ms,
                export_s=self._export_s.snapshot(),
                freshness_s=self._freshness_s.snapshot(),
            )

    def _fail(self, reason: str, detail: str, now_us: int, *, passes: bool = False) -> None:
        """Notes a failure; one that passes is over with the next success."""
        self._last_error = words(f"{reason}: {detail}" if detail else reason)
        self._last_error_at = now_us
        self._last_error_over_at = None
        self._is_failing = passes

    def _recover(self, now_us: int) -> None:
        if self._is_failing:
            self._is_failing = False
            self._last_error_over_at = now_us


def _counted(counts: Counter[str], reason: str) -> str:
    known = words(reason, _MAX_REASON_CHARS)
    if known not in counts and len(counts) >= MAX_REASONS:
        known = OTHER_REASON
    counts[known] += 1
    return known
