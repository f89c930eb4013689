"""Exports push records unchanged as Parquet files, by the hour of receipt (docs/deliver/landing.md).

`<path>/date=YYYY-MM-DD/hour=HH/pushes-<first position>_<last position>-<push id>.parquet`: complete files only, one for
each hour in a batch. Names sort as the log does; the push id of the first row distinguishes files of different nodes,
and of a log that was replaced.

No push is written twice: a batch that is delivered again after a crash begins with the same push, also if it is longer
than before. By that push's id, or by the position in the log, the file is found that already has it.
"""

import errno
import functools
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.machine import memory_bytes
from fleetgauge.base.redaction import without_credentials
from fleetgauge.exporters.exporter import (
    BatchSettings,
    Delivered,
    Outcome,
    Refused,
    RefusedRecord,
    Retry,
    RetrySettings,
)
from fleetgauge.exporters.landing.retention import MIN_RETENTION_MS, LandingRetention
from fleetgauge.exporters.landing.storage import LandingStorage, LocalStorage, first_line, storage_errors
from fleetgauge.exporters.options import Options, batch_settings, retry_settings
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

_IN_LOG: Final = re.compile(
    r"pushes-(?P<log>.*?)(?P<first>\d{20}-\d{10})_(?P=log)(?P<last>\d{20}-\d{10})"
    r"-[0-9a-f]{16}(?P<writer>[0-9a-f]{8})[0-9a-f]{8}\.parquet"
)
"""Name of a file from an embedded log, whose positions sort as the log does."""

_URI: Final = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*://")

_BROKEN_USER_INFO: Final = re.compile(r"(?:s3|gs|gcs|abfss?)://[^/@]*:[^/@]*/.*@")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_US: Final = 3_600_000_000

_REASONS: Final = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
}


_MEMORY_SHARE: Final = 8
"""Divisor of the machine's memory for the payloads of a batch, of which an exporter may hold two."""
_MIN_BATCH_BYTES: Final = 64 * 1024 * 1024
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Real clients' payloads compress 16 times: a file of 16 MiB, which `fleet run` reads at a time in one process."""


