"""Push records as Parquet files. Nothing else of the landing zone needs pyarrow, so the first batch imports this."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import structlog
from pyarrow import parquet as pq

from exporters.landing.schema import DICTIONARY_COLUMNS, LANDING_SCHEMA, STATISTICS_COLUMNS, record_batch
from exporters.landing.storage import LandingStorage, storage_errors
from telemetry.push_record import PushRecord

log = structlog.get_logger(__name__)

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Metrics of one row group [B]: what is converted at a time, and what one Spark task reads at least."""


class BadRecordError(Exception):
    """A record that no schema fits; the text says why."""


def encode(records: Sequence[PushRecord]) -> pa.Buffer:
    """The records as one Parquet file.

    Raises:
        pyarrow.ArrowException: a record does not fit the schema.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        LANDING_SCHEMA,
        compression="zstd",
        use_dictionary=DICTIONARY_COLUMNS,  # type: ignore[arg-type]  # the stubs leave the list out
        write_statistics=STATISTICS_COLUMNS,
    ) as writer:
        for rows in _row_groups(records):
            writer.write_batch(record_batch(rows))
    return sink.getvalue()


def encoded(partitions: Mapping[str, list[PushRecord]]) -> list[tuple[str, str, pa.Buffer]]:
    """Folder, first push id and content of each file, all of them before the first is written.

    Raises:
        BadRecordError: a record does not fit the schema.
        MemoryError: there is no room, which is no fault of a record.
    """
    try:
        return [(partition, rows[0].push_id, encode(rows)) for partition, rows in partitions.items() if rows]
    except MemoryError:  # pyarrow's own is an ArrowException too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadRecordError(str(error)) from error


def push_ids(storage: LandingStorage, partition: str, name: str) -> set[str]:
    """The push ids of a file; none if it cannot be read as one of ours, and is to be written anew.

    Raises:
        OSError, pyarrow.ArrowException: the storage does not give it now.
    """
    with storage.open(partition, name) as file:
        data = file.read()  # apart from the parsing, which has OSError for a damaged file too
    try:
        table = pq.read_table(pa.BufferReader(data), columns=["push_id"])
        return set(map(str, table.column("push_id").to_pylist()))
    except MemoryError:
        raise
    except storage_errors(KeyError) as error:
        log.warning("a file of the landing zone cannot be read", file=f"{partition}/{name}", problem=str(error))
        return set()


def _row_groups(records: Sequence[PushRecord]) -> Iterator[Sequence[PushRecord]]:
    start = size = 0
    for index, record in enumerate(records):
        size += len(record.metrics)
        if size >= _ROW_GROUP_BYTES:
            yield records[start : index + 1]
            start, size = index + 1, 0
    if start < len(records):
        yield records[start:]
