"""Reads a topic into BRONZE with Spark's Kafka connector, in batch."""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.schemas import BRONZE, conform
from fleetgauge.fleet.source.bronze import select_pushes
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.offsets import Span, client_options, find_spans
from fleetgauge.fleet.source.topic.records import to_bronze
from fleetgauge.fleet.source.topic.source import TopicSource

_MAX_PARTITION_FETCH_BYTES: Final = 17 * 1024 * 1024  # the largest push, 16 MiB, with its headers
_MAX_RECORDS_PER_TASK: Final = 250_000


def read_topic(spark: SparkSession, source: TopicSource, selection: Selection | None = None) -> DataFrame:
    """The push records on a topic -> BRONZE: one row a record that was there when this was called.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or nothing is on it.
        JarError: the session was started without the connector's jars.
    """
    selection = selection or Selection()
    options = client_options(spark, source)
    spans = find_spans(spark, source, options, selection)
    records = spark.read.format("kafka").options(**reader_options(spark, source, options, spans)).load()
    return conform(select_pushes(to_bronze(records), selection), BRONZE)


def reader_options(
    spark: SparkSession, source: TopicSource, options: dict[str, str], spans: dict[int, Span]
) -> dict[str, str]:
    """What Spark's connector is told: these spans, and no more tasks or bytes at once than an executor can bear."""
    return {
        "assign": json.dumps({source.topic: sorted(spans)}),
        "startingOffsets": json.dumps({source.topic: {str(number): span.start for number, span in spans.items()}}),
        "endingOffsets": json.dumps({source.topic: {str(number): span.end for number, span in spans.items()}}),
        **fetch_options(spark, options),
    }


def fetch_options(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """How Spark's connector reads records, whichever; `options` are settings of Kafka's client."""
    fetch = {"max.partition.fetch.bytes": str(_MAX_PARTITION_FETCH_BYTES)}
    return {
        "includeHeaders": "true",
        # Retention goes on while the topic is read: what it takes is not there to be read, and nothing is wrong.
        "failOnDataLoss": "false",
        "minPartitions": str(spark.sparkContext.defaultParallelism),
        "maxRecordsPerPartition": str(_MAX_RECORDS_PER_TASK),
        **{f"kafka.{name}": value for name, value in {**fetch, **options}.items()},
    }
