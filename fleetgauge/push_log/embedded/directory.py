"""The log's directory: lists, measures, renames and deletes segments, and finds the head."""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from fleetgauge.push_log.embedded.in_flight import InFlight
from fleetgauge.push_log.embedded.segment import (
    UNFINISHED,
    NewerFormError,
    Predecessor,
    SegmentCorruptError,
    SegmentGoneError,
    SegmentReader,
    Tail,
)
from fleetgauge.push_log.log import PushLogError

SUFFIX: Final = ".sqlite"
_SIDES: Final = ("", "-wal", "-shm")  # the database is deleted first: without it the others are useless
_CORRUPT: Final = ".corrupt"


class LogDirectory:
    """The files of one log. Keeps no connection open, so any thread may use it.

    Segment numbers only grow and are never reused, not even after a deletion.

    Attributes:
        in_flight: how far the readers that share this object have polled.
        newest_problem: why the last `live` could not determine whether the newest segment is the head.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sealed_tails: dict[int, Tail] = {}
        self._written: dict[int, int] = {}
        self._opened: set[int] = set()
        self.in_flight = InFlight()
        self.newest_problem: PushLogError | None = None

    def segment(self, number: int) -> Path:
        """The database file of segment `number`."""
        return self.path / f"{number:020d}{SUFFIX}"

    def numbers(self) -> list[int]:
        """All segments, oldest first: sealed ones, the head, and possibly a prepared one."""
        return sorted(_numbers(self.path, SUFFIX))

    def used_numbers(self) -> list[int]:
        """The numbers of all segments, including those set aside."""
        return sorted({*_numbers(self.path, SUFFIX), *_numbers(self.path, SUFFIX + _CORRUPT)})

    def live(self) -> list[int]:
        """The segments up to the head, oldest first; the last one is the head, all others are sealed.

        Call this before reading: a segment that is sealed now cannot grow while it is read. A newest segment that
        cannot be read now is left out; then the segment before it counts as the head, which it may still be.
        """
        numbers = self.numbers()
        self._forget_all_but(numbers)
        problem: PushLogError | None = None
        while numbers:
            try:
                if self._is_opened(numbers[-1]):
                    break
            except (SegmentGoneError, SegmentCorruptError):
                pass
            except PushLogError as error:
                problem = error
            numbers.pop()
        self.newest_problem = problem
        return numbers

    def tail(self, number: int, *, sealed: bool) -> Tail:
        """The last row of a segment; cached for sealed ones.

        Raises:
            PushLogError: it is damaged, or deleted.
        """
        known = self._sealed_tails.get(number)
        if known is not None:
            return known
        with closing(SegmentReader(self.segment(number))) as reader:
            tail = reader.tail()
            if sealed:
                self._sealed_tails[number] = tail
                self._learn(reader)
        return tail

    def may_hold_pushes(self, number: int) -> bool:
        """True if a segment has rows, or cannot be read: its losses are counted once it is set aside."""
        try:
            return self.tail(number, sealed=False).row > 0
        except SegmentGoneError:
            return False
        except PushLogError:
            return True

    def predecessor(self, number: int) -> Predecessor | None:
        """The record that segment `number` keeps of the one before it.

        Raises:
            PushLogError: it cannot be read.
        """
        with closing(SegmentReader(self.segment(number))) as reader:
            return reader.predecessor()

    def written(self, number: int) -> int:
        """Number of rows written to a sealed segment, even if it has fewer now; 0 if unknown. Cached.

        The next segment records it, unless an earlier release wrote that one.
        """
        if number not in self._written:
            later = next((each for each in self.numbers() if each > number), None)
            if later is None:
                return 0
            try:
                with closing(SegmentReader(self.segment(later))) as reader:
                    self._learn(reader)
            except PushLogError:
                return 0
        return self._written.setdefault(number, 0)

    def disk_bytes(self, number: int) -> int:
        """Disk size of a segment with its write-ahead log and index [B]."""
        return sum(_size(self._side(number, side)) for side in _SIDES)

    def wal_bytes(self, number: int) -> int:
        """Size of a segment's write-ahead log, which is not yet checkpointed [B]."""
        return _size(self._side(number, "-wal"))

    def remove(self, number: int) -> None:
        """Deletes a segment; a reader that has it open can continue."""
        for side in (*_SIDES, UNFINISHED, UNFINISHED + "-journal"):
            self._side(number, side).unlink(missing_ok=True)
        self._forget(number)

    def set_aside(self, number: int) -> None:
        """Renames a damaged segment, so that it is skipped and can be inspected later."""
        for side in _SIDES:
            path = self._side(number, side)
            with suppress(FileNotFoundError):  # two readers may find it damaged at once
                path.rename(path.with_name(path.name + _CORRUPT))
        self._forget(number)

    def remove_remains(self) -> None:
        """Deletes files without a segment: unfinished segments of a killed writer, and side files that SQLite creates
        for a reader that opens a segment at the moment of its deletion. Only the writer may call this.
        """
        for path in self.path.glob(f"*{SUFFIX}{UNFINISHED}*"):
            path.unlink(missing_ok=True)
        for side in _SIDES[1:]:
            for path in self.path.glob(f"*{SUFFIX}{side}"):
                if not path.with_name(path.name.removesuffix(side)).exists():
                    path.unlink(missing_ok=True)

    def corrupt_files(self) -> list[Path]:
        """The files that were set aside, oldest first."""
        return sorted(self.path.glob("*" + _CORRUPT)) if self.path.is_dir() else []

    def is_database(self, path: Path) -> bool:
        """True for the main file of a segment, set aside or not; False for its side files."""
        return path.name.removesuffix(_CORRUPT).endswith(SUFFIX)

    def number_of(self, path: Path) -> int | None:
        """The segment number of a file, set aside or not; None for any other file."""
        stem, dot, _ = path.name.partition(SUFFIX)
        return int(stem) if dot and stem.isdecimal() else None

    def _side(self, number: int, side: str) -> Path:
        path = self.segment(number)
        return path.with_name(path.name + side)

    def _learn(self, reader: SegmentReader) -> None:
        """Caches an opened segment's record of the one before it."""
        with suppress(NewerFormError):
            noted = reader.predecessor()
            if noted is not None:
                self._written[noted.number] = noted.rows

    def _is_opened(self, number: int) -> bool:
        if number in self._opened:
            return True
        with closing(SegmentReader(self.segment(number))) as reader:
            if not reader.is_opened():
                return False
        self._opened.add(number)
        return True

    def _forget_all_but(self, numbers: list[int]) -> None:
        known = self._opened | self._sealed_tails.keys() | self._written.keys()
        if len(known) > len(numbers):
            for number in known.difference(numbers):
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._sealed_tails.pop(number, None)
        self._written.pop(number, None)
        self._opened.discard(number)


def _numbers(path: Path, suffix: str) -> Iterator[int]:
    names = os.listdir(path) if path.is_dir() else []  # noqa: PTH208  called every 50 ms: no Path for each
    for name in names:
        stem = name.removesuffix(suffix)
        if stem != name and stem.isdecimal():
            yield int(stem)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
