import itertools
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertSchemaEqual

from fleet.bronze import read_landing
from fleet.errors import SchemaError
from fleet.jobs import read_pushes
from fleet.schemas import CHECKED, COUNTED, DECODED, REJECTS, SENT_POINTS, conform
from fleet.selection import Selection
from fleet.silver import points as silver
from fleet.silver.pushes import check, drop_repeats, find_repeats, repeated_ids
from fleet.silver.rejects import rejects
from tests.spark.landing_zone import LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect


def checked(spark: SparkSession, zone: LandingZone) -> DataFrame:
    return check(read_landing(spark, str(zone.root)))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"push_id": None}, "push_id is null"),
        ({"push_id": "A" * 32}, "push_id is not 32 lower-case hex digits"),
        ({"client_instance_id": None}, "client_instance_id is null"),
        (
            {"client_instance_id": "Tm+1TLjmRReIm+FbmcCcIA"},
            "client_instance_id is not 22 characters of URL-safe base64",
        ),
        ({"received_at": None}, "received_at is null"),
        ({"metrics": None}, "metrics is null"),
        ({"schema_version": None}, "schema_version is null"),
        ({"schema_version": 2, "push_id": None}, "schema_version 2 is newer than 1"),
        ({}, None),
    ],
)
def test_a_bad_row_is_set_aside_with_its_reason(
    spark: SparkSession, zone: LandingZone, fields: dict[str, Any], reason: str | None
) -> None:
    zone.write([push() | fields])
    frame = checked(spark, zone)
    assertSchemaEqual(frame.schema, CHECKED)
    assert [row.reason for row in frame.collect()] == [reason]


def test_repeats_are_dropped_wherever_they_lie_and_bad_rows_are_not(spark: SparkSession, zone: LandingZone) -> None:
    one, two = push(client_id="one"), push(client_id="two")
    bad = push() | {"push_id": None}
    zone.write([one, one, two, bad, bad])
    zone.write([two, one], name="part-1", hour="13")
    frame, repeats = read_pushes(spark, str(zone.root), Selection())
    assert repeats == 3
    left = [(row.client_id, row.reason) for row in frame.orderBy("reason", "client_id").collect()]
    assert left == [("one", None), ("two", None), ("app-1", "push_id is null"), ("app-1", "push_id is null")]
    everything = checked(spark, zone)
    many = drop_repeats(everything, find_repeats(everything, repeated_ids(everything)))
    assert many.count() == frame.count()


def test_of_rows_of_one_push_that_differ_the_same_one_stays_wherever_they_lie(
    spark: SparkSession, tmp_path: Path
) -> None:
    row = push(client_id="one")
    others = [
        row | {"client_id": "two"},
        row | {"metrics": dialect.franz_go({1: 1.0})},
        row | {"push_interval_ms": None},
    ]
    left = []
    for number, rows in enumerate(itertools.permutations([row, *others])):
        zone = LandingZone(tmp_path / str(number))
        for place, each in enumerate(rows):
            zone.write([each], name=f"part-{place}")
        (found,) = read_pushes(spark, str(zone.root), Selection())[0].collect()
        left.append((found.client_id, found.push_interval_ms, bytes(found.metrics)))
        if number == 5:
            break
    assert len(set(left)) == 1


def test_without_repeats_no_payload_is_shuffled(spark: SparkSession, zone: LandingZone, capsys: Any) -> None:
    zone.write([push(dialect.franz_go({1: 1.0}))])
    frame, _ = read_pushes(spark, str(zone.root), Selection())
    silver.points(silver.decode(frame)).explain()
    assert "Exchange" not in capsys.readouterr().out


def test_with_few_repeats_no_payload_is_shuffled(spark: SparkSession, zone: LandingZone, capsys: Any) -> None:
    row = push(dialect.franz_go({1: 1.0}))
    zone.write([row, row])
    frame, repeats = read_pushes(spark, str(zone.root), Selection())
    frame.explain()
    plan = capsys.readouterr().out
    assert repeats == 1
    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan


