"""Bronze: push records of a landing zone as stored, in Parquet under `date=YYYY-MM-DD/hour=HH/` (of receipt, UTC)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow.fs import FileSystem
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation abbreviates it

from fleetgauge.fleet.arrow import RecordBatch, Schema, pa
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE
from fleetgauge.fleet.source import landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import LOCAL, has_pushes, is_of_days, list_files
from fleetgauge.fleet.spark.local_rows import local_rows
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables.paths import plain_path, qualified, without_parameters

Step = Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]

_PATHS: Final = pa.schema([pa.field("path", pa.string())])


def read_landing(spark: SparkSession, source: str, selection: Selection | None = None) -> DataFrame:
    """The landing zone at `source` -> BRONZE: one row per push as received, repeats included.

    Raises:
        LandingError: the path is missing, holds no Parquet file, or what it holds are no push records.
    """
    root, selection = qualified(without_parameters(source)), selection or Selection()
    names = [path for path in list_files(source, lambda: spark) if has_pushes(path)]
    files = [f"{root}/{name}" if name else root for name in names]
    first = _contents(spark, files[:1]).head(1) if files else []
    landing.check_form(source, files, content=first[0].content if first else None)
    chosen = [file for file, name in zip(files, names, strict=True) if is_of_days(name, selection)]
    if not chosen:
        return local_rows(spark, [], BRONZE)
    return _contents(spark, chosen).mapInArrow(_ReadFiles(selection=selection), spark_schema(BRONZE))


def read_files(
    spark: SparkSession, paths: Sequence[str], system: FileSystem | None, tasks: int, step: Step, schema: Schema
) -> DataFrame:
    """Applies a step to the rows of a zone's files.

    Args:
        spark: the session.
        paths: whole paths or URIs.
        system: that has them, which executors read by themselves; None where only Spark does.
        tasks: at most.
        step: takes BRONZE, with a row that has a fault and no number for each file that cannot be read.
        schema: of what it makes.
    """
    if not paths:
        return local_rows(spark, [], schema)
    if system is None:
        frame = _contents(spark, [qualified(path) for path in paths])
    else:
        frame = local_rows(spark, [{"path": path} for path in paths], _PATHS).repartition(min(len(paths), tasks))
    read = _ReadFiles(selection=Selection(), system=system, sets_aside=True)
    return frame.mapInArrow(lambda files: step(read(files)), spark_schema(schema))


def _contents(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Content of files, read by Spark from any file system."""
    return spark.read.format("binaryFile").load(list(files)).select("path", "content")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadFiles:
    """A step of `mapInArrow`: paths of files, perhaps with their contents -> BRONZE.

    Attributes:
        selection: of rows.
        system: has the files; None where their contents are given, or for the machine that this runs on.
        sets_aside: a file that cannot be read is one row with a fault and without a number; else it is an error.
    """

    selection: Selection
    system: FileSystem | None = None
    sets_aside: bool = False

    def __call__(self, files: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in files:
            for file in batch.to_pylist():
                path, system = plain_path(file["path"]), self.system or LOCAL
                rows = landing.read(path, self.selection, system=system, content=file.get("content"))
                try:
                    yield from list(rows)  # all of it or nothing
                except LandingError:
                    if not self.sets_aside:
                        raise
                    row = {"source_file": path, "fault": "the file cannot be read"}
                    yield pa.RecordBatch.from_pylist([row], schema=BRONZE)


def select_pushes(frame: DataFrame, selection: Selection, time: str = "received_at") -> DataFrame:
    """Rows of `frame` within the selection; `time` is the column that time bounds apply to."""
    if selection.since is not None:
        frame = frame.where(F.col(time) >= F.lit(selection.since))
    if selection.until is not None:
        frame = frame.where(F.col(time) < F.lit(selection.until))
    for name, values in selection.ids.items():
        frame = frame.where(F.col(name).isin(list(values)))
    return frame
