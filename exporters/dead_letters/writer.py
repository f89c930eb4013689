"""Puts what a destination refused among the dead letters, before the cursor may pass it.

A full disk is given some time, in which the log's upkeep and an operator may make room. An exporter that waited for
ever would hold the log back that fills the disk; so then the push is left out, as if there were no table, and counted.
"""

from typing import Final

import structlog

from base.clock import Time
from exporters.dead_letters.store import DeadLetters
from exporters.delivery.outcome import Delivered, Outcome, Refusal, Retry
from push_log.log import PushLogError, PushLogFullError

log = structlog.get_logger(__name__)

ROOM_WITHIN_MS: Final = 15_000
"""For so long a full disk may hold an exporter up [ms]; the log's upkeep runs every 5 s."""
FULL_FOR_MS: Final = 300_000
"""For so long after a refusal found no room the next one need not wait for it anew [ms]."""


class Burial:
    """One exporter's way to the dead letters; for one thread.

    Args:
        exporter: its name.
        letters: the table; None keeps nothing.
        time: the clocks.

    Attributes:
        left_out: what was buried last is not in the table, for want of room on the disk.
    """

    def __init__(self, exporter: str, letters: DeadLetters | None, time: Time) -> None:
        self._exporter = exporter
        self._letters = letters
        self._time = time
        self._full_since_ms: int | None = None
        self._full_at_ms = 0
        self.left_out = False

    @property
    def keeps(self) -> bool:
        """True if what was buried last is in the table."""
        return self._letters is not None and not self.left_out

    def bury(self, refused: tuple[Refusal, ...]) -> Outcome:
        """Keeps what was refused; `Retry` while it cannot be written."""
        self.left_out = False
        if self._letters is None:
            return Delivered()
        try:
            self._letters.put(self._exporter, refused)
        except PushLogFullError as error:
            return self._without_room(error, refused)
        except PushLogError as error:
            return Retry(reason="dead_letters", detail=str(error))
        self._full_since_ms = None
        return Delivered()

    def _without_room(self, error: PushLogFullError, refused: tuple[Refusal, ...]) -> Outcome:
        now_ms = self._time.hi_res_clock_ms()
        if self._full_since_ms is None or now_ms - self._full_at_ms > FULL_FOR_MS:
            self._full_since_ms = now_ms
        self._full_at_ms = now_ms
        if now_ms - self._full_since_ms < ROOM_WITHIN_MS:
            return Retry(reason="dead_letters", detail=str(error))
        self.left_out = True
        log.error(
            "refused pushes could not be kept: the disk is full",
            exporter=self._exporter,
            pushes=[refusal.record.push_id for refusal in refused[:5]],
            count=len(refused),
        )
        return Delivered()
