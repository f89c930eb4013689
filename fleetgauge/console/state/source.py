"""Sources of pushes for the console: the embedded log(s) of a data directory. For a topic, see
`console.state.topic_source`.

A source has cursors of its own in memory, commits nothing, and only reads: it neither holds retention up nor joins a
consumer group.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.position import START, Position
from fleetgauge.push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, SegmentReader, StoredRow
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push_record import PushRecord

LOOKBACK_US: Final = 3_600_000_000
"""Age of the first pushes that a source reads [us]."""

_MAX_ROWS: Final = 500
"""Rows that are read in one query; an open query holds a snapshot of the segment being written."""
_MAX_READ_BYTES: Final = 8 << 20
_MOST_COUNTED: Final = 1_000
"""Most segments deleted at once that are counted; each has thousands of pushes."""
_LOGS_EVERY_MS: Final = 5_000


class StoredPush(NamedTuple):
    """A push as stored in the log.

    Attributes:
        log: number of the log or partition; pushes of one come in its order.
        offset: its place there.
        record: the push; `metrics` is still compressed by `encoding`.
        encoding: name of the payload's compression; None if it is not compressed.
        size_bytes: of the payload, decompressed [B].
    """

    log: int
    offset: int
    record: PushRecord
    encoding: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Result of one poll.

    Attributes:
        pushes: in the order of each log.
        at_end: time at which each of these logs had nothing further to read, by its number [us since the epoch].
        partitions: numbers of all logs that the source reads now.
    """

    pushes: Sequence[StoredPush] = ()
    at_end: dict[int, int] = field(default_factory=dict)
    partitions: Sequence[int] = ()


class Source(Protocol):
    """A source of pushes, used by one thread.

    Attributes:
        is_topic: it reads a topic, whose records name the broker that received them.
        notices: what cannot be read now, and why, a sentence each.
    """

    is_topic: bool
    notices: list[str]

    @property
    def skipped(self) -> int:
        """Number of pushes that were lost before they were read, or that cannot be read."""
        ...

    def poll(self, max_pushes: int) -> Polled:
        """Next pushes, at most about `max_pushes`; waits at most a fraction of a second. Never raises."""
        ...

    def close(self) -> None:
        """Closes open files and connections."""
        ...


