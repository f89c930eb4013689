"""Reading the embedded log for one exporter: from any process, while it is written or not."""

import threading
from collections import deque
from collections.abc import Collection
from contextlib import closing
from typing import Final, Literal

import structlog

from base.clock import SystemTime, Time
from base.errors import FleetgaugeError
from push_log.embedded.cursors import Cursors
from push_log.embedded.damage import set_aside
from push_log.embedded.directory import LogDirectory
from push_log.embedded.lag import end_of, lag_behind
from push_log.embedded.position import START, Extent, Position
from push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, SegmentReader, StoredRow
from push_log.embedded.settings import PushLogSettings
from push_log.log import Batch, Lag, PushLogError
from push_log.payload import PayloadDecoder
from telemetry.push_record import PushRecord

log = structlog.get_logger(__name__)

_LOOK_EVERY_MS: Final = 50


class _Gathering:
    """What one poll has so far, and its bounds."""

    def __init__(self, max_bytes: int, max_records: int) -> None:
        self.records: list[PushRecord] = []
        self.size_bytes = 0
        self.first: Position | None = None
        self._max_bytes = max_bytes
        self._max_records = max_records

    @property
    def room(self) -> int:
        """How many records may still come [records]."""
        return self._max_records - len(self.records)

    def takes(self, metrics_bytes: int) -> bool:
        """True if a record of this size may still come; the first one always may."""
        if not self.records:
            return True
        return self.room > 0 and self.size_bytes + metrics_bytes <= self._max_bytes

    def add(self, position: Position, record: PushRecord) -> None:
        """Takes a record."""
        self.first = self.first or position
        self.records.append(record)
        self.size_bytes += len(record.metrics)


