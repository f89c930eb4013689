"""Writer of the embedded log: a single process, one transaction per commit."""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.cursors import highest_segment
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.free_space import FreeSpace, PushLogDirectoryError
from fleetgauge.push_log.embedded.head import HeadSegment, NoSegment
from fleetgauge.push_log.embedded.segment import Predecessor, SegmentCorruptError
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.embedded.supply import SegmentSupply, Spawn, in_thread
from fleetgauge.push_log.log import PushLogError, PushLogFullError, PushLogLockedError
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushRecord

log = get_logger(__name__)

_ERRORS_UNTIL_NEW_SEGMENT: Final = 3
LOCK_NAME: Final = "writer.lock"
_CODEC: Final = PushRecord._fields.index("compression_type")


class SqlitePushLogWriter:
    """The single writer of the embedded log, for one thread at a time. Opening it opens a new segment.

    The next segment is created in a thread when the head is half full, so that rolling is one short transaction. If it
    is not ready in time, the head grows beyond its size.
    """

    def __init__(self, settings: PushLogSettings, time: Time | None = None, *, spawn: Spawn = in_thread) -> None:
        """Opens the log in `settings.dir`.

        Raises:
            PushLogLockedError: another process writes it.
            PushLogError: it cannot be written.
        """
        self._settings = settings
        self._time = time or SystemTime()
        self._errors = 0
        self._head_since_ms: int | None = None
        self._lock = _lock(settings.dir)
        try:
            directory = LogDirectory(settings.dir)
            self._free_space = FreeSpace(settings.dir, settings.min_free_bytes, self._time)
            first_number, self._predecessor = _look_back(directory)
            self._supply = SegmentSupply(directory, settings.flush, first_number, time=self._time, spawn=spawn)
            self._head: HeadSegment | NoSegment = NoSegment(settings.dir)
            self._begin()
        except BaseException:
            os.close(self._lock)
            raise

    def write(self, pushes: Sequence[Push]) -> None:
        """Writes all pushes in one transaction, or none.

        A payload is stored as received, or decompressed if that is shorter, as after gzip of level 0.

        Raises:
            PushLogFullError: the disk is full. No push was written.
            PushLogError: any other failure. No push was written.
        """
        try:
            self._free_space.check()
            self.roll_if_due()
            head = self._head
            row, end_bytes = head.rows, head.end_bytes
            rows: list[tuple[object, ...]] = []
            for push in pushes:
                metrics, encoded = push.metrics, push.encoded
                size = len(metrics)
                row += 1
                end_bytes += size
                codec = push.row[_CODEC]
                if codec == "none" or len(encoded) >= size:
                    rows.append((row, *push.row, metrics, None, size, end_bytes))
                else:
                    rows.append((row, *push.row, encoded, codec, size, end_bytes))
            self._write(rows, end_bytes)
        except PushLogError as error:
            self._note_failure(error)
            raise
        self._errors = 0

    def check_room(self) -> None:
        """Checks the free space of the disk.

        Raises:
            PushLogError: the log cannot be written now; see `FreeSpace.check`.
        """
        self._free_space.check()

    def roll_if_due(self) -> None:
        """Opens a new segment if due. Also to be called without pushes, since a segment without new rows still ages."""
        fullness = self._fullness()
        if fullness >= 0.5:
            self._supply.prepare()
        if fullness >= 1:
            self._roll()

    def close(self) -> None:
        """Closes the log and releases its lock."""
        self._supply.close()
        self._head.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _fullness(self) -> float:
        """Fraction of the head's maximum size or age, the larger one; it is sealed at 1."""
        if isinstance(self._head, NoSegment):
            return 1
        age_ms = 0 if self._head_since_ms is None else self._time.hi_res_clock_ms() - self._head_since_ms
        return max(self._head.wal_bytes / self._settings.segment_bytes, age_ms / self._settings.segment_ms)

    def _begin(self) -> None:
        """Opens the first segment. A node starts on a full disk too, since its exporters may free space."""
        try:
            self._supply.give_back(self._supply.make())
        except PushLogFullError as error:
            log.error("push_log.disk_full", message="pushes are refused until there is space", reason=str(error))
            return
        self._roll()

    def _write(self, rows: Sequence[tuple[object, ...]], end_bytes: int) -> None:
        try:
            self._head.write(rows, end_bytes)
        except (UnicodeError, OverflowError, TypeError) as error:
            raise PushLogError(f"a record cannot be stored: {error}") from error
        if self._head_since_ms is None:
            self._head_since_ms = self._time.hi_res_clock_ms()

    def _note_failure(self, error: PushLogError) -> None:
        """Replaces the head if it is damaged or fails repeatedly."""
        if isinstance(error, PushLogFullError | PushLogDirectoryError):
            return
        self._errors += 1
        if isinstance(error, SegmentCorruptError) or self._errors >= _ERRORS_UNTIL_NEW_SEGMENT:
            log.error(
                "push_log.segment_abandoned",
                message="it cannot be written to; a new one is opened",
                segment=str(self._head.path),
                reason=str(error),
            )
            self._supply.prepare()
            self._roll()

    def _roll(self) -> None:
        segment = self._supply.take()
        if segment is None:
            return
        head = self._head
        try:
            segment.open(
                self._time.microseconds(), Predecessor(head.number, head.rows) if head.number else self._predecessor
            )
        except PushLogError as error:
            log.warning(
                "push_log.segment_not_opened", message="retried; the current segment grows on", reason=str(error)
            )
            self._supply.give_back(segment)
            return
        self._head = segment
        self._head_since_ms = None
        self._errors = 0
        head.close()


def _lock(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PushLogError(f"the push log cannot be kept in {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise PushLogLockedError(
            f"the push log in {path} is written by process {owner or '?'}: stop it, or use other log.dirs"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _look_back(directory: LogDirectory) -> tuple[int, Predecessor | None]:
    """Returns a number above those of all segments and cursors, and the newest segment that is kept.

    Deletes the newest segments without rows.
    """
    first_number = max([0, *directory.used_numbers(), highest_segment(directory.path)]) + 1
    directory.remove_remains()
    noted: Predecessor | None = None
    for number in reversed(directory.numbers()):
        expected = noted.rows if noted is not None and noted.number == number else 0
        try:
            rows = max(directory.tail(number, sealed=False).row, expected)
        except PushLogError:  # readers set it aside and count its lost records
            return first_number, Predecessor(number, expected) if expected else None
        if rows:
            return first_number, Predecessor(number, rows)
        with suppress(PushLogError):
            noted = directory.predecessor(number)
        directory.remove(number)
    return first_number, None
