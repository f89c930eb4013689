"""Delta Lake as this room uses it: made, appended to, merged into and replaced, each write once however often it runs.

A write of a batch carries the batch's `Transaction`. Delta keeps the last version of every application id in the table
itself and turns a write of the same or an earlier version into nothing, so that a batch may run again at any time.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.errors import JarError, TableError
from fleet.jars import Package, jars_of
from fleet.session import session_conf
from fleet.tables.written_file import DATE, WrittenFile

DELTA: Final = Package(
    what="Delta Lake",
    coordinates="io.delta:delta-spark_2.13:4.0.1",
    kept_as="delta-4.0.1",
    option="--jars",
    names=("delta-spark_2.13-4.0.1", "delta-storage-4.0.1"),
)
_LISTING_TASKS_A_CORE: Final = 4
_CLUSTER: Final = "cluster_id"
_TXN_CONFS: Final = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_CONFLICTS: Final = ("ConcurrentTransactionException", "ConcurrentAppendException", "ConcurrentDeleteReadException",
                     "ConcurrentDeleteDeleteException", "ConcurrentWriteException", "MetadataChangedException",
                     "DELTA_CONCURRENT", "CONCURRENT_STREAM_LOG_UPDATE", "ProtocolChangedException")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Names one write for good: the `version`-th batch of an application.

    Attributes:
        app_id: whose batches are counted; a checkpoint's own id.
        version: number of the batch.
    """

    app_id: str
    version: int


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
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(snapshot_partitions),
    }


def quoted(path: str) -> str:
    """A table's path as SQL names it.

    >>> quoted("s3a://lake/a`b")
    'delta.`s3a://lake/a``b`'
    """
    return f"delta.`{path.replace('`', '``')}`"


def read(spark: SparkSession, path: str) -> DataFrame:
    """The table as it is when the frame is computed, which later writes change; see `pinned`."""
    return spark.read.format("delta").load(path)


def pinned(frame: DataFrame) -> DataFrame:
    """The same rows, whatever becomes of the tables that they come from.

    A write to a table has Spark forget what was kept of frames that read it, and compute them anew from the table as it
    is then. Spark's own `localCheckpoint` keeps rows that no other executor can compute again.
    """
    session: Any = frame.sparkSession._jsparkSession
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(session.internalCreateDataFrame(rows, frame._jdf.schema(), False), frame.sparkSession)


def exists(spark: SparkSession, path: str) -> bool:
    """True if there is a Delta table at `path`."""
    return bool(_log_class(spark).forTable(spark._jsparkSession, path).tableExists())


def last_version(spark: SparkSession, path: str, app_id: str) -> int | None:
    """The last version of an application that is in the table; None when it never wrote."""
    found = _snapshot(spark, path).transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def version(spark: SparkSession, path: str) -> int:
    """Number of the table's last commit; -1 where there is no table."""
    return int(_snapshot(spark, path).version())


def size(spark: SparkSession, path: str) -> tuple[int, int]:
    """(files, bytes) of the table as it is now; from the checksum of its last commit, which costs no job."""
    snapshot = _snapshot(spark, path)
    checksum = snapshot.checksumOpt()
    if checksum.isDefined():
        return int(checksum.get().numFiles()), int(checksum.get().tableSizeBytes())
    return int(snapshot.numOfFiles()), int(snapshot.sizeInBytes())


def rows_written(spark: SparkSession, path: str, since: int) -> int:
    """Rows that the commits after version `since` wrote, by their own account; -1 is before the first."""
    log, snapshot = _opened(spark, path)
    return sum(_rows_of_commit(spark, log, number) for number in range(since + 1, int(snapshot.version()) + 1))


def _rows_of_commit(spark: SparkSession, log: Any, number: int) -> int:
    jvm: Any = spark._jvm
    file = jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{number:020d}.json")
    stream = file.getFileSystem(log.newDeltaHadoopConf()).open(file)
    try:
        first = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8")).readLine()
    finally:
        stream.close()
    metrics = json.loads(first or "{}").get("commitInfo", {}).get("operationMetrics", {})
    return int(metrics.get("numOutputRows", 0))


def _snapshot(spark: SparkSession, path: str) -> Any:
    return _opened(spark, path)[1]


