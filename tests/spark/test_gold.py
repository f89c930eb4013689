from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark.both_engines import ask
from spark.landing_zone import NOON_US, ONE_INSTANCE, OTHER_INSTANCE, LandingZone, push
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import question
from fleetgauge.fleet.source.selection import Selection

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND_US = 1_000_000


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_inventory_has_one_row_a_client_instance(spark: SparkSession, zone: LandingZone) -> None:
    first = push(dialect.java_producer({"node-1": 1.0}), client_source_port=1)
    zone.write([first, push(client_id="rd", client_instance_id=OTHER_INSTANCE, received_at=NOON_US + SECOND_US)])
    later = {"receiver_node_id": 2, "client_source_port": 2, "client_software_version": "4.4.1"}
    zone.write([first, push(received_at=NOON_US + 9 * SECOND_US, terminating=True) | later], name="part-1")
    answer = ask(spark, zone, "inventory")
    user = ("c", "User:ANONYMOUS")
    expected = [
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
    ]
    assert sorted((tuple(row.values()) for row in answer.rows), key=repr) == sorted(expected, key=repr)
    assert answer.repeats == 1
    assert answer.rejects == 0


def test_one_id_under_two_principals_or_in_two_clusters_is_two_instances(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(principal="User:a"), push(principal="User:b"), push(principal="User:b", cluster_id=None)])
    rows = ask(spark, zone, "inventory").rows
    assert sorted((row["cluster_id"], row["principal"]) for row in rows) == [
        ("", "User:b"),
        ("c", "User:a"),
        ("c", "User:b"),
    ]


def test_latency_keeps_links_to_the_same_broker_id_in_two_clusters_apart(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(dialect.franz_go({1: value}), cluster_id=name) for name, value in (("a", 2.0), ("b", 8.0))])
    rows = ask(spark, zone, "latency").rows
    assert sorted((row["cluster_id"], row["node_id"], row["latency_avg_ms"]) for row in rows) == [
        ("a", 1, 2.0),
        ("b", 1, 8.0),
    ]


def test_a_client_that_pushes_after_its_terminating_push_is_not_terminated(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(received_at=NOON_US + 1), push(terminating=True)])
    (row,) = ask(spark, zone, "inventory").rows
    assert row["terminated"] is False


def test_latency_is_by_client_role_and_link_over_all_dialects(spark: SparkSession, zone: LandingZone) -> None:
    rd: dict[str, Any] = {"client_instance_id": OTHER_INSTANCE, "client_id": "rd"}
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
    answer = ask(spark, zone, "latency")
    java = ("c", "User:ANONYMOUS", ONE_INSTANCE, "app-1", "apache-kafka-java", "4.4.0", "producer")
    other = ("c", "User:ANONYMOUS", OTHER_INSTANCE, "rd", "apache-kafka-java", "4.4.0")
    unknown = (None, None, None, False)
    expected = [
        (*java, 1, False, 5.0, 12.0, 2, *unknown),
        (*java, 1, True, 9.0, 18.0, 1, *unknown),
        (*other, "producer", 1, False, 2.5, 3.0, 1, *unknown),
        (*other, "producer", -1, False, 4.0, 5.0, 2, *unknown),
        (*other, "consumer", 1, False, 7.0, None, 1, *unknown),
    ]
    assert sorted((tuple(row.values()) for row in answer.rows), key=repr) == sorted(expected, key=repr)


def test_points_of_one_metric_prefix_alone(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(dialect.java_consumer(["a.b"])), push(dialect.MALFORMED)])
    answer = ask(spark, zone, "points", metric_prefix="org.apache.kafka.consumer.fetch.")
    assert {row["metric_name"] for row in answer.rows} == {dialect.LAG}
    assert answer.rejects == 1


@pytest.mark.parametrize("repeats", [1, 2])
def test_rejects_are_counted_and_shown(spark: SparkSession, zone: LandingZone, repeats: int) -> None:
    zone.write([push(dialect.MALFORMED)] * repeats + [push() | {"client_instance_id": "?"}])
    answer = ask(spark, zone, "rejects")
    assert sorted(row["reason"][:9] for row in answer.rows) == ["client_in", *["malformed"] * repeats]
    assert (answer.rejects, answer.repeats) == (1 + repeats, 0)


def test_a_zone_of_nothing_but_rejects_has_no_clients_and_still_counts_them(
    spark: SparkSession, zone: LandingZone
) -> None:
    zone.write([push(dialect.MALFORMED), push() | {"push_id": None}])
    answer = ask(spark, zone, "inventory")
    assert answer.rows == []
    assert answer.rejects == 2


def test_rejects_are_not_counted_again_when_a_frame_is_computed_again(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(dialect.MALFORMED), push()])
    answer = jobs.answer(spark, question("latency"), str(zone.root), Selection())
    answer.frame.collect()
    answer.frame.collect()
    assert answer.rejects == 1


RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("name", ["inventory", "latency", "points", "rejects"])
@pytest.mark.parametrize("zone_of", ["broker", "serve", "sleeping"])
def test_both_engines_answer_the_same_of_real_pushes(spark: SparkSession, zone_of: str, name: str) -> None:
    found = ask(spark, str(RECORDED / zone_of), name)
    assert bool(found.rows) == (name != "rejects")


@pytest.mark.parametrize("name", ["inventory", "latency", "points", "rejects"])
def test_both_engines_select_check_and_drop_repeats_alike(spark: SparkSession, zone: LandingZone, name: str) -> None:
    payloads = [dialect.java_consumer(["a.b"]), dialect.librdkafka_producer([(1, 2.5)]), b"", dialect.MALFORMED]
    rows = [
        push(payload, client_id=f"c-{number}", received_at=NOON_US + number * SECOND_US)
        for number, payload in enumerate(payloads * 3)
    ]
    one = push(payloads[0], received_at=NOON_US + 5 * SECOND_US)
    differing = [one, one | {"client_id": "other"}, one | {"metrics": payloads[1]}, one | {"push_interval_ms": None}]
    bad = [push() | {"push_id": None}, push() | {"schema_version": 2}, push() | {"metrics": None}]
    zone.write([*rows, *differing, *bad], name="a b+%=part")
    zone.write([*rows[::-1], *differing[::-1]], name="part-1")
    zone.write([push(client_id="hidden")], name="_unfinished")
    selection = Selection(since=at(2), until=at(9), client_ids=["app-1", "other", *(f"c-{n}" for n in range(8))])
    for chosen in (Selection(), selection, Selection(since=at(86_400 * 2)), Selection(instance_ids=[ONE_INSTANCE])):
        ask(spark, zone, name, chosen)
    found = ask(spark, zone, name)
    assert (found.repeats, found.rejects) == (9 + 7, 2 * 3 + 3)
