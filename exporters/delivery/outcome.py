"""What an exporter says of a batch: the vocabulary between the pipeline and every destination.

`reason` is a short stable word to count by (`unavailable`, `invalid_argument`, `no_space`); `detail` is for a person.
"""

import socket
from dataclasses import dataclass, replace
from typing import Final, Protocol

from exporters.delivery.retry import RetrySettings
from push_log.log import Batch
from telemetry.push_record import PushRecord

_REACH_WITHIN_S: Final = 2.0
MAX_DETAIL_CHARS: Final = 1_024
"""Of what a destination said, so much is kept and told."""


def words(text: object, max_chars: int = MAX_DETAIL_CHARS) -> str:
    """What a destination said, as it can be kept and told: so much of it, and Unicode whatever it was."""
    return str(text)[:max_chars].encode(errors="replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRecord:
    """A record that its destination will never take."""

    push_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The destination has the batch.

    Attributes:
        refused: records that were left out, each for good.
        rejected: data points that the destination took and threw away (OTLP's `partial_success`).
        detail: what the destination said about that.
    """

    refused: tuple[RefusedRecord, ...] = ()
    rejected: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Not now. The batch is tried again until it is delivered or the log's retention takes it.

    Attributes:
        after_ms: how long the destination wants to be left alone [ms], 0 or more; None leaves it to the backoff.
    """

    reason: str
    detail: str = ""
    after_ms: int | None = None

    def __post_init__(self) -> None:
        if self.after_ms is not None and self.after_ms < 0:
            raise ValueError(f"after_ms is {self.after_ms}: a wait has no negative length")


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """The batch is too large for the destination: halves may pass; a single record is refused."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something in the batch is unacceptable for good: halves are tried until the record is found.

    Attributes:
        in_doubt: the destination may say so for a fault of its own (gRPC's INTERNAL, HTTP's 500). Where it says it of
            every record of a batch of several, the batch is tried again for a while.
    """

    reason: str
    detail: str = ""
    in_doubt: bool = False


Outcome = Delivered | Retry | TooLarge | Refused


def outcome_of(exporter: "Exporter", batch: Batch) -> Outcome:
    """What an exporter says of a batch; `Retry` where it says nothing that has a meaning, for instance None.

    Raises:
        Exception: whatever `export` raises.
    """
    said: object = exporter.export(batch)
    if isinstance(said, Outcome):
        return said
    return Retry(
        reason="error",
        detail=f"export returned {type(said).__name__}, and not Delivered, Retry, TooLarge or Refused: "
        "nobody knows what became of the batch",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """When a batch is full. Whichever comes first.

    Attributes:
        max_bytes: of the pushes' decompressed metrics (key `batch.max.bytes`) [B].
        max_records: pushes, heartbeats too (key `batch.max.records`).
        linger_ms: how long the first push waits for more (key `linger.ms`) [ms].
    """

    max_bytes: int
    max_records: int
    linger_ms: int

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.max_records < 1 or self.linger_ms < 0:
            raise ValueError(f"a batch needs room for a push and no negative time: {self}")


class Exporter(Protocol):
    """A destination. The pipeline calls `start` and `export` from its own thread, `close` from any, once.

    It may have two members more: `destination`, the text of where it delivers, for the log; and `reach()`, which looks
    once, within seconds, whether the destination is there, and returns a `Retry` if it is not. The pipeline calls that
    after `start`, so that a wrong address is in the log before the first push.
    """

    @property
    def name(self) -> str:
        """The name in `[exporters.<name>]`: whose cursor it is."""
        ...

    @property
    def batch(self) -> BatchSettings:
        """How large a batch this destination likes."""
        ...

    @property
    def retry(self) -> RetrySettings:
        """How often it is tried again."""
        ...

    def start(self) -> None:
        """Makes ready. An exception is logged, and `start` is called again after the backoff.

        Raises:
            FleetgaugeError: it cannot be made ready now; its text says what to do, and is logged without a traceback.
        """
        ...

    def export(self, batch: Batch) -> Outcome:
        """Delivers a batch. Blocks for a bounded time; `close` from another thread ends it early.

        What it raises counts as a `Retry` and is logged with its traceback: a fault of ours loses no data.
        """
        ...

    def close(self) -> None:
        """Lets go of connections; a running `export` returns soon."""
        ...


def destination_of(exporter: Exporter) -> str:
    """Where an exporter delivers, if it says so; see `Exporter`."""
    return words(getattr(exporter, "destination", ""))


def reach(exporter: Exporter) -> Retry | None:
    """Why an exporter's destination cannot be reached, or None where it can, or the exporter does not say."""
    look = getattr(exporter, "reach", None)
    found: object = look() if callable(look) else None
    return found if isinstance(found, Retry) else None


def reach_tcp(host: str, port: int) -> Retry | None:
    """Connects once to a TCP port; `Retry` with the reason if that fails, at the latest after two seconds."""
    try:
        socket.create_connection((host, port), timeout=_REACH_WITHIN_S).close()
    except OSError as error:
        return Retry(reason="unavailable", detail=f"cannot connect to {host}:{port}: {error.strerror or error}")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A push that its destination will never take; `reason` and `detail` as everywhere here."""

    record: PushRecord
    reason: str
    detail: str


def refusals(batch: Batch, outcome: Delivered | TooLarge | Refused) -> tuple[Refusal, ...] | None:
    """What of a batch its destination refused for good; None where halves of it have to be tried to find out."""
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
    """A batch of two records or more as two; both keep the positions of the whole, since only that is committed."""
    middle = len(batch.records) // 2
    return _part(batch, 0, middle), _part(batch, middle, len(batch.records))


def _part(batch: Batch, start: int, stop: int) -> Batch:
    records = batch.records[start:stop]
    size_bytes = sum(len(record.metrics) for record in records)
    return replace(batch, records=records, size_bytes=size_bytes, shares=batch.shares[start:stop])