def _opened(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The table's log, and what it says now."""
    found = _log_class(spark).forTableWithSnapshot(spark._jsparkSession, path)
    return found._1(), found._2()


def _log_class(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog


def check_session(spark: SparkSession) -> None:
    """Raises JarError unless the session was started with Delta Lake's jars and `delta_options`."""
    if not isinstance(_log_class(spark), JavaClass):
        raise JarError("this Spark session was started without Delta Lake: give its jars in SessionSettings.jars")


def small_files(spark: SparkSession, path: str, below_bytes: int) -> dict[str | None, int]:
    """How many files smaller than that each `date` has; under None for a table that is not partitioned."""
    files = DataFrame(_snapshot(spark, path).allFiles().toDF(), spark)
    small = files.where(F.col("size") < below_bytes).groupBy(F.col("partitionValues")["date"].alias("date"))
    return {row.date: int(row["count"]) for row in small.count().collect()}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is laid out when its first rows make it."""

    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def check_columns(spark: SparkSession, path: str, schema: T.StructType) -> None:
    """Adds the columns that a table of an earlier release lacks, unless its rows are found by one of them.

    Raises:
        TableError: its columns are not these, or its rows do not say their cluster.
    """
    found = {field.name: field.dataType.simpleString() for field in read(spark, path).schema.fields}
    wanted = {field.name: field.dataType.simpleString() for field in schema.fields}
    if _CLUSTER in wanted and _CLUSTER not in found and found.keys() & wanted.keys():
        raise TableError(
            f"the table at {path} was written by an earlier release, whose rows do not say their cluster: remove the "
            "directory given with --tables (and that of --checkpoint, if it is elsewhere) and run fleet run again, "
            "which reads everything anew from --source"
        )
    if unknown := [name for name in found if name not in wanted]:
        raise TableError(
            f"the table at {path} has columns that this release does not know ({', '.join(unknown)}): "
            "it was written by a newer one, or is another table"
        )
    if wrong := [f"{name} as {found[name]}" for name in found if found[name] != wanted[name]]:
        raise TableError(f"the table at {path} is none of ours: it has {', '.join(wrong)}")
    if missing := [name for name in wanted if name not in found]:
        columns = ", ".join(f"`{name}` {wanted[name]}" for name in missing)
        spark.sql(f"ALTER TABLE {quoted(path)} ADD COLUMNS ({columns})")


def append(frame: DataFrame, path: str, *, transaction: Transaction | None, layout: Layout | None = None) -> None:
    """Appends the rows, unless the transaction or a later one has; `layout` is that of a new table."""
    writer = _laid_out(frame.write.format("delta").mode("append"), layout)
    if transaction is not None:
        writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", transaction.version)
    writer.save(path)


def add_files(spark: SparkSession, path: str, files: Iterable[WrittenFile], *, transaction: Transaction) -> None:
    """Makes files that lie in the directory of a table that is there part of it, unless the transaction or a later one
    has: all of them in one commit.

    Somebody else's commit of the same application meanwhile is a conflict (`is_conflict`), and nothing is added.
    """
    jvm: Any = spark._jvm
    log = _log_class(spark).forTable(spark._jsparkSession, path)
    commit = log.startTransaction()
    if commit.txnVersion(transaction.app_id) >= transaction.version:  # -1 if it never wrote
        return
    now_ms = int(log.clock().getTimeMillis())
    done = {"appId": transaction.app_id, "version": transaction.version, "lastUpdated": now_ms}
    added = list(files)
    actions = [{"txn": done}, *({"add": _add_action(file)} for file in added)]
    from_json = _object(spark, "actions.Action").fromJson
    totals = {
        "numFiles": len(added),
        "numOutputBytes": sum(file.size_bytes for file in added),
        "numOutputRows": sum(file.rows for file in added),
    }
    commit.registerSQLMetrics(spark._jsparkSession, jvm.PythonUtils.toScalaMap(_sql_metrics(spark, totals)))
    commit.commit(
        jvm.PythonUtils.toSeq([from_json(json.dumps(action)) for action in actions]), _append_operation(spark)
    )


def _add_action(file: WrittenFile) -> dict[str, Any]:
    """As Delta's protocol has it (Add File and Remove File)."""
    return {
        "path": file.path,
        "partitionValues": {DATE: file.date.isoformat() if file.date else None},
        "size": file.size_bytes,
        "modificationTime": file.modified_at_ms,
        "dataChange": True,
        "stats": file.statistics,
    }


def _sql_metrics(spark: SparkSession, values: Mapping[str, int]) -> dict[str, Any]:
    """What the commit says of itself, which `rows_written` reads."""
    jvm: Any = spark._jvm
    context = spark.sparkContext._jsc.sc()
    metrics = {}
    for name, value in values.items():
        metrics[name] = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
        metrics[name].set(value)
    return metrics


def _append_operation(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    nothing = jvm.scala.Option.empty()
    write = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    return write(jvm.org.apache.spark.sql.SaveMode.Append, nothing, nothing, nothing)


def _object(spark: SparkSession, name: str) -> Any:
    """A Scala object of Delta's by the name of its class."""
    jvm: Any = spark._jvm
    return getattr(getattr(jvm, f"org.apache.spark.sql.delta.{name}$"), "MODULE$")


def merge(
    frame: DataFrame, path: str, *, key: Iterable[str], newer_by: Iterable[str], transaction: Transaction
) -> None:
    """Adds rows of new keys, and replaces rows whose `newer_by` is less, unless the transaction or a later one has."""
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in key)
    newer = " > ".join(f"struct({', '.join(f'{side}.`{name}`' for name in newer_by)})" for side in "st")
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
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    if isinstance(error, PySparkException) and (error.getCondition() or "").startswith(_CONFLICTS):
        return True
    return any(sign in text for sign in _CONFLICTS)
