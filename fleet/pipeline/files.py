"""Paths on any file system that Hadoop knows, and which files a batch of Spark's file stream holds.

The stream is the book-keeper alone: it decides, and writes down before a batch runs, which files the batch has. They
are read by us, so that a file that cannot be read can be left out, and named, instead of stopping every later run.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fleet.errors import FleetError
from fleet.spark_errors import what_failed

_SOURCE_LOG_VERSION: Final = 1


def qualified(spark: SparkSession, path: str) -> str:
    """The path as a whole URI: a relative one is one of the driver's directory.

    Raises:
        FleetError: Hadoop knows no such file system.
    """
    with _file_system(spark, path, f"{path} is on no file system that Spark knows") as (system, hadoop_path):
        return str(system.makeQualified(hadoop_path).toString())


def exists(spark: SparkSession, path: str) -> bool:
    """True if there is a file or directory.

    Raises:
        FleetError: the file system cannot be asked.
    """
    with _file_system(spark, path, f"cannot look for {path}") as (system, hadoop_path):
        return bool(system.exists(hadoop_path))


def count_files(spark: SparkSession, directory: str) -> int:
    """Files below a directory, as its file system counts them.

    Raises:
        FleetError: the file system cannot be asked.
    """
    with _file_system(spark, directory, f"cannot list {directory}") as (system, hadoop_path):
        return int(system.getContentSummary(hadoop_path).getFileCount())


@contextmanager
def _file_system(spark: SparkSession, path: str, trouble: str) -> Iterator[tuple[Any, Any]]:
    """The file system of a path, and the path as it takes it; what it throws is `trouble`, and why."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    try:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        yield hadoop_path.getFileSystem(session.sessionState().newHadoopConf()), hadoop_path
    except Py4JJavaError as error:
        raise FleetError(f"{trouble}: {what_failed(error)}") from error


def count_planned(spark: SparkSession, checkpoint: str) -> int:
    """Files that a stream's checkpoint has given to some batch."""
    if not exists(spark, f"{checkpoint}/sources/0"):
        return 0
    return len(_source_log(spark, checkpoint).allFiles())


def files_of_batch(spark: SparkSession, checkpoint: str, batch: int) -> list[tuple[str, int]]:
    """(URI, modification time [ms]) of the files that a stream's checkpoint gives to a batch, in order."""
    last = _log_offset(spark, checkpoint, batch)
    first = _log_offset(spark, checkpoint, batch - 1) + 1 if batch else 0
    log = _source_log(spark, checkpoint)
    found = {
        (unquote(entry.path()), int(entry.timestamp()))
        for offset in range(first, last + 1)
        if (entries := log.get(offset)).isDefined()
        for entry in entries.get()
        if entry.batchId() == offset  # a compacted file of the log holds earlier batches too
    }
    return sorted(found, key=lambda file: (file[1], file[0]))


def _log_offset(spark: SparkSession, checkpoint: str, batch: int) -> int:
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.execution.streaming.OffsetSeqLog(spark._jsparkSession, f"{checkpoint}/offsets")
    offsets = log.get(batch).get().offsets()
    return int(json.loads(offsets.apply(0).get().json())["logOffset"])


def _source_log(spark: SparkSession, checkpoint: str) -> Any:
    jvm: Any = spark._jvm
    log_class = jvm.org.apache.spark.sql.execution.streaming.FileStreamSourceLog
    return log_class(_SOURCE_LOG_VERSION, spark._jsparkSession, f"{checkpoint}/sources/0")
