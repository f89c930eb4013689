"""Writes rows beside the pushes of a landing zone, in a folder of their own: complete Parquet files by hour, rolled by
age and rows. `group_offsets/` is one; `exporters.traffic` has another.
"""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.redaction import without_credentials
from fleetgauge.exporters.group_offsets.schema import GROUP_OFFSETS_SCHEMA
from fleetgauge.exporters.landing.exporter import open_storage, partition_of
from fleetgauge.exporters.landing.parquet import parquet_file
from fleetgauge.exporters.landing.retention import LandingRetention
from fleetgauge.exporters.landing.storage import LandingStorage, first_line, open_up, storage_errors

log = get_logger(__name__)

FOLDER: Final = "group_offsets"
"""Beside the folders `date=...` of pushes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """Kind of the rows in a folder.

    Attributes:
        folder: beside the folders `date=...` of pushes.
        prefix: that names of files begin with.
        schema: of the files; its first column is the time by which rows are put into hours.
    """

    folder: str
    prefix: str
    schema: "pa.Schema"


GROUP_OFFSETS: Final = RowKind(folder=FOLDER, prefix="offsets", schema=GROUP_OFFSETS_SCHEMA)

_ROWS_OF_A_FILE: Final = 500_000


def open_folder(path: str, writer: str, folder: str = FOLDER) -> LandingStorage:
    """The storage of a folder in a landing zone; see `open_storage` for other arguments and errors."""
    root, mark, query = path.partition("?") if "://" in path else (path, "", "")
    storage = open_storage(f"{root.rstrip('/')}/{folder}{mark}{query}", writer)
    storage.start()
    if "://" not in path:
        landing = Path(path)
        open_up(landing / folder, landing.stat().st_mode & 0o777)  # whoever may read the zone may read this
    return storage


def encode(rows: pa.Table, schema: "pa.Schema" = GROUP_OFFSETS_SCHEMA) -> "pa.Buffer":
    """Rows as one Parquet file; offsets that follow each other take little room."""
    texts = [field.name for field in schema if field.type == pa.string()]
    return parquet_file([rows], schema, texts, schema.names[:1])


class OffsetsZone:
    """Keeps samples until they make a file, and files for as long as is asked for.

    Args:
        path: root of the landing zone.
        writer: see `OffsetsSettings.writer`.
        linger_ms: a file is written at this age [ms].
        retention_ms: see `LandingRetention`; None keeps all.
        time: the clocks.
        kind: of the rows.
    """

    most_waiting: int = 2_000_000
    """Rows that wait in memory while the storage cannot be written; then the oldest are dropped, and logged."""

    def __init__(
        self,
        path: str,
        writer: str,
        linger_ms: int,
        retention_ms: int | None,
        time: Time,
        kind: RowKind = GROUP_OFFSETS,
    ) -> None:
        self._kind = kind
        self._path, self._writer = path, writer
        self._linger_ms = linger_ms
        self._time = time
        self._storage: LandingStorage | None = None
        self._waiting: list[tuple[str, pa.RecordBatch]] = []
        self._begun: tuple[str, int] | None = None
        """The name of a file that could not be written, and how many batches it is of."""
        self._since_ms = 0
        self._retention = None if retention_ms is None else LandingRetention(retention_ms, time, prefix=kind.prefix)
        self.rows = self.files = self.lost_rows = 0

    def add(self, rows: "pa.RecordBatch") -> None:
        """Takes the rows of a round, and writes files if that is due."""
        if not rows.num_rows:
            return
        if not self._waiting:
            self._since_ms = self._time.hi_res_clock_ms()
        self._waiting.append((partition_of(rows.column(0)[0].cast(pa.int64()).as_py()), rows))
        if self._count() >= _ROWS_OF_A_FILE:
            self.flush()

    def due_ms(self) -> int | None:
        """When waiting rows are to be written (monotonic) [ms]; None if there are none."""
        return self._since_ms + self._linger_ms if self._waiting else None

    def flush(self) -> bool:
        """Writes what waits; False if it could not, which is logged: it is retried with what comes."""
        try:
            while self._waiting:
                self._write_hour(self._waiting[0][0])
            if self._retention is not None:
                self._retention.keep(self._opened())
        except storage_errors(ValueError) as error:
            self._since_ms = self._time.hi_res_clock_ms()
            lost = self._drop_oldest()
            where = without_credentials(self._path)
            log.warning(f"{self._kind.folder}.not_written", path=where, problem=first_line(error), lost_rows=lost)
            return False
        return True

    def _write_hour(self, partition: str) -> None:
        own = [rows for each, rows in self._waiting if each == partition]
        first_us = own[0].column(0)[0].cast(pa.int64()).as_py()
        # A file that was published although that failed is written again under its name, with what it held.
        name, count = self._begun or (f"{self._kind.prefix}-{first_us:020d}-{uuid.uuid4().hex[:16]}.parquet", len(own))
        self._begun, own = (name, count), own[:count]
        table = pa.Table.from_batches(own)
        self._opened().publish(partition, name, encode(table, self._kind.schema))
        written = {id(rows) for rows in own}
        self._waiting = [each for each in self._waiting if id(each[1]) not in written]
        self._begun = None
        self.rows += table.num_rows
        self.files += 1

    def _opened(self) -> LandingStorage:
        if self._storage is None:
            self._storage = open_folder(self._path, self._writer, self._kind.folder)
        return self._storage

    def _count(self) -> int:
        return sum(rows.num_rows for _, rows in self._waiting)

    def _drop_oldest(self) -> int:
        lost = 0
        while self._count() > self.most_waiting:
            lost += self._waiting.pop(0)[1].num_rows
        if lost:
            self._begun = None
        self.lost_rows += lost
        return lost
