"""Keeping the log within its bounds, from the exporter process: the listener's loop never waits for it.

Whole segments go, never rows (MEASURED.md: deleting 15,000 rows holds the writer for 129 ms, unlinking costs nothing).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import apsw
import structlog

from base.log_limiter import LogLimiter
from push_log.embedded.ages import Ages
from push_log.embedded.cursors import Cursors, CursorState
from push_log.embedded.damage import set_aside
from push_log.embedded.directory import LogDirectory
from push_log.embedded.lag import lag_behind
from push_log.embedded.position import START
from push_log.embedded.sealed_segment import SealedSegment
from push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, Tail, translated
from push_log.embedded.settings import PushLogSettings
from push_log.log import PushLogError

log = structlog.get_logger(__name__)

_BUSY_MS: Final = 1_000
_AGES: Final = "ages.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What one run did.

    Attributes:
        passed: segments unlinked because every configured exporter has them.
        dropped: segments unlinked for age or size.
        checkpointed: sealed segments whose write-ahead log was folded in.
        damaged: segments set aside.
        lost_records: records dropped unread, by exporter.
        forgotten: cursors removed, of exporters that are no longer configured and have lost their place.
    """

    passed: int
    dropped: int
    checkpointed: int
    damaged: int
    lost_records: dict[str, int]
    forgotten: tuple[str, ...]


