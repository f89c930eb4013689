"""What a client process can see of the history: its own steps since it began."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.fleet_model.fleet import App, Fleet
from benchmarks.fleet_model.levers import STEP_S, Array, Process
from benchmarks.fleet_model.physics import History

SAMPLE_STEPS: Final = 3
"""`metrics.sample.window.ms`: 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One push of one process. Steps are half-open.

    Attributes:
        before: step of the process's push before this one, or of its start.
        now: step of this push.
        is_first: no push of the process came before.
    """

    fleet: Fleet
    history: History
    process: Process
    app: App
    before: int
    now: int
    is_first: bool

    @property
    def slot(self) -> int:
        """The slot of the process."""
        return self.process.slot

    def since(self) -> slice:
        """Steps since the push before."""
        return slice(self.before, self.now)

    def window(self) -> slice:
        """Steps of Java's two samples of 30 s: the one before, and the one that is being filled (30 to 60 s)."""
        first = max(self.process.start, 0)
        age = self.now - self.process.start
        begin = self.now - (age - 1) % SAMPLE_STEPS - 1 - SAMPLE_STEPS
        return slice(max(begin, first, 0), self.now)

    def window_s(self) -> float:
        """Length of the window of rates [s]: Java takes at least one whole sample."""
        window = self.window()
        return float(max((window.stop - window.start) * STEP_S, 30.0))

    def total(self, table: Array, steps: slice) -> float:
        """Sum of a table [steps, slots] for this slot."""
        return float(table[steps, self.slot].sum(dtype=np.float64))

    def longest(self, table: Array, steps: slice) -> float:
        """Maximum of a table [steps, slots] for this slot."""
        own = table[steps, self.slot]
        return float(own.max()) if len(own) else 0.0

    def by_broker(self, cube: Array, steps: slice) -> Array:
        """Sums of a cube [steps, slots, brokers] for this slot."""
        sums: Array = cube[steps, self.slot].sum(axis=0, dtype=np.float64)
        return sums

    def resource(self, member_key: str) -> dict[str, str]:
        """Resource attributes of a consumer; empty for a producer."""
        if self.app.role == "producer":
            return {}
        return {"group_id": self.app.group, member_key: f"{self.app.client_id}-{self.slot}-{self.process.start}"}
