"""The distance between a position and the log's end."""

from collections.abc import Sequence
from contextlib import closing

from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.position import START, Position
from fleetgauge.push_log.embedded.segment import SegmentReader
from fleetgauge.push_log.log import Lag, PushLogError


def end_of(directory: LogDirectory) -> Position:
    """The position of the newest record.

    Raises:
        PushLogError: the head cannot be read.
    """
    live = directory.live()
    return Position(live[-1], directory.tail(live[-1], sealed=False).row) if live else START


def lag_behind(directory: LogDirectory, position: Position) -> Lag:
    """The records after `position`. Thread-safe: it opens its own connections.

    Raises:
        PushLogError: the directory cannot be read. Unreadable segments are left out; `LogStats` counts them.
    """
    records = size_bytes = 0
    oldest: int | None = None
    live = directory.live()
    for number in live:
        if number < position.segment:
            continue
        after = position.row if number == position.segment else 0
        try:
            tail = directory.tail(number, sealed=number != live[-1])
            if tail.row <= after:
                continue
            passed_bytes = 0
            if oldest is None or after:  # otherwise its tail is enough
                with closing(SegmentReader(directory.segment(number))) as reader:
                    passed_bytes = reader.end_bytes(after)
                    oldest = reader.received_at(after + 1) if oldest is None else oldest
        except PushLogError:
            continue
        records += tail.row - after
        size_bytes += tail.end_bytes - passed_bytes
    return Lag(records=records, bytes=size_bytes, oldest_received_at=oldest)


def added_lags(lags: Sequence[Lag]) -> Lag:
    """Sums up the lag of several logs.

    >>> added_lags([Lag(records=2, bytes=10, oldest_received_at=7), Lag(records=0, bytes=0, oldest_received_at=None)])
    Lag(records=2, bytes=10, oldest_received_at=7)
    """
    return Lag(
        records=sum(lag.records for lag in lags),
        bytes=sum(lag.bytes or 0 for lag in lags),
        oldest_received_at=min(
            (lag.oldest_received_at for lag in lags if lag.oldest_received_at is not None), default=None
        ),
    )
