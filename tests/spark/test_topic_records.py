"""A topic's records become bronze, or are set aside; nothing that anyone puts on a topic fails a job."""

from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertSchemaEqual
from spark.landing_zone import NOON_US
from spark.topic_records import APPENDED_AT, Record, frame_of, good

from fleetgauge.fleet.schemas import BRONZE, CHECKED
from fleetgauge.fleet.silver.check import TIMES, checked
from fleetgauge.fleet.source.topic.records import HEADER_FIELDS, MAX_HEADER_BYTES, to_bronze
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.push_log.kafka_topic import record_codec
from fleetgauge.push_log.kafka_topic.record_codec import MalformedRecordError, decode_record
from fleetgauge.telemetry.push_record import PushRecord

LARGEST = 2**63 - 1
LAST_US = int(TIMES[1].timestamp()) * 1_000_000
UNKNOWN = ("client_source_port", "subscription_id", "push_interval_ms", "compression_type", "payload_bytes")

BAD: dict[str, tuple[Record, str]] = {
    "foreign": (Record(b"order-1", b"{}", None), "there is no header schema_version"),
    "tombstone": (replace(good(), value=None), "the record has no value (a heartbeat's is empty)"),
    "compacted": (Record(good().key, None, None), "there is no header schema_version"),
    "no key": (replace(good(), key=None), "the record has no key"),
    "bad key": (replace(good(), key=b"app-1"), "the key is 'app-1', expected a client instance id of 22 characters"),
    "standard base64": (
        replace(good(), key=b"Tm+1TLjmRReIm+FbmcCcIA"),
        "the key is 'Tm+1TLjmRReIm+FbmcCcIA', expected a client instance id of 22 characters",
    ),
    "stray bits": (
        replace(good(), key=b"Tm-1TLjmRReIm-FbmcCcIB"),
        "the key is 'Tm-1TLjmRReIm-FbmcCcIB', expected a client instance id of 22 characters",
    ),
    "long key": (
        replace(good(), key=good().key + b"\n"),  # type: ignore[operator]
        "the key is 'Tm-1TLjmRReIm-FbmcCcIA?', expected a client instance id of 22 characters",
    ),
    "binary key": (
        replace(good(), key=b"\xff\x1b[31m" + b"\x00" * 100),
        "the key is '??[31m" + "?" * 34 + "', expected a client instance id of 22 characters",
    ),
    "newer": (good().having("schema_version", b"2").without("push_id"), "schema_version 2 is newer than 1"),
    "version": (
        good().having("schema_version", b"1.0"),
        "header schema_version is '1.0', expected a number from 1 to 2147483647",
    ),
    "null header": (good().having("push_id", None), "there is no header push_id"),
    "nulled header": (good().also("terminating", None), "there is no header terminating"),
    "push id": (
        good().having("push_id", b"A" * 32),
        f"header push_id is '{'A' * 32}', expected 32 lower-case hex digits",
    ),
    "push id line": (
        good().having("push_id", b"a" * 32 + b"\n"),
        f"header push_id is '{'a' * 32}?', expected 32 lower-case hex digits",
    ),
    "boolean": (good().having("terminating", b"True"), "header terminating is 'True', expected true or false"),
    "codec": (
        good().having("compression_type", b"brotli"),
        "header compression_type is 'brotli', expected the name of a compression type",
    ),
    "port": (
        good().having("client_source_port", b"65536"),
        "header client_source_port is '65536', expected a number from 0 to 65535",
    ),
    "blank": (
        good().having("receiver_node_id", b" 1"),
        "header receiver_node_id is ' 1', expected a number from -1 to 2147483647",
    ),
    "empty": (
        good().having("payload_bytes", b""),
        "header payload_bytes is '', expected a number from 0 to 2147483647",
    ),
    "too large": (
        good().having("received_at", b"9223372036854775808"),
        f"header received_at is '9223372036854775808', expected a number from 0 to {LARGEST}",
    ),
    "other digits": (
        good().having("push_interval_ms", "\u0661".encode()),
        "header push_interval_ms is '?', expected a number from 0 to 2147483647",
    ),
    "no utf-8": (good().having("client_id", b"caf\xe9"), "header client_id is not UTF-8"),
    "surrogate": (good().having("principal", b"\xed\xa0\x80"), "header principal is not UTF-8"),
    "long header": (
        good().having("client_id", b"x" * (MAX_HEADER_BYTES + 1)),
        f"header client_id has {MAX_HEADER_BYTES + 1} B, and {MAX_HEADER_BYTES} B are allowed",
    ),
    **{
        f"without {name}": (good().without(name), f"there is no header {name}")
        for name in HEADER_FIELDS
        if name not in UNKNOWN
    },
}