class Retention:
    """The upkeep of one log; for one thread of one process.

    A configured exporter that never read yet holds back everything, like a cursor at the start. The cursor of an
    exporter that is no longer configured holds back nothing, and what it has not delivered is said once. It is kept
    while the log still reaches back to it, which is as long as the other exporters are behind, too, and is forgotten
    once it has lost its place. Without any exporter, age and size alone decide.
    """

    def __init__(
        self, settings: PushLogSettings, exporters: Iterable[str], directory: LogDirectory | None = None
    ) -> None:
        """Opens the log's cursors.

        Args:
            settings: what is kept, and where.
            exporters: the names of the configured ones.
            directory: the log's, shared with the readers of this process: what they have in hand when its segment goes
                is lost only when they cannot deliver it.
        """
        self._settings = settings
        self._exporters = tuple(exporters)
        self._directory = directory or LogDirectory(settings.dir)
        self._stuck: set[int] = set()
        self._absent_are_said = False
        self._calm = LogLimiter()
        self._ages = Ages(settings.dir / _AGES, settings.retention_ms)
        self._cursors = Cursors(settings.dir)

    def run(self, now_ms: int) -> Upkeep:
        """Unlinks, checkpoints, drops. Cheap when there is nothing to do; meant for every few seconds.

        A segment that cannot be read or unlinked now holds up none but itself.

        Args:
            now_ms: monotonic time [ms]; the age of a segment is the time that this log has seen pass since it was
                sealed, see `ages`.

        Raises:
            PushLogError: the log or its cursors cannot be worked on now.
        """
        self._stuck.clear()
        self._say_absent()
        damaged = self._set_damaged_aside()
        passed = self._drop_passed()
        checkpointed = sum(self._checkpoint(each) for each in self._sealed())
        lost = self._configured(self._cursors.give_up(self._directory.in_flight.ends()))
        dropped = self._drop_aged(now_ms, lost) + self._drop_oversize(lost)
        return Upkeep(
            passed=passed,
            dropped=dropped,
            checkpointed=checkpointed,
            damaged=damaged,
            lost_records=dict(lost),
            forgotten=self._forget_absent(),
        )

    def disk_bytes(self) -> int:
        """What the log takes on the disk, with what was set aside [B]."""
        corrupt = sum(path.stat().st_size for path in self._directory.corrupt_files())
        return corrupt + sum(self._directory.disk_bytes(number) for number in self._directory.numbers())

    def oldest_received_at(self) -> int | None:
        """Of what `drop_oldest` would drop, when its last push came [us since the epoch]; None if that is nothing.

        0 where nothing that could be dropped can be read.
        """
        sealed = self._sealed()
        readable = (each.tail.received_at for each in sealed if each.tail is not None)
        return next(readable, 0) if sealed else None

    def drop_oldest(self) -> None:
        """Drops the oldest sealed segment for the log's size, read or not, and counts what is lost with it.

        Raises:
            PushLogError: the cursors cannot be moved now.
        """
        for each in self._sealed()[:1]:
            self._drop(each, "push.log.retention.bytes", Counter())

    def close(self) -> None:
        """Ends the upkeep."""
        self._cursors.close()
        self._ages.close()

    def _sealed(self) -> list[SealedSegment]:
        """The sealed segments, oldest first, but for those that this run could not unlink."""
        found: list[tuple[int, Tail | None]] = []
        for number in self._directory.live()[:-1]:
            if number in self._stuck:
                continue
            try:
                found.append((number, self._directory.tail(number, sealed=True)))
            except (SegmentCorruptError, SegmentGoneError):
                continue
            except PushLogError:  # the exporters say so, and `LogStats` counts it
                found.append((number, None))
        return [SealedSegment(number, tail, self._directory.written(number)) for number, tail in found]

    def _set_damaged_aside(self) -> int:
        damaged = 0
        for number in self._directory.live()[:-1]:
            try:
                self._directory.tail(number, sealed=True)
            except SegmentCorruptError as error:
                set_aside(self._directory, self._cursors, number, str(error))
                damaged += 1
            except PushLogError:
                continue
        return damaged

    def _drop_passed(self) -> int:
        positions = {state.exporter: state.position for state in self._cursors.states()}
        hindmost = min((positions.get(exporter, START) for exporter in self._exporters), default=START)
        passed = [each for each in self._sealed() if each.is_passed_by(hindmost)]
        return sum(self._remove(each.number, keep=each.is_short) for each in passed)

    def _remove(self, number: int, *, keep: bool = False) -> bool:
        """Takes a segment away, or keeps what is left of it to be looked at."""
        try:
            if keep:
                self._directory.set_aside(number)
            else:
                self._directory.remove(number)
        except OSError as error:
            log.warning("a segment of the push log cannot be removed", segment=number, reason=str(error))
            self._stuck.add(number)
            return False
        return True

    def _checkpoint(self, sealed: SealedSegment) -> bool:
        """Folds a sealed segment's write-ahead log in, which makes it two to six times smaller.

        Not that of a damaged one: what SQLite can no longer read of it would be gone for good.
        """
        number = sealed.number
        if sealed.tail is None or sealed.is_short or not self._directory.wal_bytes(number):
            return False
        path = self._directory.segment(number)
        try:
            with translated(path), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
                connection.set_busy_timeout(_BUSY_MS)
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except PushLogError as error:
            log.info("a segment of the push log cannot be checkpointed yet", segment=number, reason=str(error))
            return False
        return True

    def _drop_aged(self, now_ms: int, lost: Counter[str]) -> int:
        """Drops the segments that have been sealed for the retention, and what was set aside of such ones."""
        aged_up_to = self._aged_up_to(now_ms)
        aged = [each for each in self._sealed() if each.number <= aged_up_to]
        for each in aged:
            self._drop(each, "push.log.retention.ms", lost)
        for path in self._directory.corrupt_files():
            if (number := self._directory.number_of(path)) is not None and number <= aged_up_to:
                path.unlink(missing_ok=True)
        return len(aged)

    def _aged_up_to(self, now_ms: int) -> int:
        """The newest segment that age drops; 0 where there is none, or ages cannot be noted now (on a full disk)."""
        live = self._directory.live()
        if not live or self._directory.newest_problem is not None:  # which one is the head cannot be told
            return 0
        try:
            return self._ages.aged(live[-1] - 1, now_ms)
        except PushLogError as error:
            if count := self._calm.admit("ages", now_ms):
                log.warning(
                    "no segment of the push log is dropped for its age now", problem=str(error), occurrences=count
                )
            return 0

    def _drop_oversize(self, lost: Counter[str]) -> int:
        """What was set aside goes first, then the oldest segments; the head always stays."""
        corrupt = self._directory.corrupt_files()
        excess = sum(self._directory.disk_bytes(number) for number in self._directory.numbers())
        excess += sum(path.stat().st_size for path in corrupt) - self._settings.retention_bytes
        for path in corrupt:
            if excess > 0:
                excess -= path.stat().st_size
                path.unlink(missing_ok=True)
        dropped = 0
        for each in self._sealed():
            if excess > 0:
                size_bytes = self._directory.disk_bytes(each.number)
                if self._drop(each, "push.log.retention.bytes", lost):
                    excess -= size_bytes
                    dropped += 1
        return dropped

    def _drop(self, sealed: SealedSegment, bound: str, lost: Counter[str]) -> bool:
        """Counts first, then unlinks: ended in between, the next run finds the segment passed."""
        readable = sealed.last_row if sealed.tail is None else sealed.tail.row
        in_flight = self._directory.in_flight
        with in_flight.lock:
            dropped = self._cursors.drop(sealed.number, readable, "retention", in_flight.ends())
            missing = self._cursors.drop(sealed.number, sealed.last_row, "damage", in_flight.ends())
            losses = self._configured(Counter(dropped) + Counter(missing))
            removed = self._remove(sealed.number)
        lost.update(losses)
        log.warning(
            "a segment of the push log was dropped",
            segment=sealed.number,
            bound=bound,
            lost_records=dict(losses),
            readable=sealed.tail is not None,
        )
        return removed

    def _configured(self, lost: Mapping[str, int]) -> Counter[str]:
        return Counter(
            {exporter: records for exporter, records in lost.items() if exporter in self._exporters and records}
        )

    def _absent(self) -> list[CursorState]:
        """The cursors of exporters that are no longer configured."""
        return [state for state in self._cursors.states() if state.exporter not in self._exporters]

    def _say_absent(self) -> None:
        if self._absent_are_said:
            return
        for state in self._absent():
            undelivered = lag_behind(self._directory, state.position).records
            if undelivered:
                log.warning(
                    "an exporter that is no longer configured has not delivered everything; its pushes go as soon as "
                    "the others have theirs, unless it is configured again before",
                    exporter=state.exporter,
                    undelivered=undelivered,
                )
        self._absent_are_said = True

    def _forget_absent(self) -> tuple[str, ...]:
        live = self._directory.live()
        lost_place = tuple(state.exporter for state in self._absent() if live and state.position.segment < live[0])
        for exporter in lost_place:
            self._cursors.forget(exporter)
            log.info("the cursor of an exporter that is no longer configured was removed", exporter=exporter)
        return lost_place
