"""How far the readers of this process have polled one log: what is on its way to a destination when a segment goes."""

import threading
from collections.abc import Mapping

from push_log.embedded.position import Position


class InFlight:
    """From an exporter's durable cursor up to the position kept here, its records are polled and not yet committed.

    Attributes:
        lock: held while a reader polls and while a segment is dropped, so that no record is polled that was just
            counted as lost.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._ends: dict[str, tuple[int, Position]] = {}

    def polled(self, exporter: str, epoch: int, end: Position) -> None:
        """Notes how far the reader with this epoch is; one that was taken over has no more say."""
        known = self._ends.get(exporter)
        if known is None or known[0] <= epoch:
            self._ends[exporter] = (epoch, end)

    def ends(self) -> Mapping[str, Position]:
        """How far each exporter's reader is, by the exporter's name."""
        return {exporter: end for exporter, (_, end) in tuple(self._ends.items())}
