"""Setting a damaged segment aside: it stops nobody, it is kept to be looked at, and what it takes along is counted."""

from contextlib import suppress

import structlog

from push_log.embedded.cursors import Cursors
from push_log.embedded.directory import LogDirectory
from push_log.log import PushLogError

log = structlog.get_logger(__name__)


def set_aside(directory: LogDirectory, cursors: Cursors, number: int, reason: str) -> None:
    """Renames sealed segment `number` and counts its unread records for every exporter, if anything tells how many."""
    last_row = directory.written(number)
    with suppress(PushLogError):
        last_row = max(last_row, directory.tail(number, sealed=True).row)
    with directory.in_flight.lock:
        lost = cursors.drop(number, last_row, "damage", directory.in_flight.ends()) if last_row else {}
        directory.set_aside(number)
    log.error(
        "a damaged segment of the push log was set aside",
        segment=number,
        reason=reason,
        lost_records=lost if last_row else "unknown",
    )
