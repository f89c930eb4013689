"""The interface between the pipeline and a destination: the exporter, its settings, and the outcomes of an export.

docs/develop/write-an-exporter.md explains it to authors of exporters. `reason` is a short stable word to count by
(`unavailable`, `invalid_argument`, `no_space`); `detail` is text for a person.
"""

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

_CONNECT_TIMEOUT_S: Final = 2.0
MAX_DETAIL_CHARS: Final = 1_024
"""Maximum length of a destination's text in logs, status and dead letters."""
MALFORMED_PAYLOAD: Final = "malformed_payload"
"""The reason of a rejection for a payload that cannot be read."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRecord:
    """A record that the destination rejects permanently."""

    push_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The destination has the batch.

    Attributes:
        refused: records that were left out permanently.
        rejected: data points that the destination accepted and discarded (OTLP's `partial_success`).
        detail: the destination's text about those.
    """

    refused: tuple[RefusedRecord, ...] = ()
    rejected: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Temporary failure. The batch is retried until it is delivered or the log's retention deletes it.

    Attributes:
        after_ms: minimum wait that the destination requested [ms], 0 or more; None leaves it to the backoff.
    """

    reason: str
    detail: str = ""
    after_ms: int | None = None

    def __post_init__(self) -> None:
        if self.after_ms is not None and self.after_ms < 0:
            raise ValueError(f"after_ms is {self.after_ms}: expected 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """The batch exceeds the destination's limit. The pipeline tries halves; a single record is rejected."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The batch holds something permanently unacceptable. The pipeline tries halves until it finds the record.

    Attributes:
        in_doubt: the destination may answer so for a fault of its own (gRPC's INTERNAL, HTTP's 500). If it rejects
            every record of a batch of several in this way, the batch is retried for a limited time.
    """

    reason: str
    detail: str = ""
    in_doubt: bool = False


Outcome = Delivered | Retry | TooLarge | Refused
Settled = Delivered | TooLarge | Refused
"""An outcome that a retry of the same batch would not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Limits of a batch; the first one reached closes it.

    Attributes:
        max_bytes: decompressed metrics of its pushes (key `batch.max.bytes`) [B].
        max_records: pushes, including heartbeats (key `batch.max.records`).
        linger_ms: how long the first push waits for more (key `linger.ms`) [ms].
    """

    max_bytes: int
    max_records: int
    linger_ms: int

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.max_records < 1 or self.linger_ms < 0:
            raise ValueError(f"a batch needs space for one push and no negative time: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Bounds of the wait between two attempts, named as in Kafka's clients.

    Attributes:
        backoff_ms: upper bound of the first wait (key `retry.backoff.ms`) [ms].
        backoff_max_ms: upper bound of every wait (key `retry.backoff.max.ms`) [ms]. With 3 s and a destination that
            answers within 2 s, delivery resumes within 5 s of its return.
    """

    backoff_ms: int = 100
    backoff_max_ms: int = 3_000

    def __post_init__(self) -> None:
        if not 1 <= self.backoff_ms <= self.backoff_max_ms:
            raise ValueError(
                f"retry.backoff.ms is {self.backoff_ms}: it must be at least 1 and at most retry.backoff.max.ms, "
                f"which is {self.backoff_max_ms}"
            )


