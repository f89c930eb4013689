"""The tables of pushes that real clients sent to a real broker (`recorded/`)."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.consumers import consumers
from fleet.gold.inventory import inventory
from fleet.gold.latency import latency
from fleet.gold.metrics import metrics
from fleet.gold.rebalances import rebalances
from fleet.gold.throttling import throttling
from fleet.gold.versions import versions
from fleet.jobs import answer_latency, read_pushes
from fleet.report.output import take_first
from fleet.report.tables import latency_table
from fleet.schemas import CONSUMERS, LATENCY, REBALANCES, THROTTLING
from fleet.selection import Selection
from fleet.silver import batch as silver
from fleet.silver.clients import clients
from fleet.silver.points import count
from fleet.silver.pushes import pushes as silver_pushes
from fleet.tables.catalog import SERIES

RECORDED = Path(__file__).parent / "recorded"
AN_HOUR_LATER = datetime(2026, 11, 21, 23, 46, tzinfo=UTC)
JAVA_CONSUMERS = {"java-3.7.2-consumer", "java-4.4.0-consumer"}
GROUPS = {"java-3.7.2-consumer": "java-3.7.2-group", "java-4.4.0-consumer": "java-4.4.0-group"}
MARKS = ("push_id", "point_index", "delta", "reset", "gap", "before_subscription", "covers_gap")


class Recorded(NamedTuple):
    """CHECKED, PUSHES, POINTS and SERIES of one run."""

    checked: DataFrame
    pushes: DataFrame
    points: DataFrame
    series: DataFrame


@pytest.fixture(scope="module")
def recorded(spark: SparkSession) -> Iterator[Recorded]:
    checked, repeats = read_pushes(spark, str(RECORDED / "broker"), Selection())
    assert repeats == 0
    packed = silver.make(checked).cache()
    pushes = silver_pushes(silver.unpack(packed, "counted")).cache()
    points, series = silver.unpack(packed, "marked").cache(), silver.unpack(packed, "series")
    yield Recorded(checked, pushes, points, series)
    for frame in (points, pushes, packed):
        frame.unpersist()


@pytest.fixture(scope="module")
def points(recorded: Recorded) -> DataFrame:
    return recorded.points


def by_client(frame: DataFrame) -> dict[str, Any]:
    rows = frame.collect()
    found = {row.client_id: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_push_has_its_points_and_every_client_is_known(recorded: Recorded) -> None:
    pushes = recorded.pushes
    assert (pushes.count(), pushes.agg(F.sum("points")).first()[0]) == (143, recorded.points.count())  # type: ignore[index]
    found = by_client(clients(pushes, None, AN_HOUR_LATER))
    assert {name: (row.dialect, row.group_id, row.state) for name, row in found.items()} == {
        "java-3.7.2-producer": ("java", None, "ended"),
        "java-3.7.2-consumer": ("java", "java-3.7.2-group", "ended"),
        "java-4.4.0-producer": ("java", None, "ended"),
        "java-4.4.0-consumer": ("java", "java-4.4.0-group", "ended"),
        "rdkafka-producer": ("librdkafka", None, "ended"),
        "rdkafka-consumer": ("librdkafka", "rdkafka", "ended"),
        "franz-go-1.22.2": ("franz-go", None, "ended"),
    }
    member = found["java-4.4.0-consumer"].group_member_id
    assert member.startswith("java-4.4.0-consumer-")
    assert {row.instances for row in versions(clients(pushes, None, AN_HOUR_LATER)).collect()} == {1, 2}


def test_clients_seen_in_several_runs_are_those_of_one(recorded: Recorded) -> None:
    pushes = recorded.pushes
    at_once = clients(pushes, None, AN_HOUR_LATER)
    is_early = F.col("push_id") < "000660d11dd00000"
    first, rest = pushes.where(is_early), pushes.where(~is_early)
    before = clients(first, None, AN_HOUR_LATER)
    states = {(row.role, row.state) for row in before.where("dialect = 'java'").collect()}
    assert states == {("producer", "gone"), ("consumer", "silent")}
    again = clients(rest, clients(first, before, AN_HOUR_LATER), AN_HOUR_LATER)
    assert sorted(again.collect()) == sorted(at_once.collect())


def test_only_the_first_delta_reaches_back_and_the_lost_push_is_a_gap(points: DataFrame) -> None:
    total = points.where("metric_name like 'org.apache.kafka.%.request.total' and client_id like 'java-%'")
    requests = total.where("topic is null and metric_name not like '%node%'").orderBy("push_id").collect()
    for client in ("java-3.7.2-producer", "java-3.7.2-consumer", "java-4.4.0-producer", "java-4.4.0-consumer"):
        rows = [row for row in requests if row.client_id == client]
        assert [row.before_subscription for row in rows] == [True] + [False] * (len(rows) - 1), client
        assert [row.gap for row in rows].count(True) == 1, "the subscription changed once"
        assert {row.delta == row.value for row in rows} == {True}
        assert {row.covers_gap or row.reset for row in rows} == {False}


def test_deltas_are_the_same_whatever_the_runs_boundaries(recorded: Recorded) -> None:
    at_once = {tuple(row) for row in recorded.points.select(*MARKS).collect()}
    ids = sorted(row.push_id for row in recorded.pushes.select("push_id").collect())
    remembered: DataFrame | None = None
    found = set()
    for begin, end in itertools.pairwise([ids[0], ids[1], ids[30], ids[31], ids[100], "g"]):
        run = recorded.checked.where((F.col("push_id") >= begin) & (F.col("push_id") < end))
        packed = silver.make(run, remembered).cache()
        found |= {tuple(row) for row in silver.unpack(packed, "marked").select(*MARKS).collect()}
        series = silver.unpack(packed, "series")
        if remembered is not None:
            series = series.unionByName(remembered.join(series, list(SERIES.key), "left_anti"))
        remembered = series.localCheckpoint()
        packed.unpersist()
    assert found == at_once
    assert remembered is not None
    assert sorted(remembered.collect()) == sorted(recorded.series.collect())


def test_latency_has_all_clients_with_unit_and_meaning(points: DataFrame) -> None:
    found = latency(points, 60)
    assert found.schema.names == LATENCY.names
    rows = found.collect()
    by_node = {row.client_id for row in rows if row.node_id == 1}
    # Java consumers before 4 have the metric, and never record anything.
    assert by_node == {
        "java-3.7.2-producer",
        "java-4.4.0-producer",
        "java-4.4.0-consumer",
        "rdkafka-producer",
        "rdkafka-consumer",
    }
    assert {row.unit for row in rows} == {"ms"}
    assert {row.meaning for row in rows if row.metric.endswith("record.queue.time")} == {
        "time that a batch waits in the buffer before it is sent"
    }


def test_a_coordinators_link_is_a_link_to_its_broker_in_every_version(points: DataFrame) -> None:
    links = points.where("coordinator").select("client_id", "node_id", "attributes").collect()
    assert {(row.client_id, row.node_id, row.attributes["node_id"]) for row in links} == {
        ("java-3.7.2-consumer", 1, "node-2147483646"),
        ("java-4.4.0-consumer", 1, "node-+1"),
    }


def test_throttling_is_known_of_those_who_measure_it_alone(points: DataFrame) -> None:
    rows = throttling(points, 3600).collect()
    assert rows[0].__fields__ == THROTTLING.names
    kinds = {(row.client_id, row.request): row.throttled for row in rows}
    assert set(kinds) == {
        ("java-3.7.2-producer", "produce"),
        ("java-4.4.0-producer", "produce"),
        ("rdkafka-producer", "produce"),
        ("java-3.7.2-consumer", "fetch"),
        ("java-4.4.0-consumer", "fetch"),
    }
    assert set(kinds.values()) == {0}


def test_rebalances_are_counted_where_the_library_counts_them(points: DataFrame) -> None:
    found = by_client(rebalances(points, 3600))
    assert list(next(iter(found.values())).__fields__) == REBALANCES.names
    assert {name: row.rebalances for name, row in found.items()} == {
        "java-3.7.2-consumer": 1.0,  # joined after its first push
        "java-4.4.0-consumer": 0.0,  # before it
        "rdkafka-consumer": None,
    }
    assert "rebalances" in found["rdkafka-consumer"].unknown
    assert found["java-3.7.2-consumer"].unknown == []
    assert found["java-3.7.2-consumer"].rebalance_latency_total_ms == 1438.0
    assert found["java-3.7.2-consumer"].assigned_partitions == 2.0
    assert {row.gap for row in found.values()} == {True}
    assert {name: found[name].group_id for name in JAVA_CONSUMERS} == GROUPS


def test_a_consumers_lag_is_that_of_its_partitions_once(points: DataFrame) -> None:
    found = by_client(consumers(points, 3600))
    assert list(next(iter(found.values())).__fields__) == CONSUMERS.names
    rdkafka = found["rdkafka-consumer"]
    assert (rdkafka.lag_records, rdkafka.records_consumed) == (None, None)
    assert {"lag_records", "lag_max_records", "records_consumed", "last_poll_seconds_ago"} <= set(rdkafka.unknown)
    assert 0 < rdkafka.poll_idle_ratio_avg <= 1
    lag = "org.apache.kafka.consumer.fetch.manager.records.lag"
    for name in JAVA_CONSUMERS:
        sent = points.where((F.col("client_id") == name) & (F.col("metric_name") == lag)).where("partition is not null")
        by_push: dict[str, dict[int, float]] = {}
        for row in sent.collect():
            by_push.setdefault(row.push_id, {})[row.partition] = row.value or 0.0
        sums = [sum(lags.values()) for _, lags in sorted(by_push.items())]
        assert (found[name].lag_records, found[name].lag_max_records) == (sums[-1], max(sums))
        assert found[name].unknown == []
        assert found[name].records_consumed > 0


def test_every_metric_of_a_java_client_is_in_the_metrics_table_but_those_that_kafka_4_removed(
    spark: SparkSession, points: DataFrame
) -> None:
    """So that each has a unit and a meaning; new ones of a newer client would be missing here first."""
    names = points.where("dialect = 'java'").select("metric_name").distinct()
    missing = names.join(metrics(spark), "metric_name", "left_anti").collect()
    assert {row.metric_name.removeprefix("org.apache.kafka.") for row in missing} == {
        "consumer.io.waittime.total",
        "consumer.iotime.total",
        "producer.bufferpool.wait.time.total",
        "producer.io.waittime.total",
        "producer.iotime.total",
    }


def test_a_quiet_client_is_silent_only_where_its_kind_says_when_it_ends(spark: SparkSession) -> None:
    """The Java clients were closed without a terminating push, as a producer and an admin client always may be."""
    checked, _ = read_pushes(spark, str(RECORDED / "serve"), Selection())
    pushes = silver_pushes(count(checked))
    expected = {
        "java-4.4.0-producer": ("producer", "gone"),
        "java-4.4.0-admin": ("admin", "gone"),
        "java-4.4.0-consumer": ("consumer", "silent"),
        "librdkafka-newest-producer": ("producer", "ended"),
        "librdkafka-newest-consumer": ("consumer", "ended"),
        "franz-go-1.22.2": ("producer", "ended"),
    }
    for table in (inventory(pushes, AN_HOUR_LATER), clients(pushes, None, AN_HOUR_LATER)):
        assert {name: (row.role, row.state) for name, row in by_client(table).items()} == expected
    left = pushes.where("not terminating")
    of_others = {row.state for row in inventory(left, AN_HOUR_LATER).where("client_id not like 'java%'").collect()}
    assert of_others == {"silent"}
    assert {row.state for row in inventory(left).collect()} == {None}
    by_version = {row.client_software_name: row for row in versions(clients(pushes, None, AN_HOUR_LATER)).collect()}
    java = by_version["apache-kafka-java"]
    assert (java.instances, java.live, java.silent, java.gone, java.ended) == (3, 0, 1, 2, 0)


def test_a_franz_go_that_says_no_start_may_reach_back_and_an_admin_client_has_its_latency(spark: SparkSession) -> None:
    checked, _ = read_pushes(spark, str(RECORDED / "serve"), Selection())
    marked = silver.unpack(silver.make(checked), "marked").cache()
    (total,) = marked.where("dialect = 'franz-go' and metric_type = 'sum'").collect()
    assert (total.start_time_unix_nano, total.delta, total.before_subscription) == (None, 1.0, True)
    links = latency(marked, 3600).where("role = 'admin'").collect()
    assert [(row.client_id, row.node_id) for row in links] == [("java-4.4.0-admin", -1)]
    marked.unpersist()


def test_a_consumer_that_sleeps_between_polls_is_no_victim_of_its_broker(spark: SparkSession) -> None:
    """Its responses wait for the next poll(): 67 ms beside the 9 and 3 ms of the consumers beside it."""
    answer = answer_latency(spark, str(RECORDED / "sleeping"), Selection())
    rows, _ = take_first(answer.frame, latency_table(), 10)
    (slow,) = [row for row in rows if row["slow by"] != "-"]
    assert rows[-1] == slow, "behind those whose latency may be the broker's"
    assert (slow["client id"], slow["slow by"]) == ("sleeping", "consumer: does not poll")
    assert float(slow["avg ms"]) > 5 * max(float(row["avg ms"]) for row in rows if row != slow)
    assert 1_400 < float(slow["poll() every ms"].replace(",", "")) < 1_600
    assert float(slow["idle in poll()"]) < 0.2
    by_client = {row["client id"]: row for row in rows}
    assert by_client.keys() == {"producer", "polling", "sleeping", "sleeping-async"}
    assert float(by_client["sleeping-async"]["poll() every ms"].replace(",", "")) > 1_300, "its network thread reads"
    assert by_client["producer"]["poll() every ms"] is None
