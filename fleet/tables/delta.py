"""Delta Lake in Spark: tables appended to, merged into and replaced, each write once however often it runs.

A write of a batch carries the batch's `Transaction`. Delta turns a write of the same or an earlier version into
nothing, so that a batch may run again at any time. See `fleet.tables.log` for what needs no Spark.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.errors import JarError
from fleet.jars import Package, jars_of
from fleet.session import session_conf
from fleet.spark_errors import class_names
from fleet.tables.log import Layout, Transaction

DELTA: Final = Package(
    what="Delta Lake",
    coordinates="io.delta:delta-spark_2.13:4.0.1",
    kept_as="delta-4.0.1",
    option="--jars",
    names=("delta-spark_2.13-4.0.1", "delta-storage-4.0.1"),
)
_LISTING_TASKS_A_CORE: Final = 4
_TXN_CONFS: Final = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_CONFLICTS: Final = ("io.delta.exceptions.", "org.apache.spark.sql.delta.DeltaConcurrentModificationException")
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"


def delta_jars(
    own: Iterable[str] = (), *, cache: Path | None = None, note: Callable[[str], None] = lambda _: None
) -> tuple[str, ...]:
    """Delta Lake's jars, for `SessionSettings.jars`; see `fleet.jars.jars_of`.

    Raises:
        JarError: a jar of one's own is not there, or Maven Central cannot be reached.
    """
    return jars_of(DELTA, own, cache=cache, note=note)


def delta_options(snapshot_partitions: int) -> dict[str, str]:
    """What a session must be started with to know Delta.

    Args:
        snapshot_partitions: tasks that read a table's log; Delta's own 50 are for millions of files.
    """
    return {
        "spark.sql.extensions": _EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(snapshot_partitions),
    }


def quoted(path: str) -> str:
    """A table's path as SQL names it.

    >>> quoted("s3a://lake/a`b")
    'delta.`s3a://lake/a``b`'
    """
    return f"delta.`{path.replace('`', '``')}`"


def read(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """The table as it is when the frame is computed, which later writes change; or as a commit left it."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path)


def check_session(spark: SparkSession) -> None:
    """Raises JarError unless the session was started with Delta Lake's jars and `delta_options`."""
    if _EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or "").split(","):
        raise JarError("this Spark session was started without Delta Lake: give its jars in SessionSettings.jars")


def compact(spark: SparkSession, path: str, *, clustered_by: Iterable[str] = (), where: str | None = None) -> None:
    """Writes files anew, larger, with the rows of one client together: Delta's OPTIMIZE."""
    columns = ", ".join(clustered_by)
    spark.sql(
        f"OPTIMIZE {quoted(path)}"
        + (f" WHERE {where}" if where else "")
        + (f" ZORDER BY ({columns})" if columns else "")
    )


def delete(spark: SparkSession, path: str, where: str) -> int:
    """Deletes rows, and says how many: Delta's DELETE, which takes whole days away without reading them."""
    return int(spark.sql(f"DELETE FROM {quoted(path)} WHERE {where}").collect()[0][0])  # noqa: S608  # of our own words


def vacuum(spark: SparkSession, path: str, keep_hours: int) -> None:
    """Removes files that no version of the last `keep_hours` [h] needs: Delta's VACUUM."""
    tasks = spark.sparkContext.defaultParallelism * _LISTING_TASKS_A_CORE
    settings = {
        # What is asked for has been checked where it was asked.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # Delta lists a table with as many tasks as this says, 10,000 unless told otherwise, however small it is.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(tasks),
    }
    with session_conf(spark, settings):
        spark.sql(f"VACUUM {quoted(path)} RETAIN {keep_hours} HOURS")


def append(frame: DataFrame, path: str, *, transaction: Transaction | None, layout: Layout | None = None) -> None:
    """Appends the rows, unless the transaction or a later one has; `layout` is that of a new table."""
    writer = _laid_out(frame.write.format("delta").mode("append"), layout)
    if transaction is not None:
        writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", transaction.version)
    writer.save(path)


def merge(
    frame: DataFrame, path: str, *, key: Iterable[str], newer_by: Iterable[str], transaction: Transaction
) -> None:
    """Adds rows of new keys, and replaces rows whose `newer_by` is no greater, unless the transaction has.

    One of the same `newer_by` is replaced, too: it was read again, and may have been decoded otherwise.
    """
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in key)
    newer = " >= ".join(f"struct({', '.join(f'{side}.`{name}`' for name in newer_by)})" for side in "st")
    _merge(
        frame, path, f"{same} WHEN MATCHED AND {newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", transaction
    )


def update(
    frame: DataFrame, path: str, *, key: Iterable[str], columns: Iterable[str], where: str, transaction: Transaction
) -> None:
    """Sets `columns` of the rows that have the key of one of `frame`, unless the transaction or a later one has.

    Rows that do not meet `where` (SQL) are not looked at.
    """
    keys, changed = list(key), list(columns)
    rows = frame.select(F.struct(*keys).alias("_key"), F.struct(*changed).alias("_new"))
    same = " AND ".join(f"t.`{name}` = s._key.`{name}`" for name in keys)
    sets = ", ".join(f"t.`{name}` = s._new.`{name}`" for name in changed)
    _merge(rows, path, f"{where} AND {same} WHEN MATCHED THEN UPDATE SET {sets}", transaction)


def _merge(rows: DataFrame, path: str, on: str, transaction: Transaction) -> None:
    """MERGE of rows `s` into a table `t`: what follows ON."""
    session = rows.sparkSession
    view = "fleetgauge_rows_to_merge"
    rows.createOrReplaceTempView(view)
    # SQL takes a transaction from the session alone, which must not keep it for the next statement.
    names = zip(_TXN_CONFS, (transaction.app_id, str(transaction.version)), strict=True)
    with session_conf(session, dict(names)):
        session.sql(f"MERGE INTO {quoted(path)} t USING {view} s ON {on}")
    session.catalog.dropTempView(view)


def replace(frame: DataFrame, path: str, *, where: str | None = None, layout: Layout | None = None) -> None:
    """Replaces the rows that meet `where`, or all: the same rows however often it runs."""
    writer = _laid_out(frame.write.format("delta").mode("overwrite"), layout)
    if where is not None and layout is None:
        writer = writer.option("replaceWhere", where)
    writer.save(path)


def _laid_out(writer: DataFrameWriter, layout: Layout | None) -> DataFrameWriter:
    if layout is None:
        return writer
    writer = writer.options(**layout.properties)
    return writer.partitionBy(*layout.partition_by) if layout.partition_by else writer


def is_conflict(error: Exception) -> bool:
    """True if somebody else wrote the same tables meanwhile."""
    return isinstance(error, CommitFailedError) or any(name.startswith(_CONFLICTS) for name in class_names(error))
