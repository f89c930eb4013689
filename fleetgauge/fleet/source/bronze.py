"""Bronze: the landing zone as it lies, push records in Parquet under `date=YYYY-MM-DD/hour=HH/` (of receipt, UTC)."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation abbreviates it
from pyspark.sql import types as T  # noqa: N812

from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE, PUSH_RECORD, conform
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import has_pushes, is_of_days, list_files, refuse_newer
from fleetgauge.fleet.spark.errors import SPARK_ERRORS, what_failed
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables.paths import qualified, without_parameters


def read_landing(spark: SparkSession, source: str, selection: Selection | None = None) -> DataFrame:
    """The landing zone at `source` -> BRONZE: one row a push as received, repeats included.

    Raises:
        LandingError: the path is missing, holds no Parquet file, or what it holds are no push records.
    """
    root = qualified(without_parameters(source))
    names = [path for path in list_files(source, lambda: spark) if has_pushes(path)]
    files = [f"{root}/{name}" if name else root for name in names]
    _check_form(spark, source, files)
    selection = selection or Selection()
    chosen = [file for file, name in zip(files, names, strict=True) if is_of_days(name, selection)]
    raw = spark.read.schema(spark_schema(PUSH_RECORD)).parquet(*chosen or files[:1])
    return select_pushes(with_origin(raw), selection)


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
    if selection.since is not None:
        frame = frame.where(F.col(time) >= F.lit(selection.since))
    if selection.until is not None:
        frame = frame.where(F.col(time) < F.lit(selection.until))
    for name, values in selection.ids.items():
        frame = frame.where(F.col(name).isin(list(values)))
    return frame


def _check_form(spark: SparkSession, source: str, files: list[str]) -> None:
    """Looks at one file: an explicit schema alone would turn any Parquet file into rows of nulls."""
    if not files:
        raise LandingError(f"the landing zone at {source} holds no push yet, or is another directory")
    try:
        found = spark.read.parquet(files[0]).schema
    except SPARK_ERRORS as error:
        raise LandingError(f"cannot read {source} as a landing zone: {what_failed(error)}") from error
    fault = _fault_of(found)
    if fault:
        if "schema_version" in found.names:
            newest = spark.read.parquet(*files).agg(F.max(F.col("schema_version").try_cast("int"))).first()
            refuse_newer(source, newest[0] if newest else None)
        raise LandingError(f"{source} holds no push records: its files have {fault}")


def _fault_of(found: T.StructType) -> str | None:
    missing = [name for name in PUSH_RECORD.names if name not in found.names]
    if missing:
        return f"no column {', '.join(missing)}"
    wanted = spark_schema(PUSH_RECORD).fields
    wrong = [field for field in wanted if not _reads_as(found[field.name].dataType, field.dataType)]
    return ", ".join(f"{field.name} as {found[field.name].dataType.simpleString()}" for field in wrong) or None


def _reads_as(found: T.DataType, wanted: T.DataType) -> bool:
    narrower = isinstance(found, T.ByteType | T.ShortType) and isinstance(wanted, T.IntegerType)
    return found == wanted or narrower
