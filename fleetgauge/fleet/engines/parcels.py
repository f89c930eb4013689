"""Pushes on their way from the task that reads them to the one that has their instances.

The reader puts them in order, cuts them by task and shard, and compresses them: what goes between processes, and
through Spark's shuffle, are a few binary rows of megabytes instead of a row of 30 columns for every push. 8.2 GB of
payloads of real clients are 0.5 GB on this way.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fleetgauge.fleet.arrow import RecordBatch, Table, pa, pc
from fleetgauge.fleet.schemas import BRONZE, schema_of
from fleetgauge.fleet.shards import by_shard, shards_of
from fleetgauge.fleet.silver.check import KEYS
from fleetgauge.fleet.silver.repeats import ORDER

PARCELS: Final = schema_of(("task", pa.int32()), ("content", pa.binary()))
"""BRONZE of the instances of one task, as a stream of Arrow's with a batch a shard."""

ROWS_AT_ONCE: Final = 1024
"""Pushes that a task is handed together, at most."""

_PACKED_BYTES: Final = 64 * 1024 * 1024
"""Of pushes that are cut together, about [B]: enough that a batch of one shard has many pushes."""

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A step: BRONZE -> PARCELS.

    Attributes:
        shards: into how many ranges instances are divided; see `fleet.shards`.
        tasks: among how many these are divided.
    """

    shards: int
    tasks: int

    def __call__(self, bronze: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Packs some 64 MiB of pushes at a time."""
        waiting: list[RecordBatch] = []
        for batch in bronze:
            waiting.append(batch)
            if sum(rows.nbytes for rows in waiting) > _PACKED_BYTES:
                yield self._packed(waiting)
                waiting = []
        if waiting:
            yield self._packed(waiting)

    def _packed(self, bronze: list[RecordBatch]) -> RecordBatch:
        of_task: dict[int, list[RecordBatch]] = {}
        for shard, rows in by_shard(pa.Table.from_batches(bronze, BRONZE).combine_chunks(), self.shards):
            of_task.setdefault(shard * self.tasks // self.shards, []).extend(in_order(rows))
        contents = [_written(batches) for batches in of_task.values()]
        columns = [pa.array(list(of_task), pa.int32()), pa.array(contents, pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=PARCELS)


def in_order(bronze: Table) -> Iterator[RecordBatch]:
    """BRONZE in `repeats.ORDER`; a cluster or principal that is not known is ''."""
    for name in KEYS:
        known = pc.fill_null(bronze[name], "")
        bronze = bronze.set_column(bronze.schema.get_field_index(name), BRONZE.field(name), known)
    order = pc.sort_indices(bronze, sort_keys=[(name, "ascending", "at_start") for name in ORDER])
    for begin in range(0, len(order), ROWS_AT_ONCE):
        yield from bronze.take(order.slice(begin, ROWS_AT_ONCE)).combine_chunks().to_batches()


def _written(batches: Iterable[RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BRONZE, options=_COMPRESSED) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack:
    """A step: PARCELS of one task -> BRONZE in `repeats.ORDER`.

    Attributes:
        shards: as it was packed with.
    """

    shards: int

    def __call__(self, parcels: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Reads a shard at a time, and the next one ahead."""
        streams = [pa.ipc.open_stream(each.as_buffer()) for batch in parcels for each in batch.column("content")]
        ahead: list[tuple[int, int, RecordBatch]] = []
        for number in range(len(streams)):
            self._read_on(streams, number, ahead)
        while ahead:
            shard, of_shard = ahead[0][0], []
            while ahead and ahead[0][0] == shard:
                _, number, batch = heapq.heappop(ahead)
                of_shard.append(batch)
                self._read_on(streams, number, ahead)
            yield from in_order(pa.Table.from_batches(of_shard, BRONZE).combine_chunks())

    def _read_on(self, streams: list[Any], number: int, ahead: list[tuple[int, int, RecordBatch]]) -> None:
        """The next batch of a stream, with its shard, among those that were read ahead."""
        batch = next(streams[number], None)
        if batch is not None:
            shard = int(shards_of(batch.column("client_instance_id").slice(0, 1), self.shards)[0])
            heapq.heappush(ahead, (shard, number, batch))
