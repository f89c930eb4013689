"""`spark.read.format("fleetgauge")` and `spark.readStream.format("fleetgauge")`: rows of a landing zone, file by file.

A task has some files, and not what came before them: pushes are as they were received, repeated ones too
(`dropDuplicates(["push_id"])`), and points as they were sent, sums not compared. `readers` and fleet tables do both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from fleetgauge.base.clock import SystemTime
from fleetgauge.fleet.arrow import RecordBatch, Schema
from fleetgauge.fleet.engines.jobs import push_batches
from fleetgauge.fleet.engines.questions import RejectCount, question
from fleetgauge.fleet.errors import LandingError, SourceError
from fleetgauge.fleet.frames import make_views
from fleetgauge.fleet.schemas import PUSHES, REJECTS, SENT_POINTS
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.source import landing
from fleetgauge.fleet.source.selection import Selection, parse_instance_ids, parse_time
from fleetgauge.fleet.source.topic.records import to_bronze
from fleetgauge.fleet.source.zone_files import Written, file_system, has_pushes, is_of_days, written_files
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables.paths import plain_path, qualified, storage_options, without_parameters

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ModuleNotFoundError:  # before 4.2 Spark reads all that is there as one batch by itself
    SupportsTriggerAvailableNow = object  # type: ignore[misc, assignment]
    ReadMaxFiles = None  # type: ignore[misc, assignment]

_TASK_BYTES: Final = 4 * 1024 * 1024
"""Parquet that a task reads [B], of files that are not larger: of real clients some million data points, in seconds."""

_ID_FIELDS: Final = {"client_id": "client_ids", "client_instance_id": "instance_ids"}
"""Fields of a selection by the columns that they are of."""

_MAX_FILES: Final = "maxFilesPerTrigger"
"""Option name, the same as in Spark's own file sources."""

_SETTLED_US: Final = 3_600 * 1_000_000
"""Time after a file's modification during which it may still appear in the zone [us]: its rename, and differing clocks.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Function from pushes to rows: CHECKED -> rows of a schema."""

    schema: Schema
    step: Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]


KINDS: Final = {
    "pushes": Kind(PUSHES, push_batches),
    "points": Kind(SENT_POINTS, partial(question("points").step, RejectCount())),
    "rejects": Kind(REJECTS, partial(question("rejects").step, RejectCount())),
}


def register(spark: SparkSession, tables: str | None = None, prefix: str = "") -> list[str]:
    """Makes the format `fleetgauge` known to a session, and fleet tables queryable by name.

    Args:
        spark: the session.
        tables: the root of fleet tables, which become temporary views (see `fleet.frames.make_views`).
        prefix: before the name of each view, such as `fleet_`.

    Returns:
        The names of the views.

    Raises:
        FleetError: a table cannot be read.

    Options of the format: `path`, the landing zone (a directory or `s3://...`), as the argument of `load`; `kind`, one
    of `KINDS`, by default `points`; `since`, `until`, `client_id` and `instance_id` as `Selection` has them, ids
    comma-separated; Spark's settings for S3 (`spark.hadoop.fs.s3a...`); and for a stream `maxFilesPerTrigger` (from
    Spark 4.2 on), the files of one batch, oldest first. From Spark 4.1 on, conditions on `date`,
    `client_id` and `client_instance_id` choose files and rows as these options do.

    A stream's batch has the files that came since the last one, wherever in the zone. Its offset is the time at which
    the newest file was written, with the names of those of the hour before, so that each is read once, also where
    files come into folders of hours long past. A file that is copied into the zone keeps no older time of writing.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(FleetgaugeSource)
    return [] if tables is None else make_views(spark, tables, prefix)


def decode_topic(records: DataFrame, kind: str = "points") -> DataFrame:
    """Rows of Spark's Kafka source, in batch or as a stream, with `includeHeaders` -> rows as the data source has them.

    Raises:
        SourceError: there is no such kind.
        SchemaError: columns of the source are missing, as `headers`.
    """
    decoder = _kind(kind)
    return to_bronze(records).mapInArrow(lambda rows: decoder.step(checked(rows)), spark_schema(decoder.schema))


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise SourceError(f"there is no kind {name!r}: give one of {', '.join(KINDS)}")
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of a read."""

    path: str
    kind: Kind
    selection: Selection
    storage: Mapping[str, str]
    max_files: int | None

    def files(self, since_us: int = 0) -> list[Written]:
        """Files of pushes of the selected days that were written since then, in the order of their paths."""
        written = written_files(self._system(), self.path, since_us)
        of_days = (file for file in written if has_pushes(file.path) and is_of_days(file.path, self.selection))
        return sorted(of_days, key=lambda file: file.path)

    def tasks(self, files: Iterable[Written]) -> list[InputPartition]:
        """A few files each."""
        root = plain_path(qualified(without_parameters(self.path)))
        tasks: list[InputPartition] = []
        size_bytes = _TASK_BYTES
        for file in files:
            if size_bytes + file.size_bytes > _TASK_BYTES:
                tasks.append(InputPartition([]))
                size_bytes = 0
            tasks[-1].value.append(f"{root}/{file.path}")
            size_bytes += file.size_bytes
        return tasks or [InputPartition([])]

    def check_form(self, files: Sequence[Written]) -> None:
        """Raises LandingError for a directory of other files."""
        (task, *_) = self.tasks(files[:1])
        landing.check_form(self.path, task.value, self._system())

    def rows(self, paths: Sequence[str]) -> Iterator[RecordBatch]:
        """Selected rows of these files, some pushes at a time."""
        system = self._system()
        read = (rows for path in paths for rows in landing.read(path, self.selection, system=system))
        return self.kind.step(checked(read))

    def narrowed(self, condition: Any) -> "_Asked":
        """The selection narrowed by a filter of `pyspark.sql.datasource`, if it is on days or clients."""
        kind, (column, *_) = type(condition).__name__, getattr(condition, "attribute", ("",))
        value, chosen = cast(Any, getattr(condition, "value", None)), self.selection
        if column in _ID_FIELDS and kind in ("EqualTo", "In"):
            before: Sequence[str] = getattr(chosen, _ID_FIELDS[column])
            values = [each for each in (value if kind == "In" else [value]) if not before or each in before]
            narrowed: dict[str, Any] = {_ID_FIELDS[column]: values or before}
            return replace(self, selection=replace(chosen, **narrowed))
        if column == "date" and kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
            since = datetime.combine(value, time(), UTC)
            chosen = replace(chosen, since=max(since, chosen.since or since))
        if column == "date" and kind in ("EqualTo", "LessThan", "LessThanOrEqual"):
            until = datetime.combine(value + timedelta(days=1), time(), UTC)
            chosen = replace(chosen, until=min(until, chosen.until or until))
        return replace(self, selection=chosen)

    def _system(self) -> Any:
        system = file_system(self.path, self.storage)
        if system is None:
            raise LandingError(f"the data source reads only directories and S3, not {self.path}: use read_points")
        return system


