"""The push log as everything else sees it: what is appended, what is read, what can go wrong.

Both logs keep these interfaces: the embedded one (SQLite segments) and a Kafka topic. What receives a push appends it;
every exporter reads at its own pace from its own durable cursor. Order is the log's order, delivery is at least once,
`PushRecord.push_id` is the key by which repeats are dropped (DESIGN, "Push log").
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from base.errors import FleetgaugeError
from telemetry.push import Push
from telemetry.push_record import PushRecord


class PushLogError(FleetgaugeError):
    """The push log cannot do what was asked; the text says why and what to do."""


class PushLogFullError(PushLogError):
    """There is no room: the disk, `push.log.min.free.bytes`, or the bound of what waits for a commit."""


class PushLogTimeoutError(PushLogError):
    """The log took longer than `push.log.ack.timeout.ms`; the records may be in it all the same."""


class PushLogLockedError(PushLogError):
    """Another process writes this log."""


class CursorRevokedError(PushLogError):
    """The exporter's cursor was taken over by a reader that was opened later, or it was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive records of the log, in its order, for one exporter.

    Attributes:
        exporter: whose cursor `commit` moves.
        records: at least one.
        first_position: of the first record; text that sorts as the log does.
        last_position: of the last record.
        size_bytes: sum of the records' `metrics`, decompressed [B].
        shares: of each record, the share of the log that it came from, where several readers divide a log among them
            and a share may pass to another; empty where the reader has the log to itself.
    """

    exporter: str
    records: tuple[PushRecord, ...]
    first_position: str
    last_position: str
    size_bytes: int
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far an exporter's durable cursor is behind the log's end.

    Attributes:
        records: records not yet committed.
        bytes: sum of their `metrics`, decompressed [B]; None where the log cannot tell without reading them.
        oldest_received_at: when the oldest of them was received [us since the epoch, UTC]; None when there is none, or
            the log cannot tell without reading it.
    """

    records: int
    bytes: int | None
    oldest_received_at: int | None


Answer = Callable[[Sequence[Push], PushLogError | None], None]
"""Takes pushes whose outcome is known: None when they are in the log, else why they are not known to be."""


class PushAppender(Protocol):
    """Where the listener puts accepted pushes, whatever the log is. For one loop; used from that loop alone.

    Attributes:
        answer: called once for each push that was taken; set by whoever appends.
    """

    answer: Answer

    @property
    def pending(self) -> int:
        """Pushes that are not yet in the log, and not yet given up."""
        ...

    @property
    def problem(self) -> str | None:
        """Why pushes are refused now, in one sentence, or None as far as is known."""
        ...

    def append(self, push: Push) -> PushLogError | None:
        """Takes a push, without ever waiting; or returns why it cannot be taken now, and does not call `answer`."""
        ...

    def counters(self) -> dict[str, int]:
        """Pushes so far, by outcome."""
        ...

    async def drain(self) -> None:
        """Waits until every push that was appended is in the log, or was answered with an error."""
        ...

    async def close(self) -> None:
        """Takes no more pushes, waits for those that it has, and closes the log."""
        ...


class PushLogReader(Protocol):
    """One exporter's way through the log. `wakeup` and `lag` may come from any thread, the rest from one alone."""

    @property
    def exporter(self) -> str:
        """The name under which the cursor is kept."""
        ...

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """The records after those polled last.

        Waits until `max_bytes` [B of decompressed metrics] or `max_records` are there, or `max_wait_ms` is over, or
        `wakeup` was called, and returns what is there then; None when that is nothing. A record larger than
        `max_bytes` comes alone.

        Raises:
            PushLogError: the log cannot be read now; polling again later is right.
        """
        ...

    def owned(self, batch: Batch) -> Batch | None:
        """What of a batch, or of a part of one, is still this reader's to deliver; None when that is nothing.

        Where readers divide a log among them, a share of it may pass to another reader at any time: that one begins at
        the share's durable cursor, so what this one has not yet committed of it comes again there. A reader that has
        the log to itself returns `batch`.
        """
        ...

    def commit(self, batch: Batch) -> int:
        """Moves the durable cursor to the end of `batch`, and so past every batch polled before it.

        Args:
            batch: as `poll` returned it, whole.

        Returns:
            How many of its records passed to another reader meanwhile (see `owned`); their cursor stays, and they come
            again there. Always 0 for a reader that has the log to itself.

        Raises:
            CursorRevokedError: a later reader of the same exporter took over; this one is done for.
            PushLogError: the cursor cannot be moved now; trying again is right.
        """
        ...

    def rewind(self) -> None:
        """Puts the read position back to the durable cursor: what was polled and not committed comes again."""
        ...

    def wakeup(self) -> None:
        """Makes a waiting `poll`, or the next one, return at once with what is there (`KafkaConsumer.wakeup`)."""
        ...

    def lag(self) -> Lag:
        """How much lies between the durable cursor and the log's end."""
        ...

    def close(self) -> None:
        """Ends reading; the cursor stays where it is."""
        ...
