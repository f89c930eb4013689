"""Spark's Kafka connector: four jars beyond PySpark's own."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pyspark

from fleet.jars import Package, jars_of

CONNECTOR: Final = Package(
    what="Spark's Kafka connector",
    coordinates=f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    kept_as=f"spark-kafka-{pyspark.__version__}",
    option="--kafka-jars",
    names=("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"),
)


def connector_jars(
    own: Iterable[str] = (), *, cache: Path | None = None, note: Callable[[str], None] = lambda _: None
) -> tuple[str, ...]:
    """The connector's jars, for `SessionSettings.jars`; see `fleet.jars.jars_of`.

    Raises:
        JarError: a jar of one's own is not there, or Maven Central cannot be reached.
    """
    return jars_of(CONNECTOR, own, cache=cache, note=note)