class Exporter(Protocol):
    """A destination.

    The pipeline calls `start` and `export` from one thread, and `close` from any thread; it may call `close` twice.

    Three more members are optional: `destination`, a text for the log that names where it delivers; `reach()`, which
    checks once, within seconds, that the destination is available, and returns a `Retry` if not; and
    `takes_any_payload`, true if payloads are stored as they came. The pipeline calls `reach` after `start`, so that a
    wrong address is logged before the first push. An exporter without `takes_any_payload` gets well-formed payloads
    only: in others invalid text is replaced, or they become dead letters.
    """

    @property
    def name(self) -> str:
        """The name in `[exporters.<name>]`, under which the cursor is kept."""
        ...

    @property
    def batch(self) -> BatchSettings:
        """Preferred batch size of this destination."""
        ...

    @property
    def retry(self) -> RetrySettings:
        """Waits between attempts."""
        ...

    def start(self) -> None:
        """Prepares the exporter. An exception is logged, and `start` is called again after the backoff.

        Raises:
            FleetgaugeError: it cannot start now; the text names the remedy, and is logged without a traceback.
        """
        ...

    def export(self, batch: Batch) -> Outcome:
        """Delivers a batch. Blocks for a bounded time; `close` from another thread ends it early.

        An exception counts as a `Retry` and is logged with its traceback: a bug in an exporter loses no data.
        """
        ...

    def close(self) -> None:
        """Releases connections; a running `export` returns soon."""
        ...


def export(exporter: Exporter, batch: Batch) -> Outcome:
    """Exports a batch; returns `Retry` where the exporter returns anything but an `Outcome`, for instance None.

    Raises:
        Exception: any that `Exporter.export` raises.
    """
    outcome: object = exporter.export(batch)
    if isinstance(outcome, Outcome):
        return outcome
    return Retry(
        reason="error",
        detail=f"export returned {type(outcome).__name__} instead of Delivered, Retry, TooLarge or Refused: "
        "it is unknown whether the batch was delivered",
    )


def destination_of(exporter: Exporter) -> str:
    """The exporter's `destination`; empty if it has none."""
    return bounded_text(getattr(exporter, "destination", ""))


def check_reachable(exporter: Exporter) -> Retry | None:
    """Why the destination cannot be reached; None if it can, or if the exporter has no `reach`."""
    reach = getattr(exporter, "reach", None)
    result: object = reach() if callable(reach) else None
    return result if isinstance(result, Retry) else None


def reach_tcp(host: str, port: int) -> Retry | None:
    """Connects once to a TCP port, with a timeout of two seconds; `Retry` with the reason if that fails."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return Retry(reason="unavailable", detail=f"cannot connect to {host}:{port}: {error.strerror or error}")
    return None


def bounded_text(text: object, max_chars: int = MAX_DETAIL_CHARS) -> str:
    """A destination's text, cut to `max_chars` and valid Unicode."""
    return str(text)[:max_chars].encode(errors="replace").decode()


def converted(
    records: Iterable[PushRecord], convert: Callable[[PushRecord], _T], *malformed: type[Exception]
) -> tuple[list[_T], tuple[RefusedRecord, ...]]:
    """Results of `convert` for each record, and the records for which it raises one of `malformed`."""
    results: list[_T] = []
    refused: list[RefusedRecord] = []
    for record in records:
        try:
            results.append(convert(record))
        except malformed as error:
            refused.append(RefusedRecord(push_id=record.push_id, reason=MALFORMED_PAYLOAD, detail=str(error)))
    return results, tuple(refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A push that the destination rejects permanently."""

    record: PushRecord
    reason: str
    detail: str


def refusals(batch: Batch, outcome: Settled) -> tuple[Refusal, ...] | None:
    """The records of a batch that the destination rejects permanently; None if halves must be tried to find them."""
    if not isinstance(outcome, Delivered):
        if len(batch.records) > 1:
            return None
        return (Refusal(record=batch.records[0], reason=outcome.reason, detail=outcome.detail),)
    if not outcome.refused:
        return ()
    records = {record.push_id: record for record in batch.records}
    return tuple(
        Refusal(record=records[each.push_id], reason=each.reason, detail=each.detail)
        for each in outcome.refused
        if each.push_id in records
    )


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Splits a batch of two or more records. Both keep the positions of the whole, which alone is committed."""
    middle = len(batch.records) // 2
    return _part(batch, 0, middle), _part(batch, middle, len(batch.records))


def _part(batch: Batch, start: int, stop: int) -> Batch:
    records = batch.records[start:stop]
    size_bytes = sum(len(record.metrics) for record in records)
    return replace(batch, records=records, size_bytes=size_bytes, shares=batch.shares[start:stop])
