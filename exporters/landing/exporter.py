"""The Spark landing zone: push records as they are, in Parquet, by the hour of receipt (DESIGN, "Exporters").

`<path>/date=YYYY-MM-DD/hour=HH/pushes-<first position>_<last position>-<push id>.parquet`: whole files only, one for
each hour that a batch touches. Names sort as the log does; the push id of the first row keeps files of different
nodes, and of a log that was begun anew, apart.

Nothing is written twice: a batch that comes again after a crash begins with the same push, whatever else has joined it
meanwhile, and by its push id, or its place in the log, the file is found that holds what was written already.
"""

import errno
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import structlog
from pyarrow import parquet as pq

from base.clock import SystemTime, Time
from base.redaction import without_credentials
from exporters.exporter import BatchSettings, Delivered, Outcome, Refused, RefusedRecord, Retry, RetrySettings
from exporters.landing.retention import MIN_RETENTION_MS, LandingRetention
from exporters.landing.schema import (
    DICTIONARY_COLUMNS,
    LANDING_SCHEMA,
    STATISTICS_COLUMNS,
    partition_of,
    record_batch,
)
from exporters.landing.storage import STORAGE_ERRORS, LandingStorage, open_storage
from exporters.options import Options, batch_settings, retry_settings
from push_log.log import Batch
from telemetry.push_record import PushRecord

log = structlog.get_logger(__name__)

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Metrics of one row group [B]: what is converted at a time, and what one Spark task reads at least."""

_IN_LOG: Final = re.compile(
    r"pushes-(?P<log>.*?)(?P<first>\d{20}-\d{10})_(?P=log)(?P<last>\d{20}-\d{10})"
    r"-[0-9a-f]{16}(?P<writer>[0-9a-f]{8})[0-9a-f]{8}\.parquet"
)
"""The name of a file whose place is in an embedded log, where it sorts as the log does (`push_log.position`)."""

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
        retention_ms: folders of hours that ended longer ago are removed (key `retention.ms`) [ms]; None keeps all.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`: when a file is closed.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    path: str
    writer: str | None = None
    retention_ms: int | None = None
    batch: BatchSettings = field(
        default_factory=lambda: BatchSettings(max_bytes=64 * 1024 * 1024, max_records=100_000, linger_ms=60_000)
    )
    retry: RetrySettings = field(default_factory=RetrySettings)


class _BadRecordError(Exception):
    """A record that no schema fits; the text says why."""


class LandingExporter:
    """Writes one landing zone. What goes wrong with the storage holds pushes back, and never speaks against them."""

    def __init__(
        self, name: str, settings: LandingSettings, *, storage: LandingStorage | None = None, time: Time | None = None
    ) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._storage = storage
        self._started = False
        self._written: set[str] = set()
        retention_ms = settings.retention_ms
        self._retention = None if retention_ms is None else LandingRetention(retention_ms, time or SystemTime())

    @property
    def destination(self) -> str:
        """The path, without what may be secret in it."""
        return without_credentials(self.settings.path)

    def open(self) -> LandingStorage:
        """Finds the file system that the path names; the first time may ask for it over the network.

        Raises:
            ValueError, pyarrow.ArrowException: there is no such kind, or the path is none of it.
            OSError: it cannot be reached now, or misses something on this machine.
        """
        if self._storage is None:
            settings = self.settings
            self._storage = open_storage(settings.path, settings.writer or f"{platform.node()}-{self.name}")
        return self._storage

    def start(self) -> None:
        """Nothing yet: the storage is prepared with the first batch, where a failure has a reason."""

    def close(self) -> None:
        """Nothing is held open between two batches."""

    def export(self, batch: Batch) -> Outcome:
        """Writes the batch's files, and returns when they are safe on the disk."""
        partitions, refused = _partitioned(batch.records)
        try:
            storage = self._prepared()
            left = {
                partition: self._unwritten(storage, partition, rows, batch) for partition, rows in partitions.items()
            }
            for partition, push_id, data in _encoded(left):
                storage.publish(partition, _file_name(batch, push_id), data)
        except _BadRecordError as error:
            return Refused(reason="bad_record", detail=str(error))
        except (*STORAGE_ERRORS, MemoryError) as error:
            where = without_credentials(self.settings.path)
            return Retry(reason=_reason(error), detail=f"cannot write to {where}: {_first_line(error)}")
        if self._written:
            self._written.difference_update(record.push_id for record in batch.records)
        if self._retention:
            self._retention.keep(storage)
        return Delivered(refused=refused)

    def counters(self) -> dict[str, int]:
        """What retention has removed so far; nothing without retention."""
        return self._retention.counters() if self._retention else {}

    def _unwritten(
        self, storage: LandingStorage, partition: str, rows: list[PushRecord], batch: Batch
    ) -> list[PushRecord]:
        """The rows that no file holds yet.

        What comes again after a crash begins where the cursor stands. If its first row was written at all, it is the
        first row of a file, which is named for it; or a row within a file, where the batches after the crash were
        smaller and another crash came before they reached that file's end.
        """
        names = storage.files(partition)
        while rows := [row for row in rows if row.push_id not in self._written] if self._written else rows:
            name = next((name for name in names if _may_hold(name, rows[0], batch)), None)
            if name is None:
                break
            del names[name]
            found = _push_ids(storage, partition, name)
            if not found.isdisjoint(row.push_id for row in rows):
                self._written |= found
        return rows

    def _prepared(self) -> LandingStorage:
        storage = self.open()
        if not self._started:
            storage.start()
            self._started = True
        return storage


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
        retention_ms=options.optional_integer("retention.ms", minimum=MIN_RETENTION_MS, maximum=2**53),
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
    )
    options.finish()
    exporter = LandingExporter(name, settings)
    try:
        with suppress(OSError):  # of a network or a machine that may be put right: each batch tries again, and says so
            exporter.open()
    except (pa.ArrowException, ValueError) as error:
        raise options.error("path", path, f"expected a path, or a URI that pyarrow.fs knows: {error}") from error
    return exporter


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


