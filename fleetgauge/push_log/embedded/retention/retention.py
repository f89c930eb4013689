"""Keeps the log within its bounds. Runs in the exporter process, so that the listener's loop never waits for it.

It deletes whole segments, never rows: deleting 15,000 rows blocks the writer for 129 ms, unlinking a file does not.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import Final, NamedTuple

import apsw

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.push_log.embedded.cursors import Cursors, CursorState
from fleetgauge.push_log.embedded.damage import set_aside
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.lag import lag_behind
from fleetgauge.push_log.embedded.position import START, Position
from fleetgauge.push_log.embedded.retention.ages import Ages
from fleetgauge.push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, Tail, translated
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.log import PushLogError

log = get_logger(__name__)

_BUSY_MS: Final = 1_000
_AGES: Final = "ages.db"


class SealedSegment(NamedTuple):
    """A sealed segment.

    `tail` is None while it cannot be read but is not known to be damaged. `written` is the number of rows that were
    written to it; 0 if unknown.
    """

    number: int
    tail: Tail | None
    written: int

    @property
    def last_row(self) -> int:
        """The last row that was written, as far as known."""
        return max(self.written, 0 if self.tail is None else self.tail.row)

    @property
    def is_short(self) -> bool:
        """True if it is truncated: it has fewer rows than were written."""
        return self.tail is not None and self.tail.row < self.written

    def is_passed_by(self, position: Position) -> bool:
        """True if it has no row after `position`; while its end is unknown, if `position` is in a later segment."""
        if self.tail is None and not self.written:
            return position.segment > self.number
        return not self.last_row or (self.number, self.last_row) <= position


class Retention:
    """The retention of one log. Not thread-safe, and only one process may run it.

    A configured exporter that never read counts as a cursor at the start: all segments are kept for it. No segment is
    kept for an exporter that is no longer configured; its undelivered records are logged once, and its cursor is
    removed once the segment of its position is deleted. Without exporters, only age and size count.
    """

    def __init__(
        self, settings: PushLogSettings, exporters: Iterable[str], directory: LogDirectory | None = None
    ) -> None:
        """Opens the log's cursors.

        Args:
            settings: the bounds and the log's directory.
            exporters: names of the configured exporters.
            directory: the log's, shared with the readers of this process: records in flight when their segment is
                deleted are lost only if they are not delivered.
        """
        self._settings = settings
        self._exporters = tuple(exporters)
        self._directory = directory or LogDirectory(settings.dir)
        self._stuck: set[int] = set()
        self._absent_are_logged = False
        self._limiter = LogLimiter()
        self._ages = Ages(settings.dir / _AGES, settings.retention_ms)
        self._cursors = Cursors(settings.dir)

    def run(self, now_ms: int) -> None:
        """Deletes and checkpoints segments. Cheap if there is nothing to do; call it every few seconds.

        A segment that cannot be read or deleted now does not delay the others.

        Args:
            now_ms: monotonic time [ms]; see `ages` for the age of a segment.

        Raises:
            PushLogError: the log or its cursors are not accessible now.
        """
        self._stuck.clear()
        self._log_absent()
        self._set_damaged_aside()
        self._drop_passed()
        for each in self._sealed():
            self._checkpoint(each)
        self._cursors.give_up(self._directory.in_flight.ends())
        self._drop_aged(now_ms)
        self._drop_oversize()
        self._forget_absent()

    def disk_bytes(self) -> int:
        """Disk size of the log, including segments that were set aside [B]."""
        corrupt = sum(path.stat().st_size for path in self._directory.corrupt_files())
        return corrupt + sum(self._directory.disk_bytes(number) for number in self._directory.numbers())

    def oldest_received_at(self) -> int | None:
        """Receive time of the newest push in the oldest sealed segment [us since the epoch]; None if there is none.

        Unreadable segments are skipped; 0 if none is readable.
        """
        sealed = self._sealed()
        readable = (each.tail.received_at for each in sealed if each.tail is not None)
        return next(readable, 0) if sealed else None

    def drop_oldest(self) -> None:
        """Deletes the oldest sealed segment for the log's size, delivered or not, and counts the losses.

        Raises:
            PushLogError: the cursors cannot be moved now.
        """
        for each in self._sealed()[:1]:
            self._drop(each, "push.log.retention.bytes")

    def close(self) -> None:
        """Closes the databases."""
        self._cursors.close()
        self._ages.close()

    def _sealed(self) -> list[SealedSegment]:
        """The sealed segments, oldest first, without those that this run could not delete."""
        tails: list[tuple[int, Tail | None]] = []
        for number in self._directory.live()[:-1]:
            if number in self._stuck:
                continue
            try:
                tails.append((number, self._directory.tail(number, sealed=True)))
            except (SegmentCorruptError, SegmentGoneError):
                continue
            except PushLogError:  # the readers log it, and `LogStats` counts it
                tails.append((number, None))
        return [SealedSegment(number, tail, self._directory.written(number)) for number, tail in tails]

    def _set_damaged_aside(self) -> None:
        for number in self._directory.live()[:-1]:
            try:
                self._directory.tail(number, sealed=True)
            except SegmentCorruptError as error:
                set_aside(self._directory, self._cursors, number, str(error))
            except PushLogError:
                continue

    def _drop_passed(self) -> None:
        positions = {state.exporter: state.position for state in self._cursors.states()}
        hindmost = min((positions.get(exporter, START) for exporter in self._exporters), default=START)
        for each in self._sealed():
            if each.is_passed_by(hindmost):
                self._remove(each.number, keep=each.is_short)

    def _remove(self, number: int, *, keep: bool = False) -> bool:
        """Deletes a segment; with `keep`, renames it for inspection."""
        try:
            if keep:
                self._directory.set_aside(number)
            else:
                self._directory.remove(number)
        except OSError as error:
            log.warning("push_log.segment_not_deleted", segment=number, error=str(error))
            self._stuck.add(number)
            return False
        return True

    def _checkpoint(self, sealed: SealedSegment) -> None:
        """Checkpoints a sealed segment, which makes it two to six times smaller.

        Not a damaged one: a checkpoint would delete what SQLite can no longer read of its write-ahead log.
        """
        number = sealed.number
        if sealed.tail is None or sealed.is_short or not self._directory.wal_bytes(number):
            return
        path = self._directory.segment(number)
        try:
            with translated(path), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
                connection.set_busy_timeout(_BUSY_MS)
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except PushLogError as error:
            log.info("push_log.segment_not_checkpointed", segment=number, error=str(error))

    def _drop_aged(self, now_ms: int) -> None:
        """Deletes expired segments, also those set aside."""
        aged_up_to = self._aged_up_to(now_ms)
        for each in self._sealed():
            if each.number <= aged_up_to:
                self._drop(each, "push.log.retention.ms")
        for path in self._directory.corrupt_files():
            if (number := self._directory.number_of(path)) is not None and number <= aged_up_to:
                path.unlink(missing_ok=True)

    def _aged_up_to(self, now_ms: int) -> int:
        """The newest expired segment; 0 if there is none, or the ages cannot be stored now (on a full disk)."""
        live = self._directory.live()
        if not live or self._directory.newest_problem is not None:  # the head is not known
            return 0
        try:
            return self._ages.aged(live[-1] - 1, now_ms)
        except PushLogError as error:
            if count := self._limiter.admit("ages", now_ms):
                log.warning(
                    "push_log.ages_unavailable",
                    message="no segment is deleted for its age",
                    error=str(error),
                    occurrences=count,
                )
            return 0

    def _drop_oversize(self) -> None:
        """Deletes first what was set aside, then the oldest segments; never the head."""
        excess = self.disk_bytes() - self._settings.retention_bytes
        for path in self._directory.corrupt_files():
            if excess > 0:
                excess -= path.stat().st_size
                path.unlink(missing_ok=True)
        for each in self._sealed():
            if excess > 0:
                size_bytes = self._directory.disk_bytes(each.number)
                if self._drop(each, "push.log.retention.bytes"):
                    excess -= size_bytes

    def _drop(self, sealed: SealedSegment, bound: str) -> bool:
        """Counts the losses first, then deletes: after a crash in between, the next run finds the segment delivered."""
        readable = sealed.last_row if sealed.tail is None else sealed.tail.row
        in_flight = self._directory.in_flight
        with in_flight.lock:
            dropped = self._cursors.drop(sealed.number, readable, "retention", in_flight.ends())
            missing = self._cursors.drop(sealed.number, sealed.last_row, "damage", in_flight.ends())
            lost = Counter(dropped) + Counter(missing)
            removed = self._remove(sealed.number)
        log.warning(
            "push_log.segment_dropped",
            segment=sealed.number,
            bound=bound,
            lost_records={exporter: count for exporter, count in lost.items() if exporter in self._exporters},
            readable=sealed.tail is not None,
        )
        return removed

    def _absent(self) -> list[CursorState]:
        """The cursors of exporters that are not configured."""
        return [state for state in self._cursors.states() if state.exporter not in self._exporters]

    def _log_absent(self) -> None:
        if self._absent_are_logged:
            return
        for state in self._absent():
            undelivered = lag_behind(self._directory, state.position).records
            if undelivered:
                log.warning(
                    "push_log.exporter_not_configured",
                    message="its undelivered pushes are deleted once the other exporters have delivered them",
                    exporter=state.exporter,
                    undelivered=undelivered,
                )
        self._absent_are_logged = True

    def _forget_absent(self) -> None:
        live = self._directory.live()
        for state in self._absent():
            if live and state.position.segment < live[0]:
                self._cursors.forget(state.exporter)
                log.info("push_log.cursor_removed", message="its exporter is not configured", exporter=state.exporter)