class SqlitePushLogReader:
    """The `PushLogReader` of the embedded log. Opening it takes the exporter's cursor over from an older one."""

    def __init__(
        self,
        settings: PushLogSettings,
        exporter: str,
        *,
        start: Literal["earliest", "latest"] = "earliest",
        time: Time | None = None,
        directory: LogDirectory | None = None,
    ) -> None:
        """Opens the log for `exporter`.

        Args:
            settings: where the log is.
            exporter: the name of its cursor.
            start: where an exporter begins that has no cursor yet: at the oldest record, or after the newest.
            time: the clock of `poll`'s wait.
            directory: the log's, shared with its `Retention` where that is in this process.

        Raises:
            PushLogError: the cursors cannot be opened.
        """
        self._exporter = exporter
        self._time = time or SystemTime()
        self._directory = directory or LogDirectory(settings.dir)
        self._cursors = Cursors(settings.dir)
        self._committed, self._epoch = self._cursors.claim(
            exporter, START if start == "earliest" else end_of(self._directory)
        )
        self._read = self._committed
        self._tell_in_flight()
        self._polled: deque[Extent] = deque()
        self._segments: dict[int, SegmentReader] = {}
        self._wake = threading.Event()
        self._payloads = PayloadDecoder()

    @property
    def exporter(self) -> str:
        """See `PushLogReader.exporter`."""
        return self._exporter

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """See `PushLogReader.poll`."""
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        while not self.has_batch(max_bytes, max_records):
            remaining_ms = deadline_ms - self._time.hi_res_clock_ms()
            if remaining_ms <= 0 or self._wake.wait(min(_LOOK_EVERY_MS, remaining_ms) / 1_000):
                break
        self._wake.clear()
        with self._directory.in_flight.lock:
            try:
                return self._take(_Gathering(max_bytes, max_records))
            finally:
                self._tell_in_flight()

    def owned(self, batch: Batch) -> Batch:
        """See `PushLogReader.owned`: all of it."""
        return batch

    def commit(self, batch: Batch) -> int:
        """See `PushLogReader.commit`."""
        target = Position.parse(batch.last_position)
        extents = [extent for extent in self._polled if (extent.segment, extent.last_row) <= target]
        self._committed = self._cursors.commit(self._exporter, self._epoch, target, extents)
        for _ in extents:
            self._polled.popleft()
        return 0

    def rewind(self) -> None:
        """See `PushLogReader.rewind`."""
        self._read = self._committed
        self._polled.clear()
        self._tell_in_flight()

    def wakeup(self) -> None:
        """See `PushLogReader.wakeup`."""
        self._wake.set()

    def lag(self) -> Lag:
        """See `PushLogReader.lag`."""
        return lag_behind(self._directory, self._committed)

    def close(self) -> None:
        """See `PushLogReader.close`."""
        self.rewind()
        self._keep_segments(())
        self._cursors.close()

    def _tell_in_flight(self) -> None:
        self._directory.in_flight.polled(self._exporter, self._epoch, self._read)

    def _ahead(self) -> list[int]:
        """The segments from the read position to the head, which is the last one."""
        return [number for number in self._directory.live() if number >= self._read.segment]

    def _after(self, number: int) -> int:
        return self._read.row if number == self._read.segment else 0

    def has_batch(self, max_bytes: int, max_records: int) -> bool:
        """True when a `poll` with these bounds would not wait: so much is there, or something must be seen to."""
        if self._wake.is_set():
            return True
        records = size_bytes = 0
        ahead = self._ahead()
        for number in ahead:
            sealed = number != ahead[-1]
            try:
                tail = self._directory.tail(number, sealed=True) if sealed else self._segment(number).tail()
                if tail.row > self._after(number):
                    records += tail.row - self._after(number)
                    size_bytes += tail.end_bytes - self._bytes_read(number)
            except SegmentGoneError:
                continue
            except SegmentCorruptError:
                return sealed
            except PushLogError:
                return True  # `poll` says what is wrong, after what lies before it
            if records >= max_records or size_bytes >= max_bytes:
                return True
        return False

    def _bytes_read(self, number: int) -> int:
        after = self._after(number)
        return self._segment(number).end_bytes(after) if after else 0

    def _take(self, gathering: _Gathering) -> Batch | None:
        ahead = self._ahead()
        for number in ahead:
            try:
                if not self._gather(number, gathering, sealed=number != ahead[-1]):
                    break
            except PushLogError:
                if gathering.first is None:
                    raise
                break  # what was read goes out first; what is wrong is said by the next poll
        self._keep_segments([number for number in ahead if number >= self._read.segment])
        if gathering.first is None:
            problem = self._directory.newest_problem
            if problem is not None:
                raise problem
            return None
        return Batch(
            exporter=self._exporter,
            records=tuple(gathering.records),
            first_position=str(gathering.first),
            last_position=str(self._read),
            size_bytes=gathering.size_bytes,
        )

    def _gather(self, number: int, gathering: _Gathering, *, sealed: bool) -> bool:
        """Reads on in one segment; False when no more fits."""
        try:
            is_through = self._gather_rows(number, gathering)
            if is_through and sealed:
                self._pass_missing_rows(number)
            return is_through
        except SegmentGoneError:
            return True
        except SegmentCorruptError as error:
            self._close_segment(number)
            if sealed:
                self._tell_in_flight()
                set_aside(self._directory, self._cursors, number, str(error))
            else:
                log.error("the newest segment of the push log is damaged; it is left when sealed", reason=str(error))
            return sealed
        except PushLogError:
            if number < self._cursors.position(self._exporter).segment:
                return True  # retention has let it go and counted it, but it cannot be unlinked either
            raise

    def _gather_rows(self, number: int, gathering: _Gathering) -> bool:
        after = self._after(number)
        records_before, bytes_before = len(gathering.records), gathering.size_bytes
        fits = True
        try:
            with closing(self._segment(number).rows(after, after + gathering.room)) as rows:
                for row in rows:
                    fits = gathering.takes(row.metrics_bytes)
                    if not fits:
                        break
                    self._read = Position(number, row.row)
                    self._add(row, gathering)
        finally:
            if self._after(number) > after:
                delivered, size_bytes = len(gathering.records) - records_before, gathering.size_bytes - bytes_before
                self._polled.append(Extent(number, after + 1, self._read.row, delivered, size_bytes))
        return fits and gathering.room > 0

    def _pass_missing_rows(self, number: int) -> None:
        """Counts, with the next commit, what a sealed segment has lost of its end: it reads as a shorter one."""
        last_row, written = self._after(number), self._directory.written(number)
        if last_row < written and self._directory.segment(number).exists():  # not just taken away under us
            self._polled.append(Extent(number, last_row + 1, written))
            self._read = Position(number, written)
            log.error(
                "a damaged segment of the push log has lost its last pushes", segment=number, lost=written - last_row
            )

    def _add(self, row: StoredRow, gathering: _Gathering) -> None:
        try:
            metrics = self._payloads.plain(row.metrics, row.encoding, row.metrics_bytes)
            gathering.add(self._read, row.record(metrics))
        except (FleetgaugeError, ValueError, TypeError) as error:
            log.error("a damaged record of the push log was left out", position=str(self._read), reason=str(error))

    def _segment(self, number: int) -> SegmentReader:
        if number not in self._segments:
            self._segments[number] = SegmentReader(self._directory.segment(number))
        return self._segments[number]

    def _close_segment(self, number: int) -> None:
        segment = self._segments.pop(number, None)
        if segment is not None:
            segment.close()

    def _keep_segments(self, wanted: Collection[int]) -> None:
        for number in [number for number in self._segments if number not in wanted]:
            self._close_segment(number)
