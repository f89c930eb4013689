"""Counts and logs the progress and the failures of one exporter. Repeated failures are logged once a minute."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.exporters.delivery.histogram import EXPORT_BOUNDS_S, FRESHNESS_BOUNDS_S, Histogram
from fleetgauge.exporters.delivery.stats import MAX_REASONS, OTHER_REASON, DeliveryStats, PipelineState
from fleetgauge.exporters.exporter import Delivered, Refusal, Refused, Retry, TooLarge, bounded_text
from fleetgauge.push_log.log import Batch

Failure = Retry | TooLarge | Refused

_MAX_REASON_CHARS: Final = 64


class DeliveryReport:
    """Counts and logs deliveries, in the exporter's own thread; `snapshot` may be called from any thread.

    Args:
        exporter: its name.
        destination: where it delivers, for the log.
        time: the clocks.

    Attributes:
        log: the exporter's log.
    """

    def __init__(self, exporter: str, destination: str, time: Time) -> None:
        self.log: Final = get_logger(__name__).bind(exporter=exporter)
        self._destination = destination
        self._time = time
        self._limiter = LogLimiter()
        self._lock = threading.Lock()
        self._now = DeliveryStats(exporter=exporter)
        self._is_failing = False
        self._called_ms: int | None = None
        self._export_s = Histogram(EXPORT_BOUNDS_S)
        self._freshness_s = Histogram(FRESHNESS_BOUNDS_S)

    def snapshot(self) -> DeliveryStats:
        """A copy of the counters; later counting does not change it."""
        with self._lock:
            return replace(
                self._now,
                call_ms=None if self._called_ms is None else self._time.hi_res_clock_ms() - self._called_ms,
                retried=dict(self._now.retried),
                refused=dict(self._now.refused),
                export_s=self._export_s.snapshot(),
                freshness_s=self._freshness_s.snapshot(),
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Surrounds a call of the exporter's own code, which may hang."""
        with self._lock:
            self._called_ms = self._time.hi_res_clock_ms()
        try:
            yield
        finally:
            with self._lock:
                self._called_ms = None

    def enter(self, state: PipelineState) -> None:
        """Changes to `state`."""
        with self._lock:
            self._now.state = state

    def failed(self, failure: Failure) -> bool:
        """Counts a failed attempt; returns True if it was logged."""
        with self._lock:
            self._now.state = PipelineState.RETRYING
            self._note_error(failure.reason, failure.detail, passes=True)
            reason = _count(self._now.retried, failure.reason)
        return self._warn(f"retry {reason}", "delivery.retrying", destination=self._destination, **_texts(failure))

    def raised(self, error: Exception) -> Retry:
        """Logs an unexpected exception, which is being handled, with its traceback; it counts as a `Retry`."""
        kind = type(error).__name__
        if count := self._occurrences(f"error {kind}"):
            self.log.exception("delivery.exporter_failed", occurrences=count)
        return Retry(reason="error", detail=f"{kind}: {error}")

    def unreachable(self, failure: Retry) -> None:
        """Notes that the destination cannot be reached, before there is anything to deliver."""
        with self._lock:
            self._note_error(failure.reason, failure.detail, passes=True)
        self.log.warning(
            "delivery.destination_unreachable",
            message="pushes wait in the log and are retried until the destination accepts them",
            destination=self._destination,
            **_texts(failure),
        )

    def running(self, logged_at_ms: int | None = None) -> None:
        """Notes that the pipeline runs; logs it if a failure was logged before, at `logged_at_ms` (monotonic)."""
        self.enter(PipelineState.RUNNING)
        if logged_at_ms is not None:
            self.log.info("delivery.resumed", after_ms=self._time.hi_res_clock_ms() - logged_at_ms)

    def recovered(self) -> None:
        """Notes that the operation that had failed succeeded."""
        with self._lock:
            self._note_success(self._time.microseconds())

    def delivered(self, part: Batch, outcome: Delivered, *, took_ms: int) -> None:
        """Counts a successful export, which has just ended and took `took_ms`."""
        now_us = self._time.microseconds()
        refused = {record.push_id for record in outcome.refused}
        taken = [record for record in part.records if record.push_id not in refused]
        with self._lock:
            self._now.delivered_records += len(taken)
            self._now.delivered_bytes += sum(len(record.metrics) for record in taken)
            self._now.delivered_batches += 1
            self._now.rejected_points += outcome.rejected
            self._now.last_delivered_at = now_us
            self._now.last_export_ms = took_ms
            self._export_s.observe((took_ms / 1e3,))
            self._freshness_s.observe((now_us - record.received_at) / 1e6 for record in taken)
            self._note_success(now_us)
            if outcome.rejected:
                self._note_error("partial_success", f"{outcome.rejected} data points rejected: {outcome.detail}")

    def points_rejected(self, part: Batch, outcome: Delivered) -> None:
        """Logs that the destination discarded data points of a batch that it accepted, if it did."""
        if outcome.rejected:
            self._warn(
                "rejected",
                "delivery.points_rejected",
                rejected=outcome.rejected,
                pushes=len(part.records),
                detail=bounded_text(outcome.detail),
            )

    def refused(self, refusal: Refusal, *, kept: bool) -> None:
        """Counts a push that the destination rejects permanently; `kept` if it is now a dead letter."""
        with self._lock:
            self._note_error(refusal.reason, refusal.detail)
            reason = _count(self._now.refused, refusal.reason)
        push_id = refusal.record.push_id
        self._warn(f"refused {reason}", "delivery.push_refused", push_id=push_id, kept=kept, **_texts(refusal))

    def passed_on(self, pushes: int) -> None:
        """Counts pushes whose share of the log passed to another process, if any."""
        if pushes:
            with self._lock:
                self._now.passed_on_records += pushes
            self.log.info("delivery.pushes_passed_on", pushes=pushes)

    def split(self) -> None:
        """Counts a batch cut in halves."""
        with self._lock:
            self._now.splits += 1

    def replayed(self, letters: int) -> None:
        """Counts dead letters that a replay delivered."""
        with self._lock:
            self._now.replayed_records += letters

    def without_room(self, letters: int) -> None:
        """Counts rejected pushes that the dead letters had no room for."""
        with self._lock:
            self._now.letters_without_room += letters

    def _note_error(self, reason: str, detail: str, *, passes: bool = False) -> None:
        """Notes a failure; if it `passes`, the next success ends it."""
        self._now.last_error = bounded_text(f"{reason}: {detail}" if detail else reason)
        self._now.last_error_at = self._time.microseconds()
        self._now.last_error_over_at = None
        self._is_failing = passes

    def _note_success(self, now_us: int) -> None:
        if self._is_failing:
            self._is_failing = False
            self._now.last_error_over_at = now_us

    def _warn(self, kind: str, event: str, **fields: object) -> bool:
        count = self._occurrences(kind)
        if count:
            self.log.warning(event, **fields, occurrences=count)
        return count > 0

    def _occurrences(self, kind: str) -> int:
        return self._limiter.admit(kind, self._time.hi_res_clock_ms())


def _texts(problem: Failure | Refusal) -> dict[str, str]:
    return {"reason": bounded_text(problem.reason), "detail": bounded_text(problem.detail)}


def _count(counts: dict[str, int], reason: str) -> str:
    """Counts under the reason, or under `OTHER_REASON` where there are too many; returns which."""
    known = bounded_text(reason, _MAX_REASON_CHARS)
    if known not in counts and len(counts) >= MAX_REASONS:
        known = OTHER_REASON
    counts[known] = counts.get(known, 0) + 1
    return known
