"""Reads the embedded log for one exporter, from any process, whether the log is being written or not."""

import threading
from collections import deque
from collections.abc import Collection
from contextlib import closing
from typing import Final, Literal

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.damage import set_aside
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.lag import end_of, lag_behind
from fleetgauge.push_log.embedded.position import START, Extent, Position
from fleetgauge.push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, SegmentReader, StoredRow
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.log import Batch, Lag, PushLogError
from fleetgauge.push_log.payload import PayloadDecoder
from fleetgauge.telemetry.push_record import PushRecord

log = get_logger(__name__)

_POLL_EVERY_MS: Final = 50


class _PartialBatch:
    """The records of one poll so far, and its bounds."""

    def __init__(self, max_bytes: int, max_records: int) -> None:
        self.records: list[PushRecord] = []
        self.size_bytes = 0
        self.first: Position | None = None
        self._max_bytes = max_bytes
        self._max_records = max_records

    @property
    def room(self) -> int:
        """Number of records that may still be added."""
        return self._max_records - len(self.records)

    def takes(self, metrics_bytes: int) -> bool:
        """True if a record of this size fits; the first one always does."""
        if not self.records:
            return True
        return self.room > 0 and self.size_bytes + metrics_bytes <= self._max_bytes

    def add(self, position: Position, record: PushRecord) -> None:
        """Adds a record."""
        self.first = self.first or position
        self.records.append(record)
        self.size_bytes += len(record.metrics)


