"""Steps over pushes: CHECKED batches in, DECODED or COUNTED batches out, here or by Spark (`DataFrame.mapInArrow`)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.dialects import Sender
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.payloads import CountedPayloads, count, decode
from fleetgauge.fleet.decode.rows import counted_rows, decoded_rows, joined, reject_rows
from fleetgauge.fleet.schemas import COUNTED, DECODED

MAX_CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Payload bytes that are decoded at once: enough to spread the fixed cost of a chunk (12 ms of all that silver does)
over 80,000 points, little enough to bound a worker's memory. A single larger payload is a chunk of its own."""

MAX_CHUNK_ROWS: Final = 4096
"""Pushes that are decoded at once."""


class Tally(Protocol):
    """Counts rejected rows."""

    def add(self, rejects: int) -> None:
        """Adds the number of rows that one pass over pushes rejected."""


@dataclass(frozen=True, slots=True)
class DecodePoints:
    """CHECKED -> DECODED; with `metric_names` only the points of these metrics."""

    metric_names: frozenset[str] | None
    tally: Tally | None

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yields at most two batches for each chunk of pushes."""
        rejects = 0
        for chunk in regroup(batches, MAX_CHUNK_BYTES):
            reasons = _given_reasons(chunk)
            good = np.flatnonzero([reason is None for reason in reasons])
            decoded = decode(_taken(chunk.column("metrics"), good), self.metric_names)
            _add_reasons(reasons, good, decoded.reasons)
            if len(decoded.push_of):
                yield decoded_rows(chunk, good[decoded.push_of], decoded)
            yield from reject_rows(chunk, reasons, DECODED)
            rejects += _rejects(reasons)
        if self.tally:
            self.tally.add(rejects)


@dataclass(frozen=True, slots=True)
class CountPoints:
    """CHECKED -> COUNTED."""

    tally: Tally | None

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yields one or two batches for each chunk of pushes."""
        rejects = 0
        for chunk in regroup(batches, MAX_CHUNK_BYTES):
            pushes = CountedPushes(chunk)
            pushes.add(count(pushes.payloads))
            yield from pushes.rows()
            rejects += pushes.rejects
        if self.tally:
            self.tally.add(rejects)


class CountedPushes:
    """The pushes of a chunk while they are counted."""

    def __init__(self, chunk: RecordBatch) -> None:
        self.chunk = chunk
        self.reasons = _given_reasons(chunk)
        self.good = np.flatnonzero([reason is None for reason in self.reasons])
        self.points = np.zeros(chunk.num_rows, dtype=np.int64)
        self._sender_of = np.zeros(chunk.num_rows, dtype=np.int64)
        self._senders: list[Sender | None] = [None]

    @property
    def payloads(self) -> Array:
        """Payloads of the rows that were well-formed on arrival."""
        return _taken(self.chunk.column("metrics"), self.good)

    @property
    def rejects(self) -> int:
        """Rows rejected so far."""
        return _rejects(self.reasons)

    def add(self, counted: CountedPayloads) -> None:
        """Adds the counts of the payloads."""
        _add_reasons(self.reasons, self.good, counted.reasons)
        self.points[self.good[counted.payloads]] = counted.points
        self._sender_of[self.good[counted.payloads]] = 1 + counted.sender_of
        self._senders += counted.senders

    def good_rows(self) -> RecordBatch:
        """COUNTED rows of the well-formed pushes; call after `add`."""
        return counted_rows(self.chunk, self.reasons, self.points, self._sender_of, self._senders)

    def rows(self) -> Iterator[RecordBatch]:
        """COUNTED rows, rejected ones too; call after `add`."""
        yield self.good_rows()
        yield from reject_rows(self.chunk, self.reasons, COUNTED)


def _taken(payloads: Array, rows: Indices) -> Array:
    return payloads if len(rows) == len(payloads) else payloads.take(pa.array(rows))


def _given_reasons(chunk: RecordBatch) -> list[str | None]:
    reasons: list[str | None] = chunk.column("reason").to_pylist()
    return reasons


def _rejects(reasons: list[str | None]) -> int:
    return len(reasons) - reasons.count(None)


def _add_reasons(reasons: list[str | None], good: Indices, reason_of: Mapping[int, str]) -> None:
    for push, reason in reason_of.items():
        reasons[good[push]] = reason


def regroup(batches: Iterable[RecordBatch], max_bytes: int, max_rows: int = MAX_CHUNK_ROWS) -> Iterator[RecordBatch]:
    """The same rows in chunks of at most `max_bytes` of payload: small batches joined, large ones divided.

    Batches are joined to at most `max_rows`: heartbeats have no payload.
    """
    waiting: list[RecordBatch] = []
    waiting_bytes = waiting_rows = 0
    for batch in batches:
        for piece, piece_bytes in _divide(batch, max_bytes):
            is_full = waiting_bytes + piece_bytes > max_bytes or waiting_rows + len(piece) > max_rows
            if waiting and is_full:
                yield joined(waiting, waiting[0].schema)
                waiting, waiting_bytes, waiting_rows = [], 0, 0
            waiting.append(piece)
            waiting_bytes += piece_bytes
            waiting_rows += len(piece)
    if waiting:
        yield joined(waiting, waiting[0].schema)


def _divide(batch: RecordBatch, max_bytes: int) -> Iterator[tuple[RecordBatch, int]]:
    sizes = pc.fill_null(pc.binary_length(batch.column("metrics")), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes, dtype=np.int64)
    start = before = 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        upto = int(ends[end - 1])
        yield batch.slice(start, end - start), upto - before
        start, before = end, upto