def test_a_point_carries_its_push_the_original_and_the_normalised_columns(
    spark: SparkSession, zone: LandingZone
) -> None:
    row = push(dialect.java_consumer(["a.b"]), client_id="billing-1")
    zone.write([row])
    decoded = silver.decode(checked(spark, zone))
    assertSchemaEqual(decoded.schema, DECODED)
    points = silver.points(decoded)
    assertSchemaEqual(points.schema, SENT_POINTS)
    found = points.orderBy("point_index").collect()
    assert [(p.metric_name, p.topic, p.partition, p.twin, p.value) for p in found] == [
        (dialect.LAG, None, None, False, 30.0),
        (dialect.LAG, "a.b", 0, False, 10.0),
        (dialect.LAG, "a_b", 0, True, 10.0),
        (dialect.CONSUMER_AVG, None, None, False, None),
    ]
    last = found[-1]
    assert (last.node_id, last.coordinator, last.group_id, last.group_member_id) == (1, True, "billing", "m-1")
    assert last.attributes == {"node_id": "node-2147483646"}
    assert last.resource == {"group_id": "billing", "group_member_id": "m-1", "client_rack": "eu-1a"}
    assert {(p.push_id, p.client_id, p.client_instance_id) for p in found} == {
        (row["push_id"], "billing-1", row["client_instance_id"])
    }
    (received,) = points.select(F.unix_micros("received_at").alias("us")).distinct().collect()
    assert received.us == row["received_at"]


def test_a_distribution_keeps_what_it_holds_and_a_number_has_none(spark: SparkSession, zone: LandingZone) -> None:
    data = MetricsData.FromString(dialect.franz_go({1: 2.5}))
    metric = data.resource_metrics[0].scope_metrics[0].metrics.add(name="size")
    metric.histogram.data_points.add(count=3, sum=7.5, max=6.0, explicit_bounds=[1, 5], bucket_counts=[1, 1, 1])
    zone.write([push(data.SerializeToString())])
    number, histogram = silver.points(silver.decode(checked(spark, zone))).orderBy("point_index").collect()
    assert (number.value, number.distribution) == (2.5, None)
    assert (histogram["value"], histogram["count"], histogram["sum"]) == (None, 3, 7.5)
    found = histogram.distribution.asDict()
    assert {name: value for name, value in found.items() if value is not None} == {
        "max": 6.0,
        "bounds": [1.0, 5.0],
        "bucket_counts": [1, 1, 1],
    }


def test_a_malformed_payload_among_many_pushes_is_set_aside_alone(spark: SparkSession, zone: LandingZone) -> None:
    rows = [push(dialect.librdkafka_producer([(n % 3, 1.0 + n)]), client_id=f"c-{n}") for n in range(2500)]
    rows[1777]["metrics"] = dialect.MALFORMED
    zone.write(rows)
    decoded = silver.decode(checked(spark, zone)).cache()
    assert silver.points(decoded).count() == 2499 * 2
    (reject,) = rejects(decoded).collect()
    assertSchemaEqual(rejects(decoded).schema, REJECTS)
    assert (reject.client_id, reject.source_row) == ("c-1777", 1777)
    assert reject.reason.startswith("malformed OTLP MetricsData")
    assert Path(reject.source_file).name == "part-0.parquet"
    assert (bytes(reject.payload), str(reject.date)) == (dialect.MALFORMED, "2026-03-01")
    decoded.unpersist()


def test_pushes_are_counted_with_their_points_and_heartbeats(spark: SparkSession, zone: LandingZone) -> None:
    zone.write(
        [
            push(dialect.franz_go({1: 1.0, 2: 2.0}), client_id="a"),
            push(b"", client_id="b"),
            push(dialect.MALFORMED, client_id="c"),
        ]
    )
    counted = silver.count(checked(spark, zone))
    assertSchemaEqual(counted.schema, COUNTED)
    found = {row.client_id: (row.points, row.heartbeat, row.reason is None) for row in counted.collect()}
    assert found == {"a": (2, False, True), "b": (0, True, True), "c": (None, None, False)}


def test_conform_names_missing_columns(spark: SparkSession) -> None:
    with pytest.raises(SchemaError, match="columns are missing: received_at, cluster_id, client_instance_id"):
        conform(
            spark.createDataFrame([("x", "c")], "push_id string, client_id string").withColumns(
                {name: F.lit(None) for name in ("source_file", "source_row", "reason", "principal", "payload", "date")}
            ),
            REJECTS,
        )
