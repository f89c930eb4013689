"""The state of one reader of the topic: its partitions, fetched records, and batches that are not committed.

A *share* is a partition during one assignment to this reader: after a revocation and another assignment, it is another
share. No I/O and no lock here; the reader has the lock.
"""

import zlib
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from confluent_kafka import Message


class Fetched(NamedTuple):
    """A fetched record and its share."""

    share: int
    partition: int
    offset: int
    size_bytes: int
    message: "Message"


@dataclass(slots=True)
class Share:
    """A partition during one assignment.

    Attributes:
        number: unique, never reused.
        partition: the partition.
        next_offset: offset of the next record; None before the first, without a cursor.
        committed: the group's committed offset; None if it has none yet.
    """

    number: int
    partition: int
    next_offset: int | None = None
    committed: int | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Skipped offsets: retention deleted their records, or they had none.

    Attributes:
        partition: the partition.
        first: the expected offset.
        came: the offset of the record that was fetched.
    """

    partition: int
    first: int
    came: int


@dataclass(slots=True)
class _HandedOut:
    """An uncommitted batch, and the offsets to commit with it, by share."""

    batch: Batch
    offsets: dict[int, int]


class Shares:
    """The partitions of one reader and their records, in the order in which they were fetched.

    Args:
        exporter: the reader's exporter.
    """

    def __init__(self, exporter: str) -> None:
        self._exporter = exporter
        self._by_partition: dict[int, Share] = {}
        self._by_number: dict[int, Share] = {}
        self._fetched: deque[Fetched] = deque()
        self._fetched_bytes = 0
        self._handed_out: deque[_HandedOut] = deque()
        self._skipped: dict[int, int] = {}
        self._next_number = 1
        self._max_bytes = 1
        self._max_records = 1

    @property
    def current(self) -> tuple[Share, ...]:
        """The current shares, by partition."""
        return tuple(share for _, share in sorted(self._by_partition.items()))

    @property
    def is_full(self) -> bool:
        """True if a whole batch, as last requested, is fetched."""
        return len(self._fetched) >= self._max_records or self._fetched_bytes >= self._max_bytes

    @property
    def oldest_received_at(self) -> int | None:
        """Receive time of the oldest fetched and uncommitted record [us since the epoch, UTC]."""
        if self._handed_out:
            return self._handed_out[0].batch.records[0].received_at
        return self._fetched[0].message.timestamp()[1] * 1_000 if self._fetched else None

    def read_before(self, ends: Mapping[int, int], beginnings: Mapping[int, int]) -> list[int]:
        """The partitions whose records before these offsets are all taken. A partition without a cursor is read from
        its beginning.
        """
        waiting = {fetched.partition for fetched in self._fetched}
        partitions = []
        for partition, end in ends.items():
            share = self._by_partition.get(partition)
            if share is not None and partition not in waiting:
                due = beginnings[partition] if share.next_offset is None else share.next_offset
                if due >= end:
                    partitions.append(partition)
        return partitions

    def want(self, max_bytes: int, max_records: int) -> None:
        """Sets the bounds of the next batch, which also bound what is held, apart from the excess of one fetch."""
        self._max_bytes, self._max_records = max_bytes, max_records

    def begin(self, partitions: Collection[int]) -> None:
        """Adds a share for each of these partitions, which are now assigned to this reader."""
        self.end(partitions)
        for partition in partitions:
            share = Share(self._next_number, partition)
            self._next_number += 1
            self._by_partition[partition] = self._by_number[share.number] = share

    def end(self, partitions: Collection[int]) -> None:
        """Removes the shares of these revoked partitions, with their records that are not handed out."""
        for partition in partitions:
            share = self._by_partition.pop(partition, None)
            if share is not None:
                del self._by_number[share.number]
                self._skipped.pop(share.number, None)
        self._keep_fetched()

    def starts_at(self, partition: int, committed: int | None) -> None:
        """Sets the group's committed offset of a partition; None if there is none yet."""
        share = self._by_partition.get(partition)
        if share is not None and share.committed is None:
            share.committed = committed
            if share.next_offset is None:
                share.next_offset = committed

    def add(self, message: "Message") -> Gap | None:
        """Adds a fetched record; returns the gap if offsets before it are missing. Ignores revoked partitions."""
        partition, offset = message.partition(), message.offset()
        share = self._by_partition.get(-1 if partition is None else partition)
        if share is None or partition is None or offset is None:
            return None
        due, share.next_offset = share.next_offset, offset + 1
        size_bytes = len(message.value() or b"")
        self._fetched.append(Fetched(share.number, partition, offset, size_bytes, message))
        self._fetched_bytes += size_bytes
        return Gap(partition, due, offset) if due is not None and due < offset else None

    def take(self) -> list[Fetched]:
        """Removes the records of the next batch, within the bounds of `want`; a larger record comes alone."""
        taken: list[Fetched] = []
        size_bytes = 0
        while self._fetched and len(taken) < self._max_records:
            size_bytes += self._fetched[0].size_bytes
            if taken and size_bytes > self._max_bytes:
                break
            taken.append(self._fetched.popleft())
        self._fetched_bytes -= sum(fetched.size_bytes for fetched in taken)
        return taken

    def hand_out(self, taken: list[Fetched], records: Mapping[int, PushRecord]) -> Batch | None:
        """Makes a batch of taken records.

        Args:
            taken: from `take`.
            records: index in `taken` -> push record; the others were skipped, and are committed with the records after
                them.
        """
        offsets, self._skipped = self._skipped, {}
        offsets.update((fetched.share, fetched.offset + 1) for fetched in taken)
        if not records:
            self._skipped = {number: offset for number, offset in offsets.items() if number in self._by_number}
            return None
        good = [fetched for index, fetched in enumerate(taken) if index in records]
        batch = Batch(
            exporter=self._exporter,
            records=tuple(records[index] for index in sorted(records)),
            first_position=_position(good[0]),
            last_position=f"{_position(good[-1])}-{_fingerprint(good):08x}",
            size_bytes=sum(fetched.size_bytes for fetched in good),
            shares=tuple(fetched.share for fetched in good),
        )
        self._handed_out.append(_HandedOut(batch, offsets))
        return batch

    def owned(self, batch: Batch) -> Batch | None:
        """See `PushLogReader.owned`."""
        if all(number in self._by_number for number in set(batch.shares)):
            return batch
        pairs = [pair for pair in zip(batch.records, batch.shares, strict=True) if pair[1] in self._by_number]
        if not pairs:
            return None
        records, shares = zip(*pairs, strict=True)
        return replace(batch, records=records, shares=shares, size_bytes=sum(len(record.metrics) for record in records))

    def due(self, batch: Batch) -> dict[int, int]:
        """Partition -> offset to commit for `batch` and the batches before it."""
        offsets: dict[int, int] = {}
        for handed_out in self._up_to(batch):
            offsets.update(handed_out.offsets)
        return self._by_partitions(offsets)

    def skipped(self) -> dict[int, int]:
        """Partition -> offset to commit after skipped records, if no batch is uncommitted."""
        return {} if self._handed_out else self._by_partitions(self._skipped)

    def moved(self, offsets: Mapping[int, int]) -> None:
        """Notes the group's committed offsets, by partition."""
        for partition, offset in offsets.items():
            share = self._by_partition.get(partition)
            if share is not None:
                share.committed = offset
                if self._skipped.get(share.number) == offset:
                    del self._skipped[share.number]

    def settle(self, batch: Batch) -> int:
        """Removes `batch` and the batches before it; returns how many of their records another reader has now."""
        settled = self._up_to(batch)
        for _ in settled:
            self._handed_out.popleft()
        numbers = [number for handed_out in settled for number in handed_out.batch.shares]
        return sum(number not in self._by_number for number in numbers)

    def _up_to(self, batch: Batch) -> list[_HandedOut]:
        """The batches up to `batch`, compared by identity; empty if it is not one of them."""
        for index, handed_out in enumerate(self._handed_out):
            if handed_out.batch is batch:
                return list(self._handed_out)[: index + 1]
        return []

    def _by_partitions(self, offsets: Mapping[int, int]) -> dict[int, int]:
        return {
            self._by_number[number].partition: offset for number, offset in offsets.items() if number in self._by_number
        }

    def _keep_fetched(self) -> None:
        self._fetched = deque(fetched for fetched in self._fetched if fetched.share in self._by_number)
        self._fetched_bytes = sum(fetched.size_bytes for fetched in self._fetched)


def _position(fetched: Fetched) -> str:
    """A text that sorts in the order of the partition."""
    return f"{fetched.partition:010d}-{fetched.offset:019d}"


def _fingerprint(fetched: list[Fetched]) -> int:
    """Distinguishes batches with equal first and last records but other records in between."""
    return zlib.crc32(",".join(f"{one.partition}:{one.offset}" for one in fetched).encode())
