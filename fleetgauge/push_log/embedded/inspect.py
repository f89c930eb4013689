"""Read-only views of the embedded log for the CLI and the status page, whether a node runs or not."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.push_log.embedded.cursors import NAME, Cursors, CursorState
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.lag import added_lags, lag_behind
from fleetgauge.push_log.embedded.position import START, Position
from fleetgauge.push_log.embedded.segment import SegmentCorruptError, SegmentGoneError, SegmentReader, Tail
from fleetgauge.push_log.log import Lag, PushLogError
from fleetgauge.push_log.payload import PayloadDecoder
from fleetgauge.telemetry.push_record import PushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStats:
    """One exporter's cursor and its lag."""

    cursor: CursorState
    lag: Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStats:
    """The contents of a log.

    Attributes:
        segments: number of segments, sealed ones and the head.
        disk_bytes: disk size of all segments [B].
        records: number of pushes.
        metrics_bytes: sum of their `metrics`, decompressed [B].
        oldest_received_at: receive time of the first record [us since the epoch, UTC]; None in an empty log.
        newest_received_at: the same of the last record.
        damaged_segments: segments that were set aside, cannot be read, or are truncated.
        cursors: by exporter name.
    """

    segments: int
    disk_bytes: int
    records: int
    metrics_bytes: int
    oldest_received_at: int | None
    newest_received_at: int | None
    damaged_segments: int
    cursors: tuple[CursorStats, ...]


def log_stats(log: Path | LogDirectory) -> LogStats:
    """Computes the statistics of a log.

    Args:
        log: its directory. A frequent caller passes a `LogDirectory`, which caches sealed segments.

    Raises:
        PushLogError: there is no log, or it cannot be read.
    """
    directory = _existing(log)
    live = directory.live()
    tails = []
    unreadable = 0 if directory.newest_problem is None else 1
    for number in live:
        try:
            tails.append((number, directory.tail(number, sealed=number != live[-1])))
        except SegmentGoneError:
            continue
        except PushLogError:
            unreadable += 1
    filled = [(number, tail) for number, tail in tails if tail.row]
    short = sum(tail.row < directory.written(number) for number, tail in tails if number != live[-1])
    set_aside = [file for file in directory.corrupt_files() if directory.is_database(file)]
    return LogStats(
        segments=len(live),
        disk_bytes=sum(directory.disk_bytes(number) for number in directory.numbers()),
        records=sum(tail.row for _, tail in filled),
        metrics_bytes=sum(tail.end_bytes for _, tail in filled),
        oldest_received_at=_first_received_at(directory, filled),
        newest_received_at=filled[-1][1].received_at if filled else None,
        damaged_segments=unreadable + short + len(set_aside),
        cursors=_cursor_stats(directory),
    )


def is_log(log: Path | LogDirectory) -> bool:
    """True if the directory has a log, which may be empty."""
    return bool(_directory(log).numbers())


def all_stats(logs: Mapping[str, Path] | Mapping[str, LogDirectory]) -> dict[str, LogStats]:
    """`log_stats` of each log, by name; directories without a log yet are left out.

    Raises:
        PushLogError: there is no log at all, or one cannot be read.
    """
    existing = {name: each for name, each in logs.items() if is_log(each)} or logs
    return {name: log_stats(each) for name, each in existing.items()}


def undelivered(path: Path) -> int:
    """Pushes of the log in `path` that at least one exporter has not delivered; all pushes if no exporter ever read it.

    Raises:
        PushLogError: as `log_stats`.
    """
    stats = log_stats(path)
    return max((each.lag.records for each in stats.cursors), default=stats.records)


def holds_pushes(path: Path) -> bool:
    """True if the log in `path` has a push, or is unreadable; False if there is no log."""
    directory = LogDirectory(path)
    return any(directory.may_hold_pushes(number) for number in directory.live())


