"""The Spark landing zone: push records as they are, in Parquet, by the hour of receipt (DESIGN, "Exporters").

`<path>/date=YYYY-MM-DD/hour=HH/pushes-<first position>_<last position>-<push id>.parquet`: whole files only, one for
each hour that a batch touches. Names sort as the log does; the push id of the first row keeps files of different
nodes, and of a log that was begun anew, apart. A batch that is delivered twice gives the same files.
"""

import errno
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import parquet as pq

from exporters.common_options import batch_settings, retry_settings
from exporters.landing_schema import (
    DICTIONARY_COLUMNS,
    LANDING_SCHEMA,
    STATISTICS_COLUMNS,
    partition_of,
    record_batch,
)
from exporters.landing_storage import LandingStorage, open_storage
from exporters.options import Options
from exporters.outcome import BatchSettings, Delivered, Outcome, Refused, RefusedRecord, Retry
from exporters.push_log.log import Batch
from exporters.retry import RetrySettings
from telemetry.push_record import PushRecord

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Metrics of one row group [B]: what is converted at a time, and what one Spark task reads at least."""

_REASONS: Final = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    """A `landing` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        path: root of the landing zone, a local path or a `pyarrow.fs` URI (key `path`).
        writer: name of the folder for unfinished files, the same after a restart and no other writer's (key
            `writer.id`); the host's name and the exporter's when None.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`: when a file is closed.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    path: str
    writer: str | None = None
    batch: BatchSettings = field(
        default_factory=lambda: BatchSettings(max_bytes=64 * 1024 * 1024, max_records=100_000, linger_ms=60_000)
    )
    retry: RetrySettings = field(default_factory=RetrySettings)


class LandingExporter:
    """Writes one landing zone.

    Raises:
        ValueError: `settings.path` names a kind of file system that does not exist.
    """

    def __init__(self, name: str, settings: LandingSettings, *, storage: LandingStorage | None = None) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._storage = storage or open_storage(settings.path, settings.writer or f"{platform.node()}-{name}")
        self._started = False

    def start(self) -> None:
        """Nothing yet: the storage is prepared with the first batch, where a failure has a reason."""

    def close(self) -> None:
        """Nothing is held open between two batches."""

    def export(self, batch: Batch) -> Outcome:
        """Writes the batch's files, and returns when they are safe on the disk."""
        partitions, refused = _partitioned(batch.records)
        try:
            files = [(partition, rows[0].push_id, encode(rows)) for partition, rows in partitions.items()]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return Refused(reason="bad_record", detail=str(error))
        try:
            self._prepare()
            for partition, push_id, data in files:
                self._storage.publish(partition, _file_name(batch, push_id), data)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, "io")
            return Retry(reason=reason, detail=f"cannot write to {self.settings.path}: {error}")
        return Delivered(refused=refused)

    def _prepare(self) -> None:
        if not self._started:
            self._storage.start()
            self._started = True


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


def landing_exporter(name: str, values: Mapping[str, object]) -> LandingExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `LandingSettings` lists.

    Raises:
        ExporterConfigError: a key is unknown or `path` is missing, or a value is not allowed.
    """
    options = Options(name, values)
    path = options.text("path", "")
    default = LandingSettings(path=path)
    settings = LandingSettings(
        path=path,
        writer=options.optional_text("writer.id"),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
    )
    options.finish()
    try:
        return LandingExporter(name, settings)
    except ValueError as error:
        raise options.error("path", path, f"expected a path, or a URI that pyarrow.fs knows: {error}") from error


def _partitioned(records: Sequence[PushRecord]) -> tuple[dict[str, list[PushRecord]], tuple[RefusedRecord, ...]]:
    partitions: dict[str, list[PushRecord]] = {}
    refused: list[RefusedRecord] = []
    for record in records:
        try:
            partitions.setdefault(partition_of(record.received_at), []).append(record)
        except OverflowError as error:
            detail = f"received_at is {record.received_at}: {error}"
            refused.append(RefusedRecord(push_id=record.push_id, reason="bad_received_at", detail=detail))
    return partitions, tuple(refused)


def _row_groups(records: Sequence[PushRecord]) -> Iterator[Sequence[PushRecord]]:
    start = size = 0
    for index, record in enumerate(records):
        size += len(record.metrics)
        if size >= _ROW_GROUP_BYTES:
            yield records[start : index + 1]
            start, size = index + 1, 0
    if start < len(records):
        yield records[start:]


def _file_name(batch: Batch, first_push_id: str) -> str:
    positions = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{batch.first_position}_{batch.last_position}")
    return f"pushes-{positions}-{first_push_id}.parquet"
