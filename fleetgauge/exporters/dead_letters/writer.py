"""Writes rejected pushes to the dead letters, before the cursor may pass them.

A full disk is given some time, in which the log's housekeeping or an operator may free space. An exporter that waited
without limit would hold back the very log that fills the disk; so afterwards the push is left out, and counted.
"""

from collections.abc import Callable
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.exporter import Refusal, Retry
from fleetgauge.push_log.log import PushLogError, PushLogFullError

log = get_logger(__name__)

ROOM_WITHIN_MS: Final = 15_000
"""Time that a full disk may delay an exporter [ms]; the log's housekeeping runs every 5 s."""
FULL_FOR_MS: Final = 300_000
"""Time after a rejection without free space in which the next one does not wait for space again [ms]."""


class DeadLetterWriter:
    """Writes one exporter's dead letters; for one thread.

    Args:
        exporter: its name.
        letters: the store; None keeps nothing.
        time: the clocks.
        on_no_room: called with the number of pushes that were left out because the disk is full.
    """

    def __init__(
        self, exporter: str, letters: DeadLetters | None, time: Time, on_no_room: Callable[[int], None]
    ) -> None:
        self._exporter = exporter
        self._letters = letters
        self._time = time
        self._on_no_room = on_no_room
        self._full_since_ms: int | None = None
        self._full_at_ms = 0

    def write(self, refused: tuple[Refusal, ...]) -> bool | Retry:
        """Writes rejected pushes; True if they are in the store now, `Retry` while they cannot be written."""
        if self._letters is None:
            return False
        try:
            self._letters.put(self._exporter, refused)
        except PushLogError as error:
            if not isinstance(error, PushLogFullError) or self._may_get_room():
                return Retry(reason="dead_letters", detail=str(error))
        else:
            self._full_since_ms = None
            return True
        self._on_no_room(len(refused))
        log.error(
            "dead_letters.disk_full",
            message="rejected pushes were neither delivered nor kept: the disk is full",
            exporter=self._exporter,
            pushes=[refusal.record.push_id for refusal in refused[:5]],
            count=len(refused),
        )
        return False

    def _may_get_room(self) -> bool:
        """True while the disk has not been full for long."""
        now_ms = self._time.hi_res_clock_ms()
        if self._full_since_ms is None or now_ms - self._full_at_ms > FULL_FOR_MS:
            self._full_since_ms = now_ms
        self._full_at_ms = now_ms
        return now_ms - self._full_since_ms < ROOM_WITHIN_MS
