"""Reads a topic into BRONZE with Spark's Kafka connector, in batch."""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from fleetgauge.fleet.errors import JarError
from fleetgauge.fleet.schemas import BRONZE, conform
from fleetgauge.fleet.source.bronze import select_pushes
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.connector import CONNECTOR
from fleetgauge.fleet.source.topic.offsets import Span, client_options, find_spans
from fleetgauge.fleet.source.topic.records import to_bronze
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.spark.session import parallelism

_FETCH: Final = {"max.partition.fetch.bytes": str(17 * 1024 * 1024)}  # the largest push, 16 MiB, with its headers
_MAX_RECORDS_PER_TASK: Final = 250_000


def read_topic(spark: SparkSession, source: TopicSource, selection: Selection | None = None) -> DataFrame:
    """The push records on a topic -> BRONZE: one row a record that was there when this was called.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or nothing is on it.
        NotInstalledError: there is no confluent-kafka.
        JarError: the session has no connector.
    """
    selection = selection or Selection()
    options = client_options(source)
    spans = find_spans(source, options, selection)
    records = push_records(spark.read, reader_options(spark, source, options, spans))
    return conform(select_pushes(records, selection), BRONZE)


def push_records(reader: DataFrameReader | DataStreamReader, options: Mapping[str, str]) -> DataFrame:
    """The records that Spark's connector reads with these options -> BRONZE.

    Raises:
        JarError: the session has no connector.
    """
    try:
        return to_bronze(reader.format("kafka").options(**options).load())
    except AnalysisException as error:
        if error.getMessageParameters() != {"provider": "kafka"}:
            raise
        raise JarError(
            "this Spark session has no Kafka connector: start it, or its Spark Connect server, with the option "
            f"spark.jars.packages={CONNECTOR.coordinates}, or with these jars"
        ) from error


def reader_options(
    spark: SparkSession, source: TopicSource, options: Mapping[str, str], spans: Mapping[int, Span]
) -> dict[str, str]:
    """Options of Spark's connector: these spans, and limits on tasks and bytes that an executor can handle."""
    return {
        "assign": json.dumps({source.topic: sorted(spans)}),
        "startingOffsets": json.dumps({source.topic: {str(number): span.start for number, span in spans.items()}}),
        "endingOffsets": json.dumps({source.topic: {str(number): span.end for number, span in spans.items()}}),
        **fetch_options(spark, options),
    }


def fetch_options(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Options with which Spark's connector reads any records; `options` are settings of Kafka's client."""
    return {
        "includeHeaders": "true",
        # Retention goes on while the topic is read: what it takes is not there to be read, and nothing is wrong.
        "failOnDataLoss": "false",
        "minPartitions": str(parallelism(spark)),
        "maxRecordsPerPartition": str(_MAX_RECORDS_PER_TASK),
        **{f"kafka.{name}": value for name, value in {**_FETCH, **options}.items()},
    }
