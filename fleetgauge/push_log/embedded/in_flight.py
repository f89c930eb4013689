"""Positions of this process's readers in one log: the records in flight when a segment is deleted."""

import threading
from collections.abc import Mapping

from fleetgauge.push_log.embedded.position import Position


class InFlight:
    """An exporter's records between its durable cursor and the position kept here are polled and not committed.

    Attributes:
        lock: held while a reader polls and while a segment is deleted, so that no record is polled after it was
            counted as lost.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._ends: dict[str, tuple[int, Position]] = {}

    def polled(self, exporter: str, epoch: int, end: Position) -> None:
        """Records how far the reader with this epoch has polled; ignored if a later one took over."""
        known = self._ends.get(exporter)
        if known is None or known[0] <= epoch:
            self._ends[exporter] = (epoch, end)

    def ends(self) -> Mapping[str, Position]:
        """Exporter -> position up to which its reader has polled."""
        return {exporter: end for exporter, (_, end) in tuple(self._ends.items())}