def added_stats(logs: Sequence[LogStats]) -> LogStats:
    """Sums up several logs: those of the listener processes of a node.

    An exporter's totals are the sums over its cursors; they have no position.
    """
    cursors: dict[str, list[CursorStats]] = {}
    for each in logs:
        for entry in each.cursors:
            cursors.setdefault(entry.cursor.exporter, []).append(entry)
    oldest = [each.oldest_received_at for each in logs if each.oldest_received_at is not None]
    newest = [each.newest_received_at for each in logs if each.newest_received_at is not None]
    return LogStats(
        segments=sum(each.segments for each in logs),
        disk_bytes=sum(each.disk_bytes for each in logs),
        records=sum(each.records for each in logs),
        metrics_bytes=sum(each.metrics_bytes for each in logs),
        oldest_received_at=min(oldest, default=None),
        newest_received_at=max(newest, default=None),
        damaged_segments=sum(each.damaged_segments for each in logs),
        cursors=tuple(_added_cursors(name, cursors[name]) for name in sorted(cursors)),
    )


def _added_cursors(exporter: str, entries: Sequence[CursorStats]) -> CursorStats:
    totals = [sum(each) for each in zip(*(entry.cursor[2:] for entry in entries), strict=True)]
    return CursorStats(cursor=CursorState(exporter, START, *totals), lag=added_lags([entry.lag for entry in entries]))


def tail(path: Path, count: int) -> tuple[tuple[str, PushRecord], ...]:
    """The last `count` records with their positions, oldest first.

    Raises:
        PushLogError: as `log_stats`.
    """
    directory = _existing(path)
    start = START
    missing = count
    for number in reversed(directory.live()):
        try:
            last_row = directory.tail(number, sealed=False).row
        except (SegmentCorruptError, SegmentGoneError):
            continue
        start = Position(number, max(0, last_row - missing))
        missing -= last_row
        if missing <= 0:
            break
    return tuple(deque(_records(directory, start), maxlen=count))


def records_after(path: Path, position: str | None = None) -> Iterator[tuple[str, PushRecord]]:
    """Every record after `position` (None: from the oldest) up to the current end, with its position.

    Damaged records and segments are skipped.

    Raises:
        PushLogError: as `log_stats`.
        ValueError: `position` is malformed.
    """
    start = START if position is None else Position.parse(position)
    return _records(_existing(path), start)


def _directory(log: Path | LogDirectory) -> LogDirectory:
    return log if isinstance(log, LogDirectory) else LogDirectory(log)


def _existing(log: Path | LogDirectory) -> LogDirectory:
    directory = _directory(log)
    if not directory.numbers():
        raise PushLogError(f"there is no push log in {directory.path}: no node has run with this log.dirs")
    return directory


def _records(directory: LogDirectory, start: Position) -> Iterator[tuple[str, PushRecord]]:
    payloads = PayloadDecoder()
    for number in directory.live():
        if number < start.segment:
            continue
        after = start.row if number == start.segment else 0
        try:
            last_row = directory.tail(number, sealed=False).row
            reader = SegmentReader(directory.segment(number))
            with closing(reader), closing(reader.rows(after, last_row)) as rows:
                for row in rows:
                    try:
                        record = row.record(payloads.plain(row.metrics, row.encoding, row.metrics_bytes))
                    except (FleetgaugeError, ValueError, TypeError):
                        continue
                    yield str(Position(number, row.row)), record
        except (SegmentCorruptError, SegmentGoneError):
            continue


def _first_received_at(directory: LogDirectory, filled: Sequence[tuple[int, Tail]]) -> int | None:
    """Receive time of the first record of the oldest readable segment."""
    for number, _ in filled:
        with suppress(PushLogError), closing(SegmentReader(directory.segment(number))) as reader:
            return reader.received_at(1)
    return None


def _cursor_stats(directory: LogDirectory) -> tuple[CursorStats, ...]:
    if not (directory.path / NAME).exists():
        return ()
    with closing(Cursors(directory.path)) as cursors:
        states = cursors.states()
    return tuple(CursorStats(cursor=state, lag=lag_behind(directory, state.position)) for state in states)
