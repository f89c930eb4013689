"""Reads pushes from a landing zone or a topic into BRONZE."""

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.source.bronze import read_landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.read import read_topic
from fleetgauge.fleet.source.topic.source import Source, TopicSource, parse_source


def read_bronze(spark: SparkSession, source: Source, selection: Selection) -> DataFrame:
    """The pushes of a source -> BRONZE.

    Raises:
        FleetError: it cannot be read; the text says why.
    """
    parsed = parse_source(source) if isinstance(source, str) else source
    if isinstance(parsed, TopicSource):
        return read_topic(spark, parsed, selection)
    return read_landing(spark, parsed, selection)
