"""What a watch says of each trigger, as one line."""

from dataclasses import dataclass
from typing import Any

from fleet.watch.deliver import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One trigger.

    Attributes:
        batch: its number.
        pushes: read.
        set_aside: rows that are no push; `fleet run` keeps them in the table `rejects`.
        too_late: pushes that came after `--late`, which count for nothing.
        clients: remembered by now.
        up_to: no push received before this will count any more; None at the beginning.
        took_s: [s].
        tally: what was delivered.
    """

    batch: int
    pushes: int
    set_aside: int
    too_late: int
    clients: int
    up_to: str | None
    took_s: float
    tally: Tally

    def line(self) -> str:
        """For an operator."""
        odd = {"set aside": self.set_aside, "too late": self.too_late, "passed over": self.tally.passed_over}
        parts = [
            f"batch {self.batch}: {self.pushes:,} pushes",
            f"{self.tally.opened:,} alerts opened, {self.tally.cleared:,} cleared",
            *(f"{count:,} {what}" for what, count in odd.items() if count),
            f"{self.clients:,} clients remembered",
            *([f"watched up to {self.up_to}"] if self.up_to else []),
            f"{self.took_s:,.1f} s",
        ]
        return "; ".join(parts)


def read_step(progress: Any, tally: Tally) -> Step:
    """Spark's report of a trigger."""
    observed = progress.observedMetrics.get("watch")
    state = progress.stateOperators[0] if progress.stateOperators else None
    watermark = progress.eventTime.get("watermark")
    return Step(
        batch=progress.batchId,
        pushes=observed.pushes if observed else 0,
        set_aside=observed.set_aside if observed else 0,
        too_late=state.numRowsDroppedByWatermark if state else 0,
        clients=state.numRowsTotal if state else 0,
        up_to=watermark if watermark and not watermark.startswith("1970-") else None,
        took_s=progress.durationMs.get("triggerExecution", 0) / 1_000,
        tally=tally,
    )
