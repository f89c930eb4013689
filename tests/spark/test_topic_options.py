"""What Spark's connector and Kafka's client are told, seen without a broker."""

import pytest
from pyspark.sql import SparkSession

from fleetgauge.fleet.errors import JarError
from fleetgauge.fleet.source.topic.offsets import Span, client_options
from fleetgauge.fleet.source.topic.read import push_records, reader_options
from fleetgauge.fleet.source.topic.source import TopicSource

SOURCE = TopicSource(bootstrap_servers="a:9092,b:9092", topic="pushes")


def test_the_readers_own_telemetry_stays_off_whatever_the_settings_say() -> None:
    source = TopicSource(
        bootstrap_servers="a:9092",
        topic="pushes",
        options={"enable.metrics.push": "true"},
        properties="enable.metrics.push=true\nbootstrap.servers=elsewhere:1",
    )
    assert client_options(source) == {"enable.metrics.push": "false", "bootstrap.servers": "a:9092"}


def test_an_option_goes_before_the_same_of_the_file_which_is_read_as_java_reads_it() -> None:
    source = TopicSource(
        bootstrap_servers="a:9092",
        topic="pushes",
        options={"client.id": "mine"},
        properties="# ours\nclient.id: theirs\nssl.truststore.location = /a\\\n   /b\n! and\nsasl.mechanism PLAIN\n",
    )
    found = client_options(source)
    assert found["client.id"] == "mine"
    assert (found["ssl.truststore.location"], found["sasl.mechanism"]) == ("/a/b", "PLAIN")


def test_spark_reads_just_the_spans_with_headers_and_room_for_the_largest_push(spark: SparkSession) -> None:
    spans = {0: Span(start=5, end=9), 2: Span(start=0, end=0)}
    found = reader_options(spark, SOURCE, client_options(SOURCE), spans)
    assert found["assign"] == '{"pushes": [0, 2]}'
    assert found["startingOffsets"] == '{"pushes": {"0": 5, "2": 0}}'
    assert found["endingOffsets"] == '{"pushes": {"0": 9, "2": 0}}'
    assert found["includeHeaders"] == "true"
    assert found["kafka.bootstrap.servers"] == "a:9092,b:9092"
    assert found["kafka.enable.metrics.push"] == "false"
    assert int(found["kafka.max.partition.fetch.bytes"]) > 16 * 1024 * 1024


def test_a_fetch_size_of_ones_own_is_taken(spark: SparkSession) -> None:
    options = {**client_options(SOURCE), "max.partition.fetch.bytes": "1000"}
    assert reader_options(spark, SOURCE, options, {})["kafka.max.partition.fetch.bytes"] == "1000"


def test_a_session_without_the_connector_says_what_it_lacks(spark: SparkSession) -> None:
    spans = {0: Span(start=0, end=1)}
    with pytest.raises(JarError, match="this Spark session has no Kafka connector: start it, or"):
        push_records(spark.read, reader_options(spark, SOURCE, client_options(SOURCE), spans))
