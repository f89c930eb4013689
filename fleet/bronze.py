"""Bronze: the landing zone as it lies, push records in Parquet under `date=YYYY-MM-DD/hour=HH/` (of receipt, UTC).

Files and directories whose names begin with `_` or `.` are no part of it: writers keep unfinished files there.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation abbreviates it
from pyspark.sql import types as T  # noqa: N812

from fleet.errors import LandingError, no_landing_zone
from fleet.landing import FOLDERS_WITHOUT_PUSHES
from fleet.schemas import BRONZE, PUSH_RECORD, conform
from fleet.selection import Selection
from fleet.spark_errors import what_failed
from fleet.spark_schema import spark_schema
from telemetry.push_record import SCHEMA_VERSION

_PATH_NOT_FOUND = "PATH_NOT_FOUND"
_NOTHING_TO_INFER = "UNABLE_TO_INFER_SCHEMA"


def read_landing(spark: SparkSession, source: str, selection: Selection | None = None) -> DataFrame:
    """The landing zone at `source` -> BRONZE: one row a push as received, repeats included.

    Raises:
        LandingError: the path is missing, holds no Parquet file, or what it holds are no push records.
    """
    found = _PushFiles(spark, source)
    _check_form(source, found)
    selection = selection or Selection()
    raw = _of_days(found.reader.schema(spark_schema(PUSH_RECORD)).parquet(*found.paths), selection)
    return select_pushes(with_origin(raw), selection)


class _PushFiles:
    """What to read a zone's pushes by: beside folders of other rows, its other folders and files one by one."""

    def __init__(self, spark: SparkSession, source: str) -> None:
        self._spark = spark
        self._source: str | None = None
        self.paths = [source]
        try:
            path: Any = spark._jvm.org.apache.hadoop.fs.Path(source)  # type: ignore[union-attr]
            files: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())
            below = [each.getPath() for each in files.listStatus(path)]
        except Py4JJavaError:
            return  # which the reader says better
        if any(each.getName() in FOLDERS_WITHOUT_PUSHES for each in below):
            names = [each for each in below if each.getName() not in FOLDERS_WITHOUT_PUSHES]
            self.paths = [each.toString() for each in names if each.getName()[0] not in "._"]
            self._source = source

    @property
    def reader(self) -> DataFrameReader:
        """A reader that finds the columns of the folders' names."""
        return self._spark.read if self._source is None else self._spark.read.option("basePath", self._source)


def with_origin(raw: DataFrame) -> DataFrame:
    """Parquet files that were read with PUSH_RECORD as their schema -> BRONZE."""
    frame = raw.select(
        *PUSH_RECORD.names,
        F.col("_metadata.file_path").alias("source_file"),
        F.col("_metadata.row_index").alias("source_row"),
        F.lit(None).cast("string").alias("fault"),
    )
    return conform(frame, BRONZE)


def select_pushes(frame: DataFrame, selection: Selection, time: str = "received_at") -> DataFrame:
    """The rows of `frame` that an operator asked for; `time` is the column that times are of."""
    for condition in _conditions(selection, F.col(time)):
        frame = frame.where(condition)
    return frame


def _of_days(raw: DataFrame, selection: Selection) -> DataFrame:
    """Without the folders of other days than the selected ones, which need not even be listed."""
    if "date" not in raw.columns:
        return raw
    if selection.since is not None:
        raw = raw.where(F.col("date") >= F.lit(f"{selection.since:%Y-%m-%d}"))
    if selection.until is not None:
        raw = raw.where(F.col("date") <= F.lit(f"{selection.until:%Y-%m-%d}"))
    return raw


def _conditions(selection: Selection, time: Column) -> list[Column]:
    conditions = []
    if selection.since is not None:
        conditions.append(time >= F.lit(selection.since))
    if selection.until is not None:
        conditions.append(time < F.lit(selection.until))
    if selection.client_ids:
        conditions.append(F.col("client_id").isin(list(selection.client_ids)))
    if selection.instance_ids:
        conditions.append(F.col("client_instance_id").isin(list(selection.instance_ids)))
    return conditions


def _check_form(source: str, files: _PushFiles) -> None:
    """Looks at one file: an explicit schema alone would turn any Parquet file into rows of nulls."""
    try:
        if not files.paths:
            raise LandingError(f"the landing zone at {source} holds no push yet")
        found = files.reader.parquet(*files.paths).schema
    except LandingError:
        raise
    except AnalysisException as error:
        raise LandingError(_explain(error, source)) from error
    except Exception as error:  # a file that is no Parquet, a file system that Spark does not know
        raise LandingError(f"cannot read {source} as a landing zone: {what_failed(error)}") from error
    fault = _fault_of(found)
    if fault:
        _refuse_newer(files, source, found)
        raise LandingError(f"{source} holds no push records: its files have {fault}")


def _fault_of(found: T.StructType) -> str | None:
    missing = [name for name in PUSH_RECORD.names if name not in found.names]
    if missing:
        return f"no column {', '.join(missing)}"
    wanted = spark_schema(PUSH_RECORD).fields
    wrong = [field for field in wanted if not _reads_as(found[field.name].dataType, field.dataType)]
    return ", ".join(f"{field.name} as {found[field.name].dataType.simpleString()}" for field in wrong) or None


def _refuse_newer(files: _PushFiles, source: str, found: T.StructType) -> None:
    """Push records of a later form are push records: what is wrong is the reader. Looked at in no other case."""
    if "schema_version" not in found.names:
        return
    newest = files.reader.parquet(*files.paths).agg(F.max(F.col("schema_version").try_cast("int"))).first()
    if newest and newest[0] is not None and newest[0] > SCHEMA_VERSION:
        raise LandingError(
            f"{source} holds push records of schema version {newest[0]}, and this fleetgauge reads those up to "
            f"{SCHEMA_VERSION}: update it"
        )


def _reads_as(found: T.DataType, wanted: T.DataType) -> bool:
    narrower = isinstance(found, T.ByteType | T.ShortType) and isinstance(wanted, T.IntegerType)
    return found == wanted or narrower


def _explain(error: AnalysisException, source: str) -> str:
    condition = error.getCondition() or ""
    if condition.startswith(_PATH_NOT_FOUND):
        return no_landing_zone(source)
    if condition.startswith(_NOTHING_TO_INFER):
        return f"the landing zone at {source} holds no push yet, or is another directory"
    return f"cannot read {source} as a landing zone: {what_failed(error)}"
