from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from fleet.jobs import answer_inventory, answer_latency, answer_points, answer_rejects
from fleet.schemas import INVENTORY, LATENCY_OVERALL
from fleet.selection import Selection
from tests.spark.landing_zone import NOON_US, ONE_INSTANCE, OTHER_INSTANCE, LandingZone, push
from tests.unit.fleet import dialect_payloads as dialect

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND_US = 1_000_000


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_inventory_has_one_row_a_client_instance(spark: SparkSession, zone: LandingZone) -> None:
    first = push(dialect.java_producer({"node-1": 1.0}), client_source_port=1)
    zone.write([first, push(client_id="rd", client_instance_id=OTHER_INSTANCE, received_at=NOON_US + SECOND_US)])
    later = {"receiver_node_id": 2, "client_source_port": 2, "client_software_version": "4.4.1"}
    zone.write([first, push(received_at=NOON_US + 9 * SECOND_US, terminating=True) | later], name="part-1")
    answer = answer_inventory(spark, str(zone.root), Selection())
    user = ("c", "User:ANONYMOUS")
    expected = spark.createDataFrame(
        [
            (
                *user,
                ONE_INSTANCE,
                "app-1",
                "apache-kafka-java",
                "4.4.1",
                "10.0.0.1",
                2,
                [1, 2],
                2,
                1,
                3,
                NOON,
                at(9),
                True,
                *(None, "producer", 1000, None),
            ),
            (
                *user,
                OTHER_INSTANCE,
                "rd",
                "apache-kafka-java",
                "4.4.0",
                "10.0.0.1",
                40001,
                [1],
                1,
                1,
                0,
                at(1),
                at(1),
                False,
                *(None, None, 1000, None),
            ),
        ],
        INVENTORY,
    )
    assertDataFrameEqual(answer.frame, expected)
    assert answer.repeats == 1
    assert answer.rejects.total == 0


def test_one_id_under_two_principals_or_in_two_clusters_is_two_instances(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(principal="User:a"), push(principal="User:b"), push(principal="User:b", cluster_id=None)])
    rows = answer_inventory(spark, str(zone.root), Selection()).frame.collect()
    assert sorted((row.cluster_id, row.principal) for row in rows) == [("", "User:b"), ("c", "User:a"), ("c", "User:b")]


def test_latency_keeps_links_to_the_same_broker_id_in_two_clusters_apart(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(dialect.franz_go({1: value}), cluster_id=name) for name, value in (("a", 2.0), ("b", 8.0))])
    rows = answer_latency(spark, str(zone.root), Selection()).frame.collect()
    assert sorted((row.cluster_id, row.node_id, row.latency_avg_ms) for row in rows) == [("a", 1, 2.0), ("b", 1, 8.0)]


def test_a_client_that_pushes_after_its_terminating_push_is_not_terminated(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(received_at=NOON_US + 1), push(terminating=True)])
    (row,) = answer_inventory(spark, str(zone.root), Selection()).frame.collect()
    assert row.terminated is False


def test_latency_is_by_client_role_and_link_over_all_dialects(spark: SparkSession, zone: LandingZone) -> None:
    rd = {"client_instance_id": OTHER_INSTANCE, "client_id": "rd"}
    repeated = push(dialect.java_producer({"node-1": 4.0, "node-+1": 9.0, "node--1": float("nan")}))
    zone.write(
        [
            repeated,
            repeated,
            push(dialect.java_producer({"node-1": 6.0, "node--2": float("inf")})),
            push(dialect.librdkafka_producer([(1, 2.5), (2, 0.0), (-1, 3.0), (-1, 5.0)]), **rd),
            push(dialect.franz_go({1: 7.0}), **rd),
        ]
    )
    answer = answer_latency(spark, str(zone.root), Selection())
    java = ("c", "User:ANONYMOUS", ONE_INSTANCE, "app-1", "apache-kafka-java", "4.4.0", "producer")
    other = ("c", "User:ANONYMOUS", OTHER_INSTANCE, "rd", "apache-kafka-java", "4.4.0")
    unknown = (None, None, None, False)
    expected = spark.createDataFrame(
        [
            (*java, 1, False, 5.0, 12.0, 2, *unknown),
            (*java, 1, True, 9.0, 18.0, 1, *unknown),
            (*other, "producer", 1, False, 2.5, 3.0, 1, *unknown),
            (*other, "producer", -1, False, 4.0, 5.0, 2, *unknown),
            (*other, "consumer", 1, False, 7.0, None, 1, *unknown),
        ],
        LATENCY_OVERALL,
    )
    assertDataFrameEqual(answer.frame, expected)


def test_points_of_one_metric_prefix_alone(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(dialect.java_consumer(["a.b"])), push(dialect.MALFORMED)])
    answer = answer_points(spark, str(zone.root), Selection(), "org.apache.kafka.consumer.fetch.")
    assert {row.metric_name for row in answer.frame.collect()} == {dialect.LAG}
    assert answer.rejects.total == 1


@pytest.mark.parametrize("repeats", [1, 2])
def test_rejects_are_counted_and_shown(spark: SparkSession, zone: LandingZone, repeats: int) -> None:
    zone.write([push(dialect.MALFORMED)] * repeats + [push() | {"client_instance_id": "?"}])
    answer = answer_rejects(spark, str(zone.root), Selection())
    assert sorted(row.reason[:9] for row in answer.frame.collect()) == ["client_in", "malformed"]
    assert answer.rejects.total == 2


def test_a_zone_of_nothing_but_rejects_has_no_clients_and_still_counts_them(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(dialect.MALFORMED), push() | {"push_id": None}])
    answer = answer_inventory(spark, str(zone.root), Selection())
    assert answer.frame.collect() == []
    assert answer.rejects.total == 2


def test_rejects_are_not_counted_again_when_a_frame_is_computed_again(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(dialect.MALFORMED), push()])
    answer = answer_latency(spark, str(zone.root), Selection())
    answer.frame.collect()
    answer.frame.collect()
    assert answer.rejects.total == 1