class EmbeddedSource:
    """Push logs of a data directory: the node's own, and those of its workers, including later ones.

    Args:
        data: the data directory.
        time: the clocks.
    """

    def __init__(self, data: DataDirectory, time: Time | None = None) -> None:
        self._data = data
        self._time = time or SystemTime()
        self._logs: dict[int, _Log] = {}
        self._look_due_ms = 0
        self._problems: dict[int, str] = {}
        self.is_topic = False
        self.notices: list[str] = []

    @property
    def skipped(self) -> int:
        """See `Source.skipped`."""
        return sum(log.skipped for log in self._logs.values())

    def poll(self, max_pushes: int) -> Polled:
        """See `Source.poll`."""
        now_us = self._time.microseconds()
        self._look(now_us)
        polled: list[StoredPush] = []
        at_end: dict[int, int] = {}
        for number, log in self._logs.items():
            room = max(1, max_pushes // len(self._logs))
            try:
                pushes, is_end = log.read(room)
                self._problems.pop(number, None)
            except (PushLogError, OSError) as error:
                self._problems[number] = f"The push log in {log.directory.path} cannot be read now: {error}."
                continue
            polled += pushes
            if is_end:
                at_end[number] = now_us
        self.notices = list(self._problems.values())
        if not self._logs:
            self.notices = [f"There is no push log in {self._data.root} yet: no node has run with this log.dirs."]
        return Polled(pushes=polled, at_end=at_end, partitions=list(self._logs))

    def close(self) -> None:
        """See `Source.close`."""
        for log in self._logs.values():
            log.close()

    def _look(self, now_us: int) -> None:
        """Finds logs that appeared since the last call."""
        now_ms = self._time.hi_res_clock_ms()
        if now_ms < self._look_due_ms:
            return
        self._look_due_ms = now_ms + _LOGS_EVERY_MS
        try:
            places = [0, *self._data.worker_numbers()]
        except OSError:
            return
        paths = zip(places, self._data.push_logs(places).values(), strict=True)
        for number, path in paths:
            if number not in self._logs:
                directory = LogDirectory(path)
                if directory.numbers():
                    self._logs[number] = _Log(number, directory, now_us - LOOKBACK_US)


class _Log:
    """A cursor in one log."""

    def __init__(self, number: int, directory: LogDirectory, since_us: int) -> None:
        self.directory = directory
        self.skipped = 0
        self._number = number
        self._since_us = since_us
        self._at = START
        self._is_placed = False
        self._reader: tuple[int, SegmentReader] | None = None

    def read(self, max_rows: int) -> tuple[list[StoredPush], bool]:
        """The next rows, and whether they are the last ones there are now.

        Raises:
            PushLogError: the log cannot be read now.
        """
        if not self._is_placed:
            self._at = self._place()
            self._is_placed = True
        stored: list[StoredPush] = []
        live = self.directory.live()
        self._pass_deleted(live)
        for number in live:
            if number < self._at.segment:
                continue
            is_head = number == live[-1]
            try:
                is_through = self._read_segment(number, stored, min(max_rows - len(stored), _MAX_ROWS))
            except SegmentGoneError:
                is_through = True
            except SegmentCorruptError:
                self._close_reader()
                self.skipped += 1
                if is_head:
                    raise
                is_through = True
            if not is_through:
                return stored, False
            if not is_head:
                self._at = Position(number + 1, 0)
        return stored, True

    def _read_segment(self, number: int, stored: list[StoredPush], room: int) -> bool:
        """Appends the next rows of a segment; False if there are more."""
        reader = self._open(number)
        after = self._at.row if number == self._at.segment else 0
        last = reader.tail().row
        until = min(last, after + room)
        size = 0
        with closing(reader.rows(after, until)) as rows:
            for row in rows:
                self._take(number, row, stored)
                size += len(row.metrics or b"")
                if size > _MAX_READ_BYTES:
                    until = row.row
                    break
        self._at = Position(number, until)
        return until >= last

    def _pass_deleted(self, live: list[int]) -> None:
        """Counts pushes that retention deleted before they were read, as far as the remaining segments show."""
        at = self._at
        if not live or not at.segment or live[0] <= at.segment:
            return
        for number in range(max(at.segment, live[0] - _MOST_COUNTED), live[0]):
            read = at.row if number == at.segment else 0
            is_open = self._reader is not None and self._reader[0] == number
            rows = self._open(number).tail().row if is_open else self.directory.written(number)
            self.skipped += max(0, rows - read)
        self._at = Position(live[0], 0)

    def _take(self, number: int, row: StoredRow, stored: list[StoredPush]) -> None:
        try:
            record = row.record(row.metrics)
            stored.append(StoredPush(self._number, number << 32 | row.row, record, row.encoding, row.metrics_bytes))
        except (ValueError, TypeError):
            self.skipped += 1

    def _place(self) -> Position:
        """Position before the first row received since the begin, by binary search over segments and over the rows of
        one.
        """
        live = self.directory.live()
        for number in reversed(live):
            try:
                with closing(SegmentReader(self.directory.segment(number))) as reader:
                    last = reader.tail().row
                    if last and reader.received_at(1) < self._since_us:
                        return Position(number, _first_since(reader, last, self._since_us) - 1)
            except (SegmentGoneError, SegmentCorruptError):
                continue
        return Position(live[0], 0) if live else START

    def _open(self, number: int) -> SegmentReader:
        if self._reader is None or self._reader[0] != number:
            self._close_reader()
            self._reader = number, SegmentReader(self.directory.segment(number))
        return self._reader[1]

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader[1].close()
            self._reader = None

    def close(self) -> None:
        """Closes the open segment."""
        self._close_reader()


def _first_since(reader: SegmentReader, last: int, since_us: int) -> int:
    """First row received since a time, by binary search; rows are in the order of receipt unless a clock jumped."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        if reader.received_at(middle) < since_us:
            low = middle + 1
        else:
            high = middle
    return low