GOOD: dict[str, Record] = {
    "ordinary": good(client_id="app \u00fc\u4e2d\U0001f600"),
    "of the plugin": good(**dict.fromkeys(UNKNOWN)),
    "extremes": good(
        received_at=LAST_US,
        receiver_node_id=-1,
        subscription_id=-(2**31),
        client_source_port=0,
        client_id="",
        push_interval_ms=2**31 - 1,
        terminating=True,
        payload_bytes=2**31 - 1,
        push_id="0" * 32,
    ),
    "repeated header": good().also("client_id", b"last"),
    "foreign headers": good().also("traceparent", b"\xff\x00").also("", None),
    "longest header": good(client_id="x" * MAX_HEADER_BYTES),
    "odd zero": good().having("client_source_port", b"-0").having("payload_bytes", b"000"),
    "nulled optional": good().also("subscription_id", None),
}


def check(bronze: DataFrame) -> DataFrame:
    return bronze.mapInArrow(checked, spark_schema(CHECKED))


def reasons(spark: SparkSession, records: list[Record]) -> list[str | None]:
    rows = check(to_bronze(frame_of(spark, records))).orderBy("source_row").select("reason").collect()
    return [row.reason for row in rows]


def test_what_is_no_push_record_is_set_aside_with_its_reason(spark: SparkSession) -> None:
    found = reasons(spark, [record for record, _ in BAD.values()])
    assert dict(zip(BAD, found, strict=True)) == {name: reason for name, (_, reason) in BAD.items()}


def test_a_time_that_cannot_be_is_read_and_then_set_aside(spark: SparkSession) -> None:
    """The exporters hand it on; a day of its own would drown the tables."""
    assert reasons(spark, [good(received_at=us) for us in (LAST_US, LAST_US + 1, 0, LARGEST)]) == [
        None,
        *["received_at is not between the years 2000 and 2200"] * 3,
    ]


def test_spark_and_the_exporters_take_the_same_records_and_read_the_same_from_them(spark: SparkSession) -> None:
    cases = {name: record for name, (record, _) in BAD.items()} | GOOD
    frame = check(to_bronze(frame_of(spark, cases.values()))).orderBy("source_row")
    rows = frame.withColumn("received_at", F.unix_micros("received_at")).collect()
    found = {name: None if row.reason else as_record(row) for name, row in zip(cases, rows, strict=True)}
    assert found == {name: read_by_exporters(record) for name, record in cases.items()}
    assert all(found[name] is not None for name in GOOD)


def as_record(row: Row) -> PushRecord:
    fields = {name: row[name] for name in PushRecord._fields}
    return PushRecord(**fields | {"metrics": bytes(row.metrics)})


def read_by_exporters(record: Record) -> PushRecord | None:
    try:
        return decode_record(record.key, record.value, record.headers)
    except MalformedRecordError:
        return None


def test_the_forms_of_both_readers_have_the_same_headers_and_bounds() -> None:
    assert HEADER_FIELDS == record_codec.HEADER_FIELDS
    assert MAX_HEADER_BYTES == record_codec.MAX_HEADER_BYTES


def test_a_row_says_at_which_offset_of_which_partition_it_lies(spark: SparkSession) -> None:
    bronze = to_bronze(frame_of(spark, [good(), BAD["foreign"][0]]))
    assertSchemaEqual(bronze.schema, spark_schema(BRONZE))
    rows = bronze.orderBy("source_row").collect()
    assert [(row.source_file, row.source_row) for row in rows] == [("pushes-3", 0), ("pushes-3", 1)]


def test_a_bad_record_keeps_what_can_be_read_and_has_the_time_at_which_it_was_appended(spark: SparkSession) -> None:
    garbled = good(client_id="billing").having("terminating", b"?").having("push_id", b"\xff").without("received_at")
    late = good(received_at=NOON_US).having("listener", b"\xff")
    first, second = to_bronze(frame_of(spark, [garbled, late])).orderBy("source_row").collect()
    assert (first.client_id, first.terminating, first.push_id) == ("billing", None, None)
    assert first.received_at == naive(APPENDED_AT)
    assert (second.received_at, second.listener) == (
        naive(datetime.fromtimestamp(NOON_US / 1e6, APPENDED_AT.tzinfo)),
        None,
    )


def naive(moment: datetime) -> datetime:
    """As PySpark gives a timestamp: in the local time zone, without saying so."""
    return moment.astimezone().replace(tzinfo=None)


def test_no_filter_evaluates_the_reading_of_the_headers_once_more(spark: SparkSession) -> None:
    filtered = to_bronze(frame_of(spark, [good()])).where("fault is null and client_id = 'app-1'")
    plan = filtered._jdf.queryExecution().optimizedPlan().toString()
    assert "Filter" in plan
    assert "Filter" not in plan.partition("header_values")[2]
    assert "header_values" not in next(line for line in plan.splitlines() if "Filter" in line)
