"""Which offsets of a topic to read, asked of its brokers with Kafka's own admin client in the driver's JVM.

They are fixed before Spark reads: a job that reads a topic twice reads the same records twice, and what is wrong with
the address, the topic or the rights to it is known, and said, within seconds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fleetgauge.fleet.errors import JarError, TopicError, first_line
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.source import TopicSource

API_TIMEOUT_MS: Final = 15_000
_REQUEST_TIMEOUT_MS: Final = 10_000
CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far a record's timestamp may lie before the time of receipt that the record holds: clocks differ."""

MAX_DELAY: Final = timedelta(hours=1)
"""How long after its receipt a push may come to the topic, behind later ones, and still be found with `--until`."""

_UNKNOWN_TOPIC: Final = "UnknownTopicOrPartitionException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets of one partition: `start` is the first, `end` the one after the last."""

    start: int
    end: int


def client_options(spark: SparkSession, source: TopicSource) -> dict[str, str]:
    """The settings of Kafka's client, under Kafka's names; its own telemetry is off, lest the reader feed the topic."""
    properties = _jvm(spark).java.util.Properties()
    properties.load(_jvm(spark).java.io.StringReader(source.properties))
    of_file = {str(name): str(properties.getProperty(name)) for name in properties.stringPropertyNames()}
    return {**of_file, **source.options, "bootstrap.servers": source.bootstrap_servers, "enable.metrics.push": "false"}


def find_spans(
    spark: SparkSession, source: TopicSource, options: Mapping[str, str], selection: Selection
) -> dict[int, Span]:
    """The span of each partition that holds what is selected.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or nothing is on it.
        JarError: the session was started without the connector's jars.
    """
    with _explained(source), _admin(spark, options) as admin:
        partitions, earliest, latest = _bounds(spark, admin, source.topic)
        if latest == earliest:
            raise TopicError(f"the topic {source.topic} on {source.bootstrap_servers} holds no push yet")
        specs = _jvm(spark).org.apache.kafka.clients.admin.OffsetSpec
        starts, ends = earliest, latest
        if selection.since is not None:
            moment = specs.forTimestamp(_milliseconds(selection.since - CLOCK_SKEW))
            starts = _known(_offsets(spark, admin, partitions, moment), latest)
        if selection.until is not None:
            moment = specs.forTimestamp(_milliseconds(selection.until + MAX_DELAY))
            ends = _known(_offsets(spark, admin, partitions, moment), latest)
    return {number: Span(start=min(starts[number], end), end=end) for number, end in ends.items()}


def find_bounds(spark: SparkSession, source: TopicSource, options: Mapping[str, str]) -> dict[int, Span]:
    """What each partition holds now.

    Raises:
        TopicError: no broker answers, there is no such topic, or it may not be read.
        JarError: the session was started without the connector's jars.
    """
    with _explained(source), _admin(spark, options) as admin:
        _, earliest, latest = _bounds(spark, admin, source.topic)
    return {number: Span(start=earliest[number], end=end) for number, end in latest.items()}


def _bounds(spark: SparkSession, admin: Any, topic: str) -> tuple[list[Any], dict[int, int], dict[int, int]]:
    """(partitions, their first offsets, the offsets after their last records)"""
    partitions = _partitions(spark, admin, topic)
    specs = _jvm(spark).org.apache.kafka.clients.admin.OffsetSpec
    latest = _offsets(spark, admin, partitions, specs.latest())
    return partitions, _offsets(spark, admin, partitions, specs.earliest()), latest


def _milliseconds(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))


def _known(found: dict[int, int], latest: dict[int, int]) -> dict[int, int]:
    """Kafka answers -1 where no record is as late: then all that was there counts."""
    return {number: min(offset, latest[number]) if offset >= 0 else latest[number] for number, offset in found.items()}


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


@contextmanager
def _admin(spark: SparkSession, options: Mapping[str, str]) -> Iterator[Any]:
    admin_class = _jvm(spark).org.apache.kafka.clients.admin.AdminClient
    if not isinstance(admin_class, JavaClass):
        raise JarError(
            "this Spark session was started without Spark's Kafka connector: give its jars in SessionSettings.jars"
        )
    settings = _jvm(spark).java.util.HashMap()
    defaults = {"default.api.timeout.ms": str(API_TIMEOUT_MS), "request.timeout.ms": str(_REQUEST_TIMEOUT_MS)}
    for name, value in {**defaults, **options}.items():
        settings.put(name, value)
    admin = admin_class.create(settings)
    try:
        yield admin
    finally:
        admin.close(_jvm(spark).java.time.Duration.ZERO)


def _partitions(spark: SparkSession, admin: Any, topic: str) -> list[Any]:
    names = _jvm(spark).java.util.ArrayList()
    names.add(topic)
    described = admin.describeTopics(names).allTopicNames().get().get(topic)
    make = _jvm(spark).org.apache.kafka.common.TopicPartition
    return [make(topic, partition.partition()) for partition in described.partitions()]


def _offsets(spark: SparkSession, admin: Any, partitions: list[Any], spec: Any) -> dict[int, int]:
    asked = _jvm(spark).java.util.HashMap()
    for partition in partitions:
        asked.put(partition, spec)
    found = admin.listOffsets(asked).all().get()
    return {int(partition.partition()): int(found.get(partition).offset()) for partition in partitions}


@contextmanager
def _explained(source: TopicSource) -> Iterator[None]:
    """Turns what Kafka's client throws into one sentence."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        kind = str(cause.getClass().getSimpleName())
        said = first_line(Exception(str(cause.getMessage() or kind)))
        raise TopicError(_sentence(source, kind, said)) from error


def _sentence(source: TopicSource, kind: str, said: str) -> str:
    where = source.bootstrap_servers
    if kind == _UNKNOWN_TOPIC:
        return f"there is no topic {source.topic} on {where}, or this client may not see it: name the push log's topic"
    if kind == "TimeoutException":
        return f"no Kafka broker answers at {where} as it should ({said}): are address and security settings right?"
    if kind.endswith("AuthorizationException"):
        return f"this client may not read {source.topic} on {where}: {said}"
    return f"cannot read {source.topic} on {where}: {said}"