class SqlitePushLogReader:
    """The `PushLogReader` of the embedded log. Opening it takes over the exporter's cursor from an older reader."""

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
            settings: the log's directory.
            exporter: the name of the cursor.
            start: where an exporter without a cursor begins: at the oldest record, or after the newest.
            time: the clock of `poll`'s wait.
            directory: the log's, shared with a `Retention` in this process.

        Raises:
            PushLogError: the cursors cannot be opened.
        """
        self.exporter = exporter
        self._time = time or SystemTime()
        self._directory = directory or LogDirectory(settings.dir)
        self._cursors = Cursors(settings.dir)
        self._committed, self._epoch = self._cursors.claim(
            exporter, START if start == "earliest" else end_of(self._directory)
        )
        self._read = self._committed
        self._polled: deque[Extent] = deque()
        self._note_in_flight()
        self._segments: dict[int, SegmentReader] = {}
        self._wake = threading.Event()
        self._payloads = PayloadDecoder()

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """See `PushLogReader.poll`."""
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        while not self.has_batch(max_bytes, max_records):
            remaining_ms = deadline_ms - self._time.hi_res_clock_ms()
            if remaining_ms <= 0 or self._wake.wait(min(_POLL_EVERY_MS, remaining_ms) / 1_000):
                break
        self._wake.clear()
        with self._directory.in_flight.lock:
            try:
                return self._fill(_PartialBatch(max_bytes, max_records))
            finally:
                self._note_in_flight()

    def owned(self, batch: Batch) -> Batch:
        """See `PushLogReader.owned`: the whole batch."""
        return batch

    def commit(self, batch: Batch) -> int:
        """See `PushLogReader.commit`."""
        target = Position.parse(batch.last_position)
        extents = [extent for extent in self._polled if (extent.segment, extent.last_row) <= target]
        self._committed = self._cursors.commit(self.exporter, self._epoch, target, extents)
        for _ in extents:
            self._polled.popleft()
        return 0

    def wakeup(self) -> None:
        """See `PushLogReader.wakeup`."""
        self._wake.set()

    def lag(self) -> Lag:
        """See `PushLogReader.lag`."""
        return lag_behind(self._directory, self._committed)

    def close(self) -> None:
        """See `PushLogReader.close`."""
        self._polled.clear()
        self._note_in_flight()
        self._keep_segments(())
        self._cursors.close()

    def _note_in_flight(self) -> None:
        # Without a polled batch nothing is, wherever the cursor is: retention moves it past what it deletes.
        end = self._read if self._polled else START
        self._directory.in_flight.polled(self.exporter, self._epoch, end)

    def _ahead(self) -> list[int]:
        """The segments from the read position on; the last one is the head."""
        return [number for number in self._directory.live() if number >= self._read.segment]

    def _after(self, number: int) -> int:
        return self._read.row if number == self._read.segment else 0

    def has_batch(self, max_bytes: int, max_records: int) -> bool:
        """True if a `poll` with these bounds would not wait: a whole batch is there, or an error is to be raised."""
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
                return True  # `poll` raises it, after the records before it
            if records >= max_records or size_bytes >= max_bytes:
                return True
        return False

    def _bytes_read(self, number: int) -> int:
        after = self._after(number)
        return self._segment(number).end_bytes(after) if after else 0

    def _fill(self, batch: _PartialBatch) -> Batch | None:
        ahead = self._ahead()
        for number in ahead:
            try:
                if not self._read_segment(number, batch, sealed=number != ahead[-1]):
                    break
            except PushLogError:
                if batch.first is None:
                    raise
                break  # the records before it are returned first; the next poll raises the error
        self._keep_segments([number for number in ahead if number >= self._read.segment])
        if batch.first is None:
            problem = self._directory.newest_problem
            if problem is not None:
                raise problem
            return None
        return Batch(
            exporter=self.exporter,
            records=tuple(batch.records),
            first_position=str(batch.first),
            last_position=str(self._read),
            size_bytes=batch.size_bytes,
        )

    def _read_segment(self, number: int, batch: _PartialBatch, *, sealed: bool) -> bool:
        """Reads the next rows of one segment; False if the batch is full."""
        try:
            is_through = self._read_rows(number, batch)
            if is_through and sealed:
                self._pass_missing_rows(number)
            return is_through
        except SegmentGoneError:
            return True
        except SegmentCorruptError as error:
            self._close_segment(number)
            if sealed:
                self._note_in_flight()
                set_aside(self._directory, self._cursors, number, str(error))
            else:
                log.error("push_log.head_damaged", message="it is set aside once it is sealed", error=str(error))
            return sealed
        except PushLogError:
            if number < self._cursors.position(self.exporter).segment:
                return True  # retention has counted it as deleted, but could not unlink it
            raise

    def _read_rows(self, number: int, batch: _PartialBatch) -> bool:
        after = self._after(number)
        last = after + batch.room
        records_before, bytes_before = len(batch.records), batch.size_bytes
        fits = True
        try:
            with closing(self._segment(number).rows(after, last)) as rows:
                for row in rows:
                    fits = batch.takes(row.metrics_bytes)
                    if not fits:
                        break
                    self._read = Position(number, row.row)
                    self._add(row, batch)
        finally:
            if self._after(number) > after:
                delivered, size_bytes = len(batch.records) - records_before, batch.size_bytes - bytes_before
                self._polled.append(Extent(number, after + 1, self._read.row, delivered, size_bytes))
        # Room that is left by damaged rows does not mean that there are no more.
        return fits and self._after(number) < last

    def _pass_missing_rows(self, number: int) -> None:
        """Skips the rows that a truncated sealed segment has lost; the next commit counts them."""
        last_row, written = self._after(number), self._directory.written(number)
        if last_row < written and self._directory.segment(number).exists():  # it was not deleted meanwhile
            self._polled.append(Extent(number, last_row + 1, written))
            self._read = Position(number, written)
            log.error("push_log.segment_truncated", segment=number, lost_records=written - last_row)

    def _add(self, row: StoredRow, batch: _PartialBatch) -> None:
        try:
            metrics = self._payloads.plain(row.metrics, row.encoding, row.metrics_bytes)
            batch.add(self._read, row.record(metrics))
        except (FleetgaugeError, ValueError, TypeError) as error:
            log.error("push_log.record_skipped", message="it is damaged", position=str(self._read), error=str(error))

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