def _asked(options: Mapping[str, str]) -> _Asked:
    path = options.get("path")
    if not path:
        raise SourceError('the path of the landing zone is missing: spark.read.format("fleetgauge").load(path)')
    now = datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)
    ids = {name: tuple(filter(None, options.get(name, "").split(","))) for name in ("client_id", "instance_id")}
    selection = Selection(
        since=parse_time(options["since"], now) if "since" in options else None,
        until=parse_time(options["until"], now) if "until" in options else None,
        client_ids=ids["client_id"],
        instance_ids=parse_instance_ids(ids["instance_id"]),
    )
    kind = _kind(options.get("kind", "points"))
    return _Asked(path.rstrip("/"), kind, selection, storage_options(options), _max_files(options))


def _max_files(options: Mapping[str, str]) -> int | None:
    text = options.get(_MAX_FILES)
    if text is None:
        return None
    if ReadMaxFiles is None:
        raise SourceError(f"{_MAX_FILES} needs Spark 4.2 or later")
    if not text.isdecimal() or not int(text):
        raise SourceError(f"{_MAX_FILES} has to be a number of files, not {text!r}")
    return int(text)


class FleetgaugeSource(DataSource):
    """The data source; see `register`."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "fleetgauge"

    def schema(self) -> T.StructType:
        """Schema of the kind."""
        return spark_schema(_asked(self.options).kind.schema)

    def reader(self, schema: T.StructType) -> "ZoneReader":
        """Reader for `spark.read`."""
        return ZoneReader(_asked(self.options))

    def streamReader(self, schema: T.StructType) -> "ZoneStream":  # noqa: N802  # Spark's
        """Reader for `spark.readStream`."""
        return ZoneStream(_asked(self.options))


class ZoneReader(DataSourceReader):
    """Files of a zone, as they are when a query is planned."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Chooses files and rows by them; Spark applies all of them again."""
        for condition in filters:
            self._asked = self._asked.narrowed(condition)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """A few files each."""
        files = self._asked.files()
        self._asked.check_form(files)
        return self._asked.tasks(files)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Rows of these files."""
        return self._asked.rows(partition.value)


class ZoneStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files of a zone as they come. An offset is `{"written_us": ..., "recent": {path: time of writing [us]}}`."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before the first file."""
        return {"written_us": 0, "recent": {}}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Read limit from the options."""
        return ReadAllAvailable() if self._asked.max_files is None else ReadMaxFiles(self._asked.max_files)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """After the newest file that is to be read; Spark gives `start` and `limit` from 4.2 on."""
        start = start or self.initialOffset()
        files = self._asked.files(start["written_us"] - _SETTLED_US)
        new = [file for file in files if not _has(start, file) and (self._last is None or _has(self._last, file))]
        taken = sorted(new, key=lambda file: file.written_us)[: getattr(limit, "max_files", None)]
        written_us = max([start["written_us"], *(file.written_us for file in taken)])
        known = start["recent"] | {file.path: file.written_us for file in taken}
        return {
            "written_us": written_us,
            "recent": {path: at_us for path, at_us in known.items() if at_us > written_us - _SETTLED_US},
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends with the files that are there now."""
        self._last = self.latestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of `end` that `start` does not have, a few each."""
        files = self._asked.files(start["written_us"] - _SETTLED_US)
        return self._asked.tasks(file for file in files if _has(end, file) and not _has(start, file))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Rows of these files."""
        return self._asked.rows(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept until then."""


def _has(offset: Mapping[str, Any], file: Written) -> bool:
    """True for a file that was read up to an offset."""
    return file.written_us <= offset["written_us"] - _SETTLED_US or file.path in offset["recent"]
