"""Setting a damaged segment aside: it stops nobody, it is kept to be looked at, and what it takes along is counted."""

import structlog

from exporters.push_log.cursors import Cursors
from exporters.push_log.directory import LogDirectory
from exporters.push_log.log import PushLogError

log = structlog.get_logger(__name__)


def set_aside(directory: LogDirectory, cursors: Cursors, number: int, reason: str) -> None:
    """Renames sealed segment `number` and counts its unread records for every exporter, as far as it still tells."""
    try:
        last_row = directory.tail(number, sealed=True).row
    except PushLogError:
        last_row = 0
    with directory.in_flight.lock:
        lost = cursors.drop(number, last_row, "damage", directory.in_flight.ends()) if last_row else {}
        directory.set_aside(number)
    log.error("a damaged segment of the push log was set aside", segment=number, reason=reason, lost_records=lost)