def _encoded(partitions: Mapping[str, list[PushRecord]]) -> list[tuple[str, str, pa.Buffer]]:
    """Folder, first push id and content of each file, all of them before the first is written.

    Raises:
        _BadRecordError: a record does not fit the schema.
        MemoryError: there is no room, which is no fault of a record.
    """
    try:
        return [(partition, rows[0].push_id, encode(rows)) for partition, rows in partitions.items() if rows]
    except MemoryError:  # pyarrow's own is an ArrowException too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _BadRecordError(str(error)) from error


def _push_ids(storage: LandingStorage, partition: str, name: str) -> set[str]:
    """The push ids of a file; none if it cannot be read as one of ours, and is to be written anew.

    Raises:
        OSError, pyarrow.ArrowException: the storage does not give it now.
    """
    with storage.open(partition, name) as file:
        data = file.read_buffer()  # apart from the parsing, which has OSError for a damaged file too
    try:
        table = pq.read_table(pa.BufferReader(data), columns=["push_id"])
        return set(map(str, table.column("push_id").to_pylist()))
    except MemoryError:
        raise
    except (*STORAGE_ERRORS, KeyError) as error:
        log.warning("a file of the landing zone cannot be read", file=f"{partition}/{name}", problem=str(error))
        return set()


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    return _REASONS.get(error.errno or 0, "io") if isinstance(error, OSError) else "storage"


def _first_line(error: Exception) -> str:
    """What an error says, without the pages that some storages add, and without a secret."""
    return without_credentials(next(iter(str(error).splitlines()), type(error).__name__))


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
    return f"pushes-{positions}{_name_end(first_push_id)}"


def _name_end(first_push_id: str) -> str:
    return f"-{first_push_id}.parquet"


def _may_hold(name: str, row: PushRecord, batch: Batch) -> bool:
    """True if a file begins with this row, or comes from a place in the embedded log that the batch is from too.

    The logs of several nodes have the same places: a push id's writer tells theirs from ours.
    """
    if name.endswith(_name_end(row.push_id)):
        return True
    written, coming = _IN_LOG.fullmatch(name), _IN_LOG.fullmatch(_file_name(batch, row.push_id))
    if written is None or coming is None:
        return False
    if (written["log"], written["writer"]) != (coming["log"], coming["writer"]):
        return False
    return written["first"] <= coming["last"] and coming["first"] <= written["last"]
