"""`spark.read.format("fleetgauge")` and `spark.readStream.format("fleetgauge")`: rows of a landing zone, file by file.

A task has some files, and not what came before them: pushes are as they were received, repeated ones too
(`dropDuplicates(["push_id"])`), and points as they were sent, sums not compared. `readers` and standing tables do both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
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
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ModuleNotFoundError:  # before 4.2 Spark reads all that is there as one batch by itself
    SupportsTriggerAvailableNow = object  # type: ignore[misc, assignment]

_TASK_BYTES: Final = 4 * 1024 * 1024
"""Parquet that a task reads [B], of files that are not larger: of real clients some million data points, in seconds."""

_SETTLED_US: Final = 3_600 * 1_000_000
"""How long after its time of writing a file may still appear in the zone [us]: its rename, and clocks that differ."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What rows are made of pushes: CHECKED -> rows of a schema."""

    schema: Schema
    step: Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]


KINDS: Final = {
    "pushes": Kind(PUSHES, push_batches),
    "points": Kind(SENT_POINTS, partial(question("points").step, RejectCount())),
    "rejects": Kind(REJECTS, partial(question("rejects").step, RejectCount())),
}


def register(spark: SparkSession, tables: str | None = None, prefix: str = "") -> list[str]:
    """Makes the format `fleetgauge` known to a session, and standing tables queryable by name.

    Args:
        spark: the session.
        tables: the root of standing tables, which become temporary views (see `fleet.frames.make_views`).
        prefix: before the name of each view, such as `fleet_`.

    Returns:
        The names of the views.

    Raises:
        FleetError: a table cannot be read.

    Options of the format: `path`, the landing zone (a directory or `s3://...`), as the argument of `load`; `kind`, one
    of `KINDS`, by default `points`; `since`, `until`, `client_id` and `instance_id` as `Selection` has them, ids
    comma-separated; and Spark's settings for S3 (`spark.hadoop.fs.s3a...`). From Spark 4.1 on, conditions on `date`,
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
    made = _kind(kind)
    return to_bronze(records).mapInArrow(lambda rows: made.step(checked(rows)), spark_schema(made.schema))


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise SourceError(f"there is no kind {name!r}: give one of {', '.join(KINDS)}")
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of a read."""

    path: str
    kind: str
    selection: Selection
    storage: Mapping[str, str]

    def files(self, since_us: int = 0) -> list[Written]:
        """Files of pushes of the selected days that were written since then, in the order of their paths."""
        found = written_files(self._system(), self.path, since_us)
        of_days = (file for file in found if has_pushes(file.path) and is_of_days(file.path, self.selection))
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
        """What is asked for of these files, some pushes at a time."""
        system = self._system()
        read = (rows for path in paths for rows in landing.read(path, self.selection, system=system))
        return _kind(self.kind).step(checked(read))

    def narrowed(self, condition: Any) -> "_Asked":
        """The same for rows of which a filter of `pyspark.sql.datasource` is true, where it chooses days or clients."""
        chosen, value = self.selection, cast(Any, getattr(condition, "value", None))
        match type(condition).__name__, getattr(condition, "attribute", ()):
            case "EqualTo" | "In" as name, ("client_id",):
                chosen = replace(chosen, client_ids=_both(chosen.client_ids, value if name == "In" else [value]))
            case "EqualTo" | "In" as name, ("client_instance_id",):
                chosen = replace(chosen, instance_ids=_both(chosen.instance_ids, value if name == "In" else [value]))
            case "EqualTo", ("date",):
                chosen = _from(_before(chosen, value + timedelta(days=1)), value)
            case "GreaterThan" | "GreaterThanOrEqual", ("date",):
                chosen = _from(chosen, value)
            case "LessThan" | "LessThanOrEqual", ("date",):
                chosen = _before(chosen, value + timedelta(days=1))
        return replace(self, selection=chosen)

    def _system(self) -> Any:
        system = file_system(self.path, storage_options(self.storage))
        if system is None:
            raise LandingError(f"the data source reads directories and S3, and {self.path} is neither: use read_points")
        return system


def _both(chosen: Iterable[str], also: Iterable[Any]) -> tuple[str, ...]:
    """Ids that are in both; where none is, those of before: Spark leaves out the rest."""
    before = tuple(chosen)
    return tuple(each for each in also if not before or each in before) or before


def _from(selection: Selection, day: date) -> Selection:
    since = datetime.combine(day, time(), UTC)
    return replace(selection, since=max(since, selection.since or since))


def _before(selection: Selection, day: date) -> Selection:
    until = datetime.combine(day, time(), UTC)
    return replace(selection, until=min(until, selection.until or until))


def _asked(options: Mapping[str, str]) -> _Asked:
    path = options.get("path")
    if not path:
        raise SourceError('name the landing zone: spark.read.format("fleetgauge").load(path)')
    now = datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)
    times = {name: parse_time(options[name], now) for name in ("since", "until") if name in options}
    ids = {name: [each for each in options.get(name, "").split(",") if each] for name in ("client_id", "instance_id")}
    selection = Selection(
        **times, client_ids=tuple(ids["client_id"]), instance_ids=parse_instance_ids(ids["instance_id"])
    )
    kind = options.get("kind", "points")
    _kind(kind)
    storage = {name: value for name, value in options.items() if name.startswith("spark.")}
    return _Asked(path.rstrip("/"), kind, selection, storage)


class FleetgaugeSource(DataSource):
    """The data source; see `register`."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "fleetgauge"

    def schema(self) -> T.StructType:
        """That of the kind."""
        return spark_schema(_kind(_asked(self.options).kind).schema)

    def reader(self, schema: T.StructType) -> "ZoneReader":
        """Of `spark.read`."""
        return ZoneReader(_asked(self.options))

    def streamReader(self, schema: T.StructType) -> "ZoneStream":  # noqa: N802  # Spark's
        """Of `spark.readStream`."""
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

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """After the newest file; `start`, which Spark gives from 4.2 on, spares folders in which nothing is new."""
        if self._last is not None:
            return self._last
        known_us = start["written_us"] if start else 0
        files = self._asked.files(known_us - _SETTLED_US)
        written_us = max([known_us, *(file.written_us for file in files)])
        settled_us = written_us - _SETTLED_US
        return {
            "written_us": written_us,
            "recent": {file.path: file.written_us for file in files if file.written_us > settled_us},
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends with the files that are there now."""
        self._last = self.latestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of `end` that `start` does not have, a few each."""
        settled_us = start["written_us"] - _SETTLED_US
        files = self._asked.files(settled_us)
        return self._asked.tasks(
            file
            for file in files
            if settled_us < file.written_us
            and file.path not in start["recent"]
            and (file.written_us <= end["written_us"] - _SETTLED_US or file.path in end["recent"])
        )

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Rows of these files."""
        return self._asked.rows(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept until then."""
