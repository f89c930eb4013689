"""A source as Spark's own stream, which keeps its place in the checkpoint of the watch."""

import json
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.bronze import with_origin
from fleet.errors import LandingError, no_landing_zone
from fleet.pipeline.source import MAX_BATCH_BYTES, Bounds
from fleet.pipeline.topic_source import check_same_topic, lost_records
from fleet.schemas import PUSH_RECORD
from fleet.spark_errors import is_missing_path, what_failed
from fleet.spark_schema import spark_schema
from fleet.tables.paths import qualified
from fleet.topic.offsets import client_options, find_bounds
from fleet.topic.read import fetch_options
from fleet.topic.records import to_bronze
from fleet.topic.source import Source, TopicSource

_EVERY_FILE: Final = "36500d"
"""The stream forgets files that are older than the newest by more than this, and would pass over them in silence."""


def start_stream(spark: SparkSession, source: Source, bounds: Bounds) -> DataFrame:
    """A landing zone's files, the oldest first, or a topic's records from its beginning on -> BRONZE as a stream.

    Raises:
        FleetError: the source cannot be read.
    """
    if isinstance(source, TopicSource):
        options = {
            "subscribe": source.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(bounds.max_records),
            **fetch_options(spark, client_options(spark, source)),
        }
        return to_bronze(spark.readStream.format("kafka").options(**options).load())
    limit = (
        {"maxBytesPerTrigger": str(MAX_BATCH_BYTES)}
        if bounds.max_files is None
        else {"maxFilesPerTrigger": str(bounds.max_files)}
    )
    reader = spark.readStream.schema(spark_schema(PUSH_RECORD)).options(maxFileAge=_EVERY_FILE, **limit)
    try:
        return with_origin(reader.parquet(qualified(source)))
    except (AnalysisException, Py4JJavaError) as error:
        if is_missing_path(error):
            raise LandingError(no_landing_zone(source)) from error
        raise LandingError(f"cannot read {source} as a landing zone: {what_failed(error)}") from error


def lost_before_start(spark: SparkSession, source: Source, checkpoint: str) -> int:
    """Records of a topic that retention took since the watch stopped.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or it is another one by now.
    """
    if not isinstance(source, TopicSource):
        return 0
    bounds = find_bounds(spark, source, client_options(spark, source))
    read_to = read_offsets(spark, checkpoint, source.topic)
    check_same_topic(source, bounds, read_to, checkpoint)
    return lost_records(bounds, read_to)


def read_offsets(spark: SparkSession, checkpoint: str, topic: str) -> dict[int, int]:
    """The offset up to which each partition of a topic was read; empty for a new checkpoint.

    Spark's API says it only once the query runs; a checkpoint has it in text files, one a batch, named for its number:
    a version, a line about the query, and a line a source.
    """
    finished = _lines(spark, f"{checkpoint}/commits")
    if not finished:
        return {}
    offsets = json.loads(_lines(spark, f"{checkpoint}/offsets")[max(finished)][-1])
    return {int(number): int(offset) for number, offset in offsets.get(topic, {}).items()}


def _lines(spark: SparkSession, directory: str) -> dict[int, list[str]]:
    """The lines of each file that is named by a number."""
    try:
        text = spark.read.text(directory, wholetext=True).select(F.col("_metadata.file_name").alias("name"), "value")
        return {int(row.name): row.value.splitlines() for row in text.collect() if row.name.isdecimal()}
    except AnalysisException as error:
        if is_missing_path(error):
            return {}
        raise
