"""Counts and logs the progress and the failures of one exporter. Repeated failures are logged once a minute."""

from typing import Any

import structlog

from base.clock import Time
from base.log_limiter import LogLimiter
from exporters.delivery.stats import DeliveryCounters, PipelineState
from exporters.exporter import Delivered, Refusal, Refused, Retry, TooLarge, bounded_text
from push_log.log import Batch

Failure = Retry | TooLarge | Refused


class DeliveryReport:
    """For the exporter's own thread; `counters` may be read from any.

    Args:
        exporter: its name.
        destination: where it delivers, for the log.
        time: the clocks.

    Attributes:
        counters: the numbers.
        log: the exporter's log.
    """

    def __init__(self, exporter: str, destination: str, time: Time) -> None:
        self.counters = DeliveryCounters(exporter)
        self.log: Any = structlog.get_logger(__name__).bind(exporter=exporter)
        self._destination = destination
        self._time = time
        self._limiter = LogLimiter()

    def failed(self, failure: Failure) -> bool:
        """Counts a failed attempt; returns True if it was logged."""
        reason = self.counters.retried(failure.reason, failure.detail, now_us=self._time.microseconds())
        return self._warn(f"retry {reason}", "delivery.retrying", destination=self._destination, **_texts(failure))

    def raised(self, error: Exception) -> Retry:
        """Logs an unexpected exception, which is being handled, with its traceback; it counts as a `Retry`."""
        kind = type(error).__name__
        if count := self._occurrences(f"error {kind}"):
            self.log.exception("delivery.exporter_failed", occurrences=count)
        return Retry(reason="error", detail=f"{kind}: {error}")

    def unreachable(self, failure: Retry) -> None:
        """Notes that the destination cannot be reached, before there is anything to deliver."""
        self.counters.unreachable(failure.reason, failure.detail, now_us=self._time.microseconds())
        self.log.warning(
            "delivery.destination_unreachable",
            message="pushes wait in the log and are retried until the destination accepts them",
            destination=self._destination,
            **_texts(failure),
        )

    def running(self, logged_at_ms: int | None = None) -> None:
        """Notes that the pipeline runs; logs it if a failure was logged before, at `logged_at_ms` (monotonic)."""
        self.counters.enter(PipelineState.RUNNING)
        if logged_at_ms is not None:
            self.log.info("delivery.resumed", after_ms=self._time.hi_res_clock_ms() - logged_at_ms)

    def delivered(self, part: Batch, outcome: Delivered, *, took_ms: int) -> None:
        """Counts a successful export."""
        self.counters.delivered(part, outcome, now_us=self._time.microseconds(), took_ms=took_ms)

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
        reason = self.counters.refused(refusal.reason, refusal.detail, now_us=self._time.microseconds())
        push_id = refusal.record.push_id
        self._warn(f"refused {reason}", "delivery.push_refused", push_id=push_id, kept=kept, **_texts(refusal))

    def passed_on(self, pushes: int) -> None:
        """Counts pushes whose share of the log passed to another process, if any."""
        if pushes:
            self.counters.passed_on(pushes)
            self.log.info("delivery.pushes_passed_on", pushes=pushes)

    def _warn(self, kind: str, event: str, **fields: object) -> bool:
        count = self._occurrences(kind)
        if count:
            self.log.warning(event, **fields, occurrences=count)
        return count > 0

    def _occurrences(self, kind: str) -> int:
        return self._limiter.admit(kind, self._time.hi_res_clock_ms())


def _texts(problem: Failure | Refusal) -> dict[str, str]:
    return {"reason": bounded_text(problem.reason), "detail": bounded_text(problem.detail)}
