"""What one reader holds of the topic: its partitions, what was fetched of them, what was handed out and not committed.

A *share* is one partition for as long as a rebalance leaves it with this reader: a partition that goes and comes back
is another share. No I/O here, and no lock: the reader has one.
"""

import zlib
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from push_log.log import Batch
from telemetry.push_record import PushRecord


class TopicMessage(Protocol):
    """What is needed of confluent-kafka's `Message`."""

    def partition(self) -> int | None:
        """Its partition."""
        ...

    def offset(self) -> int | None:
        """Its offset."""
        ...

    def key(self) -> bytes | None:
        """Its key."""
        ...

    def value(self) -> bytes | None:
        """Its value."""
        ...

    def headers(self) -> dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]] | None:
        """Its headers, as a list where it was fetched; made anew at each call."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """What kind of timestamp it has, and the timestamp [ms since the epoch]."""
        ...


class Fetched(NamedTuple):
    """A record as it was fetched, and the share that it belongs to."""

    share: int
    partition: int
    offset: int
    size_bytes: int
    message: TopicMessage


@dataclass(slots=True)
class Share:
    """A partition, for as long as it is ours.

    Attributes:
        number: never used again.
        partition: the partition.
        next_offset: of the record that is fetched next; None before the first, where no cursor says.
        committed: where another reader would begin; None where the group has no cursor yet.
        first_offset: of the first record that was fetched.
    """

    number: int
    partition: int
    next_offset: int | None = None
    committed: int | None = None
    first_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that should have come and did not: retention took their records, or they held none.

    Attributes:
        partition: the partition.
        first: the offset that was due.
        came: the offset that came instead.
    """

    partition: int
    first: int
    came: int


@dataclass(slots=True)
class _HandedOut:
    """A batch that waits for its commit, and the offsets to commit with it, by share."""

    batch: Batch
    offsets: dict[int, int]


class Shares:
    """The partitions of one reader and what it holds of each, in the order in which it was fetched.

    Args:
        exporter: whose reader it is.
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
        """The shares that are ours, by partition."""
        return tuple(share for _, share in sorted(self._by_partition.items()))

    @property
    def is_full(self) -> bool:
        """True when a whole batch, as it was last asked for, is waiting to be taken."""
        return len(self._fetched) >= self._max_records or self._fetched_bytes >= self._max_bytes

    @property
    def oldest_received_at(self) -> int | None:
        """When the oldest record that is held and not committed was received [us since the epoch, UTC]."""
        if self._handed_out:
            return self._handed_out[0].batch.records[0].received_at
        return self._fetched[0].message.timestamp()[1] * 1_000 if self._fetched else None

    def read_before(self, ends: Mapping[int, int], beginnings: Mapping[int, int]) -> list[int]:
        """The partitions of which all records before these offsets were taken. One without a cursor yet is read from
        its beginning.
        """
        waiting = {fetched.partition for fetched in self._fetched}
        found = []
        for partition, end in ends.items():
            share = self._by_partition.get(partition)
            if share is not None and partition not in waiting:
                due = beginnings[partition] if share.next_offset is None else share.next_offset
                if due >= end:
                    found.append(partition)
        return found

    def want(self, max_bytes: int, max_records: int) -> None:
        """How large the next batch may be: as much is held at most, but for what one fetch brings at once."""
        self._max_bytes, self._max_records = max_bytes, max_records

    def begin(self, partitions: Collection[int]) -> None:
        """These partitions are ours from now on."""
        self.end(partitions)
        for partition in partitions:
            share = Share(self._next_number, partition)
            self._next_number += 1
            self._by_partition[partition] = self._by_number[share.number] = share

    def end(self, partitions: Collection[int]) -> None:
        """These partitions are another's: what is held of them, and not handed out, is dropped."""
        for partition in partitions:
            share = self._by_partition.pop(partition, None)
            if share is not None:
                del self._by_number[share.number]
                self._skipped.pop(share.number, None)
        self._keep_fetched()

    def starts_at(self, partition: int, committed: int | None) -> None:
        """What the group's cursor says of a share; None where it says nothing yet."""
        share = self._by_partition.get(partition)
        if share is not None and share.committed is None:
            share.committed = committed
            if share.next_offset is None:
                share.next_offset = committed

    def add(self, message: TopicMessage) -> Gap | None:
        """Takes what was fetched; says so when offsets before it are missing. What is not ours is dropped."""
        partition, offset = message.partition(), message.offset()
        share = self._by_partition.get(-1 if partition is None else partition)
        if share is None or partition is None or offset is None:
            return None
        due, share.next_offset = share.next_offset, offset + 1
        if share.first_offset is None:
            share.first_offset = offset
        size_bytes = len(message.value() or b"")
        self._fetched.append(Fetched(share.number, partition, offset, size_bytes, message))
        self._fetched_bytes += size_bytes
        return Gap(partition, due, offset) if due is not None and due < offset else None

    def take(self) -> list[Fetched]:
        """The next batch, within the bounds of `want`; a record that is larger than they allow comes alone."""
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
        """Makes a batch of what was taken.

        Args:
            taken: by `take`.
            records: index in `taken` -> its push record; what is missing was set aside, and is committed with the
                records after it.
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
        """Partition -> offset to commit, so that the cursor passes `batch` and all that was handed out before it."""
        offsets: dict[int, int] = {}
        for handed_out in self._up_to(batch):
            offsets.update(handed_out.offsets)
        return self._by_partitions(offsets)

    def skipped(self) -> dict[int, int]:
        """Partition -> offset to commit behind records set aside, where nothing else waits for its commit."""
        return {} if self._handed_out else self._by_partitions(self._skipped)

    def moved(self, offsets: Mapping[int, int]) -> None:
        """The group's cursor is at these offsets now, by partition."""
        for partition, offset in offsets.items():
            share = self._by_partition.get(partition)
            if share is not None:
                share.committed = offset
                if self._skipped.get(share.number) == offset:
                    del self._skipped[share.number]

    def settle(self, batch: Batch) -> int:
        """Forgets `batch` and what was handed out before it; how many of these records passed to another reader."""
        settled = self._up_to(batch)
        for _ in settled:
            self._handed_out.popleft()
        numbers = [number for handed_out in settled for number in handed_out.batch.shares]
        return sum(number not in self._by_number for number in numbers)

    def rewind(self) -> dict[int, int]:
        """Forgets all that is held and handed out; partition -> offset at which to fetch again."""
        self._handed_out.clear()
        self._skipped.clear()
        self._fetched.clear()
        self._fetched_bytes = 0
        starts: dict[int, int] = {}
        for share in self.current:
            start = share.committed if share.committed is not None else share.first_offset
            if start is not None:
                starts[share.partition] = share.next_offset = start
        return starts

    def _up_to(self, batch: Batch) -> list[_HandedOut]:
        """What was handed out up to `batch`, by identity: nothing, where it was not handed out by us or is settled."""
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
    """Sorts as the log does, within a partition."""
    return f"{fetched.partition:010d}-{fetched.offset:019d}"


def _fingerprint(fetched: list[Fetched]) -> int:
    """Tells batches apart that begin and end alike: with other partitions between, they are different batches."""
    return zlib.crc32(",".join(f"{one.partition}:{one.offset}" for one in fetched).encode())
