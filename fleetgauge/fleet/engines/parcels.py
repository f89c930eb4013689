"""Parcels: pushes on their way through Spark's shuffle, to the tasks that have their instances.

The task that reads pushes divides them by task and shard, sorts and compresses them. So a few binary rows go through
the shuffle instead of one of 30 columns for every push: of two million points of real clients 40 rows with 22 MB
instead of 33,512 with 345 MB.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from fleetgauge.fleet.arrow import Array, RecordBatch, Table, pa, pc
from fleetgauge.fleet.schemas import BRONZE, schema_of
from fleetgauge.fleet.shards import by_shard, shards_of
from fleetgauge.fleet.silver.check import KEYS
from fleetgauge.fleet.silver.repeats import ORDER

PARCELS: Final = schema_of(("task", pa.int32()), ("content", pa.binary()))
"""Pushes for one task: BRONZE as an Arrow stream, whose batches are each of one shard, in the order of shards."""

ROWS_AT_ONCE: Final = 1024
"""Most pushes in a batch for a task."""

_PACKED_BYTES: Final = 64 * 1024 * 1024
"""Pushes that are divided together, about [B]: many enough that each shard has several."""

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A step: BRONZE -> PARCELS.

    Attributes:
        shards: number of shards; see `fleet.shards`.
        tasks: number of tasks, each of which has consecutive shards.
    """

    shards: int
    tasks: int

    def __call__(self, bronze: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Packs about 64 MiB of pushes at a time."""
        waiting: list[RecordBatch] = []
        waiting_bytes = 0
        for batch in bronze:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
            if waiting_bytes > _PACKED_BYTES:
                yield self._packed(waiting)
                waiting, waiting_bytes = [], 0
        if waiting:
            yield self._packed(waiting)

    def _packed(self, bronze: list[RecordBatch]) -> RecordBatch:
        of_task: dict[int, list[RecordBatch]] = {}
        pushes = pa.Table.from_batches(bronze).select(BRONZE.names).cast(BRONZE)  # Spark's own say more of their types
        for shard, rows in by_shard(pushes.combine_chunks(), self.shards):
            of_task.setdefault(shard * self.tasks // self.shards, []).extend(in_order(rows))
        contents = [_written(batches) for batches in of_task.values()]
        columns: list[Array] = [pa.array(list(of_task), pa.int32()), pa.array(contents, pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=PARCELS)


def in_order(bronze: Table) -> Iterator[RecordBatch]:
    """Sorts BRONZE by `repeats.ORDER`; an unknown cluster or principal becomes ''."""
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
        shards: number of shards that the pushes were packed with.
    """

    shards: int

    def __call__(self, parcels: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Reads one shard at a time, and the next one ahead."""
        contents = (content for batch in parcels for content in batch.column("content"))
        of_shards = heapq.merge(*map(self._by_shard, contents), key=itemgetter(0))
        for _, parts in groupby(of_shards, key=itemgetter(0)):
            yield from in_order(pa.Table.from_batches([rows for _, rows in parts], BRONZE).combine_chunks())

    def _by_shard(self, content: Any) -> Iterator[tuple[int, RecordBatch]]:
        for rows in pa.ipc.open_stream(content.as_buffer()):
            first = rows.column("client_instance_id").slice(0, 1)
            yield int(shards_of(first, self.shards)[0]), rows
