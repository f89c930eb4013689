"""Encodes push records as Parquet files. It needs pyarrow, and is imported with the first batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import parquet as pq

from fleetgauge.base.library_log import get_logger
from fleetgauge.exporters.landing.schema import DICTIONARY_COLUMNS, LANDING_SCHEMA, STATISTICS_COLUMNS, record_batch
from fleetgauge.exporters.landing.storage import LandingStorage, storage_errors
from fleetgauge.telemetry.push_record import PushRecord

log = get_logger(__name__)

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Size of a row group, which is converted at a time and is the minimum that a Spark task reads [B of metrics]."""


class BadRecordError(Exception):
    """A record that does not fit the schema; the text has the reason."""


def encode(records: Sequence[PushRecord]) -> pa.Buffer:
    """Encodes the records as one Parquet file.

    Raises:
        pyarrow.ArrowException: a record does not fit the schema.
    """
    batches = (record_batch(rows) for rows in _row_groups(records))
    return parquet_file(batches, LANDING_SCHEMA, DICTIONARY_COLUMNS, STATISTICS_COLUMNS)


def parquet_file(
    rows: Iterable[pa.RecordBatch | pa.Table], schema: pa.Schema, dictionary: list[str], statistics: list[str]
) -> pa.Buffer:
    """One Parquet file, with dictionaries and statistics of these columns."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=dictionary,  # type: ignore[arg-type]  # the stubs leave the list out
        write_statistics=statistics,
    ) as writer:
        for each in rows:
            writer.write(each)
    return sink.getvalue()


def encoded(partitions: Mapping[str, list[PushRecord]]) -> list[tuple[str, str, pa.Buffer]]:
    """Folder, first push id and content of each file; all are encoded before the first is written.

    Raises:
        BadRecordError: a record does not fit the schema.
        MemoryError: no memory is left, which is not the fault of a record.
    """
    try:
        return [(partition, rows[0].push_id, encode(rows)) for partition, rows in partitions.items() if rows]
    except MemoryError:  # pyarrow's MemoryError is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadRecordError(str(error)) from error


def push_ids(storage: LandingStorage, partition: str, name: str) -> set[str]:
    """The push ids of a file; empty if it cannot be read as one of ours, so that it is written again.

    Raises:
        OSError, pyarrow.ArrowException: the storage cannot read it now.
    """
    with storage.open(partition, name) as file:
        data = file.read()  # not within the parsing, which raises OSError for a damaged file, too
    try:
        table = pq.read_table(pa.BufferReader(data), columns=["push_id"])
        return set(map(str, table.column("push_id").to_pylist()))
    except MemoryError:
        raise
    except storage_errors(KeyError) as error:
        log.warning("landing.file_unreadable", file=f"{partition}/{name}", problem=str(error))
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