def default_batch(machine_bytes: int) -> BatchSettings:
    """Limits of a file on a machine with so much memory [B].

    >>> [default_batch(gib << 30).max_bytes >> 20 for gib in (0, 1, 2, 64)]
    [64, 128, 256, 256]
    """
    max_bytes = min(max(machine_bytes // _MEMORY_SHARE, _MIN_BATCH_BYTES), MAX_BATCH_BYTES)
    return BatchSettings(max_bytes=max_bytes, max_records=100_000, linger_ms=60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    """A `landing` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        path: root of the landing zone, a local path or a `pyarrow.fs` URI (key `path`).
        writer: name of the folder for unfinished files, the same after a restart and unique to this writer (key
            `writer.id`); None is the host's name and the exporter's.
        retention_ms: folders of hours that ended longer ago are removed (key `retention.ms`) [ms]; None keeps all.
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`: limits of a file.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
    """

    path: str
    writer: str | None = None
    retention_ms: int | None = None
    batch: BatchSettings = field(default_factory=lambda: default_batch(memory_bytes()))
    retry: RetrySettings = RetrySettings()


class LandingExporter:
    """Writes to one landing zone. A fault of the storage delays pushes, and never rejects them."""

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
        """The path, without secrets."""
        return without_credentials(self.settings.path)

    def open(self) -> LandingStorage:
        """The file system of the path; the first call may look it up over the network.

        Raises:
            ValueError, pyarrow.ArrowException: the kind of file system is unknown, or the path is invalid for it.
            OSError: it cannot be reached now, or lacks something on this machine.
        """
        if self._storage is None:
            settings = self.settings
            self._storage = open_storage(settings.path, settings.writer or f"{platform.node()}-{self.name}")
        return self._storage

    takes_any_payload: Final = True
    """The landing zone keeps what clients sent; its readers set aside what they cannot read."""

    def start(self) -> None:
        """Does nothing: the first batch prepares the storage, and can return a failure with its reason."""

    def close(self) -> None:
        """Does nothing: no file is open between two batches."""

    def export(self, batch: Batch) -> Outcome:
        """Writes the batch's files, and returns when they are synced to the disk."""
        from fleetgauge.exporters.landing.parquet import (  # pyarrow takes 40 MiB: not before the first batch
            BadRecordError,
            encoded,
        )

        partitions, refused = _partitioned(batch.records)
        try:
            storage = self._prepared()
            left = {
                partition: self._unwritten(storage, partition, rows, batch) for partition, rows in partitions.items()
            }
            for partition, push_id, data in encoded(left):
                storage.publish(partition, _file_name(batch, push_id), data)
        except BadRecordError as error:
            return Refused(reason="bad_record", detail=str(error))
        except storage_errors(MemoryError) as error:
            where = without_credentials(self.settings.path)
            return Retry(reason=_reason(error), detail=f"cannot write to {where}: {first_line(error)}")
        if self._written:
            self._written.difference_update(record.push_id for record in batch.records)
        if self._retention:
            self._retention.keep(storage)
        return Delivered(refused=refused)

    def counters(self) -> dict[str, int]:
        """Counts of what retention has removed; empty without retention."""
        return self._retention.counters() if self._retention else {}

    def _unwritten(
        self, storage: LandingStorage, partition: str, rows: list[PushRecord], batch: Batch
    ) -> list[PushRecord]:
        """The rows that are in no file yet.

        After a crash, delivery restarts at the cursor. If the first row was written before, it is the first row of a
        file, which has its push id in the name; or it is a row within a file, if the batches after the crash were
        smaller and a second crash happened before they reached that file's end.
        """
        from fleetgauge.exporters.landing.parquet import push_ids

        names = storage.files(partition)
        while rows := [row for row in rows if row.push_id not in self._written] if self._written else rows:
            name = next((name for name in names if _may_hold(name, rows[0], batch)), None)
            if name is None:
                break
            del names[name]
            ids = push_ids(storage, partition, name)
            if not ids.isdisjoint(row.push_id for row in rows):
                self._written |= ids
        return rows

    def _prepared(self) -> LandingStorage:
        storage = self.open()
        if not self._started:
            storage.start()
            self._started = True
        return storage


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
        with suppress(OSError):  # it may be repaired: each batch tries again, and returns the reason
            exporter.open()
    except storage_errors(ValueError) as error:
        raise options.error("path", path, f"expected a path, or a URI that pyarrow.fs knows: {error}") from error
    return exporter


def open_storage(path: str, writer: str) -> LandingStorage:
    """The storage of a landing zone.

    Args:
        path: a local path, or a URI that `pyarrow.fs` knows (`file:`, `s3:`, `gs:`, `hdfs:`, ...).
        writer: name of the writer, the same after a restart; unique among the live exporters of a landing zone.

    Raises:
        ValueError, pyarrow.ArrowException: the kind of file system is unknown, or the path is invalid for it.
        OSError: it cannot be reached now.
    """
    folder = re.sub(r"[^A-Za-z0-9-]", "-", writer)
    if not _URI.match(path):
        return LocalStorage(Path(path), folder)
    if _BROKEN_USER_INFO.match(path):  # which may still parse as a URI, with the key's id as bucket
        raise ValueError("a / in the secret key is written as %2F")
    from fleetgauge.exporters.landing.remote_storage import RemoteStorage, from_uri  # pyarrow.fs

    filesystem, root = from_uri(path)
    if filesystem.type_name == "local":
        return LocalStorage(Path(root), folder)
    if not root:
        raise ValueError("it names no bucket or folder")
    return RemoteStorage(filesystem, root.rstrip("/"), folder)


def partition_of(received_at: int) -> str:
    """The folder of a push received at `received_at` [us since the epoch], by the hour in UTC.

    >>> partition_of(1_700_000_000_000_000)
    'date=2023-11-14/hour=22'

    Raises:
        OverflowError: the time is beyond the year 9999 or before the year 1.
    """
    return _hour_partition(received_at // _HOUR_US)


@functools.lru_cache(maxsize=64)
def _hour_partition(hours: int) -> str:
    moment = _EPOCH + timedelta(hours=hours)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"


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


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    return _REASONS.get(error.errno or 0, "io") if isinstance(error, OSError) else "storage"


def _file_name(batch: Batch, first_push_id: str) -> str:
    positions = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{batch.first_position}_{batch.last_position}")
    return f"pushes-{positions}{_name_end(first_push_id)}"


def _name_end(first_push_id: str) -> str:
    return f"-{first_push_id}.parquet"


def _may_hold(name: str, row: PushRecord, batch: Batch) -> bool:
    """True if a file begins with this row, or has positions of the embedded log that the batch has, too.

    The logs of several nodes have the same positions: the writer in the push id distinguishes them.
    """
    if name.endswith(_name_end(row.push_id)):
        return True
    written, new = _IN_LOG.fullmatch(name), _IN_LOG.fullmatch(_file_name(batch, row.push_id))
    if written is None or new is None:
        return False
    if (written["log"], written["writer"]) != (new["log"], new["writer"]):
        return False
    return written["first"] <= new["last"] and new["first"] <= written["last"]
