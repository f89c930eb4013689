"""The log's directory: which segments there are, what they take, which one is the head, and taking one away."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from push_log.embedded.in_flight import InFlight
from push_log.embedded.segment import (
    UNFINISHED,
    NewerFormError,
    Predecessor,
    SegmentCorruptError,
    SegmentGoneError,
    SegmentReader,
    Tail,
    opened,
)
from push_log.log import PushLogError

SUFFIX: Final = ".sqlite"
_SIDES: Final = ("", "-wal", "-shm")  # the database goes first: without it the others mean nothing
_CORRUPT: Final = ".corrupt"


class LogDirectory:
    """The files of one log. Holds no connection, so any thread may use it.

    Numbers of segments only grow and are never used twice, not even for one that was taken away.

    Attributes:
        in_flight: how far the readers that share this object have polled.
        newest_problem: why the last `live` could not tell whether a newest segment is the head.
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
        """All segments, oldest first: sealed ones, the head, perhaps a prepared one."""
        return sorted(_numbers(self.path, SUFFIX))

    def used_numbers(self) -> list[int]:
        """The numbers of all segments and of those that were set aside."""
        return sorted({*_numbers(self.path, SUFFIX), *_numbers(self.path, SUFFIX + _CORRUPT)})

    def live(self) -> list[int]:
        """The segments up to the head, oldest first; the last one is the head, all others are sealed.

        Ask before reading: what is sealed by now cannot grow while it is read. A newest segment that cannot be read now
        is left out, so that the one before it is not taken for sealed: it may be the head still.
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
        """The last row of a segment. A sealed one is looked at once.

        Raises:
            PushLogError: it is damaged, or gone.
        """
        known = self._sealed_tails.get(number)
        if known is not None:
            return known
        with opened(self.segment(number)) as reader:
            tail = reader.tail()
            if sealed:
                self._sealed_tails[number] = tail
                self._learn(reader)
        return tail

    def predecessor(self, number: int) -> Predecessor | None:
        """What segment `number` notes of the one before it.

        Raises:
            PushLogError: it cannot be read.
        """
        with opened(self.segment(number)) as reader:
            return reader.predecessor()

    def written(self, number: int) -> int:
        """How many rows a sealed segment got, whatever it holds now; 0 if nobody knows. Looked at once.

        It is the next segment that knows, unless an earlier release wrote that.
        """
        if number not in self._written:
            later = next((each for each in self.numbers() if each > number), None)
            if later is None:
                return 0
            try:
                with opened(self.segment(later)) as reader:
                    self._learn(reader)
            except PushLogError:
                return 0
        return self._written.setdefault(number, 0)

    def disk_bytes(self, number: int) -> int:
        """What a segment takes with its write-ahead log and index [B]."""
        return sum(_size(self._side(number, side)) for side in _SIDES)

    def wal_bytes(self, number: int) -> int:
        """What is not yet checkpointed of a segment [B]."""
        return _size(self._side(number, "-wal"))

    def remove(self, number: int) -> None:
        """Takes a segment away; whoever has it open may read on."""
        for side in (*_SIDES, UNFINISHED, UNFINISHED + "-journal"):
            self._side(number, side).unlink(missing_ok=True)
        self._forget(number)

    def set_aside(self, number: int) -> None:
        """Renames a damaged segment, so that it stops nothing and can be looked at later."""
        for side in _SIDES:
            path = self._side(number, side)
            with suppress(FileNotFoundError):  # two readers may find it damaged at once
                path.rename(path.with_name(path.name + _CORRUPT))
        self._forget(number)

    def remove_remains(self) -> None:
        """Takes away what belongs to no segment: of one whose writer was ended while it made it, and what SQLite makes
        for a reader that opened a segment in the moment in which it was taken away. For the writer alone.
        """
        for path in self.path.glob(f"*{SUFFIX}{UNFINISHED}*"):
            path.unlink(missing_ok=True)
        for side in _SIDES[1:]:
            for path in self.path.glob(f"*{SUFFIX}{side}"):
                if not path.with_name(path.name.removesuffix(side)).exists():
                    path.unlink(missing_ok=True)

    def corrupt_files(self) -> list[Path]:
        """What was set aside, oldest first."""
        return sorted(self.path.glob("*" + _CORRUPT)) if self.path.is_dir() else []

    def is_database(self, path: Path) -> bool:
        """True for the main file of a segment, set aside or not; false for what belongs to it."""
        return path.name.removesuffix(_CORRUPT).endswith(SUFFIX)

    def number_of(self, path: Path) -> int | None:
        """The number of the segment that a file belongs to, set aside or not; None for another file."""
        stem, dot, _ = path.name.partition(SUFFIX)
        return int(stem) if dot and stem.isdecimal() else None

    def _side(self, number: int, side: str) -> Path:
        path = self.segment(number)
        return path.with_name(path.name + side)

    def _learn(self, reader: SegmentReader) -> None:
        """Keeps what an opened segment notes of the one before it, while it is open anyway."""
        with suppress(NewerFormError):
            noted = reader.predecessor()
            if noted is not None:
                self._written[noted.number] = noted.rows

    def _is_opened(self, number: int) -> bool:
        if number in self._opened:
            return True
        with opened(self.segment(number)) as reader:
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
    names = os.listdir(path) if path.is_dir() else []  # noqa: PTH208  asked every 50 ms: no Path for each
    for name in names:
        stem = name.removesuffix(suffix)
        if stem != name and stem.isdecimal():
            yield int(stem)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
