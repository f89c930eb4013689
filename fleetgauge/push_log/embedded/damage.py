"""Setting a damaged segment aside: delivery continues after it, the file is kept for inspection, losses are counted."""

from contextlib import suppress

from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.log import PushLogError

log = get_logger(__name__)


def set_aside(directory: LogDirectory, cursors: Cursors, number: int, reason: str) -> None:
    """Renames sealed segment `number`, and counts its unread records as lost if their number is known."""
    last_row = directory.written(number)
    with suppress(PushLogError):
        last_row = max(last_row, directory.tail(number, sealed=True).row)
    with directory.in_flight.lock:
        lost = cursors.drop(number, last_row, "damage", directory.in_flight.ends()) if last_row else {}
        directory.set_aside(number)
    log.error(
        "push_log.segment_set_aside",
        message="a damaged segment was renamed; its unread pushes are lost",
        segment=number,
        error=reason,
        lost_records=lost if last_row else "unknown",
    )
