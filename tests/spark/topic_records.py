"""Records of a topic for tests, as Spark's connector gives them, made without a broker."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from spark.landing_zone import push

from fleetgauge.fleet.schemas import TOPIC_RECORDS
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.telemetry.push_record import PushRecord

Header = tuple[str, bytes | None]
APPENDED_AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] | None

    def without(self, name: str) -> "Record":
        return replace(self, headers=[header for header in self.headers or () if header[0] != name])

    def having(self, name: str, content: bytes | None) -> "Record":
        """With this header as the only one of its name."""
        changed = self.without(name)
        return replace(changed, headers=[*(changed.headers or ()), (name, content)])

    def also(self, name: str, content: bytes | None) -> "Record":
        """With this header behind those that are there."""
        return replace(self, headers=[*(self.headers or ()), (name, content)])


def good(**fields: object) -> Record:
    """What the sink itself puts on the topic for one ordinary push."""
    key, value, headers = encode_record(PushRecord(**push() | fields))
    return Record(
        key, value, [(name, content.encode() if isinstance(content, str) else content) for name, content in headers]
    )


def frame_of(spark: SparkSession, records: Iterable[Record]) -> DataFrame:
    """Offsets count from 0 in the order given, in partition 3 of the topic `pushes`."""
    rows = [
        (record.key, record.value, "pushes", 3, offset, APPENDED_AT, record.headers)
        for offset, record in enumerate(records)
    ]
    return spark.createDataFrame(rows, spark_schema(TOPIC_RECORDS))
