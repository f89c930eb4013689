"""Interfaces of the push log: appender, reader, errors.

Implemented by the embedded log (SQLite segments) and by a Kafka topic. The listener appends pushes; each exporter reads
independently from its own durable cursor. Records are delivered in the order of the log, at least once;
`PushRecord.push_id` is the key for deduplication (docs/deliver/delivery.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:  # an exporter reads records, and needs nothing of the listener's instances
    from fleetgauge.telemetry.push import Push


class PushLogError(FleetgaugeError):
    """Failure of an operation on the push log; the text has the cause and the remedy."""


class PushLogFullError(PushLogError):
    """The disk is full, `push.log.min.free.bytes` is reached, or too many pushes wait for a commit."""


class PushLogTimeoutError(PushLogError):
    """A commit took longer than `push.log.ack.timeout.ms`; the records may be in the log nevertheless."""


class PushLogLockedError(PushLogError):
    """Another process writes this log."""


class CursorRevokedError(PushLogError):
    """The exporter's cursor was taken over by a reader that was opened later, or was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive records of the log, in its order, for one exporter.

    Attributes:
        exporter: the exporter with the cursor that `commit` moves.
        records: at least one record.
        first_position: position of the first record; text that sorts in the order of the log.
        last_position: position of the last record.
        size_bytes: sum of the records' `metrics`, decompressed [B].
        shares: per record, the share (partition) of the log that it came from, if several readers divide the log and
            shares can be reassigned; empty if there is a single reader.
    """

    exporter: str
    records: tuple[PushRecord, ...]
    first_position: str
    last_position: str
    size_bytes: int
    shares: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Distance of an exporter's durable cursor from the log's end.

    Attributes:
        records: number of uncommitted records.
        bytes: sum of their `metrics`, decompressed [B]; None if unknown without reading them.
        oldest_received_at: time of receipt of the oldest one [us since the epoch, UTC]; None if there is none, or if it
            is unknown without reading it.
    """

    records: int
    bytes: int | None
    oldest_received_at: int | None


Answer: TypeAlias = "Callable[[Sequence[Push], PushLogError | None], None]"
"""Callback for pushes with a known outcome: None if they are in the log, otherwise the error."""


class PushAppender(Protocol):
    """Interface with which the listener appends accepted pushes. To be used on one loop only.

    Attributes:
        answer: called once for each accepted push; set by the caller of `append`.
    """

    answer: Answer

    @property
    def pending(self) -> int:
        """Number of pushes without an outcome yet."""
        ...

    @property
    def problem(self) -> str | None:
        """Reason why pushes are currently refused, in one sentence; None if no reason is known."""
        ...

    def append(self, push: "Push") -> PushLogError | None:
        """Accepts a push without blocking; or returns the error, in which case `answer` is not called."""
        ...

    def counters(self) -> dict[str, int]:
        """Number of pushes by outcome."""
        ...

    async def drain(self) -> None:
        """Waits until every appended push is in the log, or was answered with an error."""
        ...

    async def close(self) -> None:
        """Stops accepting pushes, waits for pending ones, and closes the log."""
        ...


class PushLogReader(Protocol):
    """Interface with which one exporter reads the log. `wakeup` and `lag` are thread-safe, the rest is not."""

    @property
    def exporter(self) -> str:
        """Name of the exporter and of its cursor."""
        ...

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """Returns the records after the previously polled ones.

        Waits until `max_bytes` [B of decompressed metrics] or `max_records` are available, `max_wait_ms` has passed, or
        `wakeup` was called, and returns the records available then; None if there are none. A record larger than
        `max_bytes` is returned alone.

        Raises:
            PushLogError: the log cannot be read now; retry later.
        """
        ...

    def owned(self, batch: Batch) -> Batch | None:
        """Returns the records of a batch, or of a part of one, that are still assigned to this reader; None for none.

        If readers divide a log, a share may be reassigned at any time: the new reader begins at the share's durable
        cursor, and so reads the records again that this one has not committed. A single reader returns `batch`.
        """
        ...

    def commit(self, batch: Batch) -> int:
        """Moves the durable cursor to the end of `batch`, and so past every batch polled before it.

        Args:
            batch: the complete batch as returned by `poll`.

        Returns:
            Number of its records that were reassigned to another reader meanwhile (see `owned`); their cursor does not
            move, and that reader delivers them again. Always 0 for a single reader.

        Raises:
            CursorRevokedError: a later reader of the same exporter took over; this one must be closed.
            PushLogError: the cursor cannot be moved now; retry.
        """
        ...

    def wakeup(self) -> None:
        """Makes a waiting `poll`, or the next one, return at once with available records (`KafkaConsumer.wakeup`)."""
        ...

    def lag(self) -> Lag:
        """Distance between the durable cursor and the log's end.

        Raises:
            PushLogError: it is not known now.
        """
        ...

    def close(self) -> None:
        """Closes the reader; the cursor does not change."""
        ...
