"""Rejections that do not say whether the push or the destination is at fault: OTLP's INTERNAL, HTTP's 500.

A receiver whose backend has failed may answer so to every push, and would turn a whole backlog into dead letters. A
receiver that accepts another push of the same batch, or gives another answer to it, works: then the push is at fault.
"""

from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.exporters.exporter import Refusal, Refused, Retry, Settled

IN_DOUBT_FOR_MS: Final = 600_000
"""Time to keep retrying a batch when the destination rejects every push without a reason [ms]."""


class AmbiguousRejections:
    """The rejections of one batch, over all attempts of the whole batch.

    Attributes:
        timed_out: `IN_DOUBT_FOR_MS` is over, so that the pushes count as being at fault.
    """

    def __init__(self, time: Time) -> None:
        self._time = time
        self._first_attempt_ms = self._attempt_ms = time.hi_res_clock_ms()
        self._pushes_at_fault = self.timed_out = False
        self._held: tuple[Refusal, ...] = ()

    def confirm(self, outcome: Settled, refused: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
        """Adds the rejections of a part; returns those, also earlier ones, that are now known to be the pushes' fault.

        Args:
            outcome: the destination's answer to the part.
            refused: what it rejects of it.
        """
        self._held += refused
        if not self._pushes_at_fault and isinstance(outcome, Refused) and outcome.in_doubt:
            return ()
        self._pushes_at_fault = True
        return self.take_rest()

    def failure(self) -> Retry | None:
        """Why to retry the whole batch: every push of several was rejected ambiguously. A single one is not retried."""
        if len(self._held) < 2:
            return None
        first = self._held[0]
        return Retry(
            reason=first.reason, detail=f"every one of {len(self._held)} pushes is rejected by itself: {first.detail}"
        )

    def take_rest(self) -> tuple[Refusal, ...]:
        """Returns the rejections that are still held, and forgets them."""
        held, self._held = self._held, ()
        return held

    def attempt_took_ms(self) -> int:
        """The duration of the current attempt of the whole batch so far [ms]."""
        return self._time.hi_res_clock_ms() - self._attempt_ms

    def begin_attempt(self) -> None:
        """Begins another attempt of the whole batch."""
        self._held = ()
        self._attempt_ms = self._time.hi_res_clock_ms()
        self._pushes_at_fault = self.timed_out = self._attempt_ms - self._first_attempt_ms >= IN_DOUBT_FOR_MS
