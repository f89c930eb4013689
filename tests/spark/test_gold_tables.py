"""What gold makes of the corners: zeros, clients that nobody knows, share consumers, midnight."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from pyspark.sql import SparkSession

from fleet.dialects import library_of, says_when_it_ends
from fleet.gold.consumers import consumers
from fleet.gold.latency import latency
from fleet.gold.throttling import throttling
from fleet.gold.windows import with_window
from fleet.schemas import POINTS, PUSHES, SENT_POINTS
from fleet.silver.clients import clients
from fleet.small_tables import table
from telemetry.catalogue.standard_metrics import ROLE_PREFIXES

NODE = "org.apache.kafka.producer.node.request.latency.avg"
THROTTLE = "org.apache.kafka.producer.produce.throttle.time.max"
IDLE = "org.apache.kafka.consumer.poll.idle.ratio.avg"
SHARED = "org.apache.kafka.consumer.share.fetch.manager.bytes.consumed.total"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_zero_is_a_time_where_the_library_means_it_and_no_throttling_everywhere(spark: SparkSession) -> None:
    libraries = ("java", "librdkafka", "franz-go", None)
    rows = [(f"{each}", each, "12:00:00", name, 1, 0.0) for each in libraries for name in (NODE, THROTTLE)]
    columns = "client_instance_id dialect received_at metric_name node_id value"
    points = table(spark, SENT_POINTS, columns, *rows)
    assert [(row.client_instance_id, row.latency_avg_ms) for row in latency(points).collect()] == [("java", 0.0)]
    throttled = {row.client_instance_id: (row.throttle_max_ms, row.throttled) for row in throttling(points).collect()}
    assert throttled == {f"{each}": (0.0, 0) for each in libraries}


def test_what_is_unknown_depends_on_library_and_kind_of_consumer(spark: SparkSession) -> None:
    columns = "client_instance_id dialect received_at metric_name value delta gap before_subscription"
    points = table(
        spark,
        POINTS,
        columns,
        ("share", "librdkafka", "12:00:00", SHARED, 5.0, 5.0, False, False),
        ("plain", "librdkafka", "12:00:00", IDLE, 0.0, None, None, None),
        ("stranger", None, "12:00:00", IDLE, 0.5, None, None, None),
        ("go", "franz-go", "12:00:00", SHARED, 7.0, 7.0, True, False),
    )
    found = {row.client_instance_id: row for row in consumers(points).collect()}
    assert (found["share"].bytes_consumed, "bytes_consumed" in found["share"].unknown) == (5.0, False)
    assert (found["plain"].bytes_consumed, "bytes_consumed" in found["plain"].unknown) == (None, True)
    assert found["plain"].poll_idle_ratio_avg is None, "a 0 of librdkafka says that nothing was recorded"
    assert "poll_idle_ratio_avg" not in found["plain"].unknown
    assert "poll_idle_ratio_avg" in found["go"].unknown
    assert found["go"].gap
    nulls = {name for name in found["stranger"].unknown if found["stranger"][name] is None}
    assert nulls == set(found["stranger"].unknown) >= {"lag_records", "commit_latency_avg_ms"}
    assert "poll_idle_ratio_avg" not in nulls


def test_a_days_last_window_ends_at_midnight(spark: SparkSession) -> None:
    points = table(spark, SENT_POINTS, "received_at metric_name node_id value", ("23:59:59", NODE, 1, 1.0))
    (row,) = latency(points, 3600).collect()
    assert (str(row.date), row.window_s) == ("2026-03-01", 3600)
    (start,) = latency(points, 3600).selectExpr("date_format(window_start, 'HH:mm:ss') as text").collect()
    assert start.text == "23:00:00"


@pytest.mark.parametrize("window_s", [7, 0, -300, 86_401])
def test_a_window_that_does_not_divide_a_day_is_refused(spark: SparkSession, window_s: int) -> None:
    with pytest.raises(ValueError, match=rf"a window of {window_s} s does not divide a day; take one that does"):
        with_window(spark.range(0), window_s)


def test_a_client_is_silent_after_three_intervals_and_a_minute_at_least(spark: SparkSession) -> None:
    intervals = {"quick": 1_000, "usual": 60_000, "unknown": None}
    columns = "client_instance_id received_at role push_interval_ms"
    pushes = table(spark, PUSHES, columns, *((name, "12:00:00", "consumer", each) for name, each in intervals.items()))

    def silent(after_s: int) -> set[str]:
        found = clients(pushes, None, NOON + timedelta(seconds=after_s)).where("state = 'silent'")
        return {row.client_instance_id for row in found.collect()}

    assert silent(60) == set()
    assert silent(61) == {"quick"}
    assert silent(181) == {"quick", "usual"}
    assert silent(901) == {"quick", "usual", "unknown"}


@pytest.mark.parametrize("by_group", [None, "billing"])
def test_who_says_when_it_ends_is_the_same_in_spark_and_without(spark: SparkSession, by_group: str | None) -> None:
    kinds = list(product(("apache-kafka-java", "kgo", "librdkafka", "other", None), (*ROLE_PREFIXES, None)))
    columns = "client_instance_id received_at client_software_name role group_id"
    rows = [(f"{name} {role}", "12:00:00", name, role, by_group) for name, role in kinds]
    found = clients(table(spark, PUSHES, columns, *rows), None, NOON + timedelta(hours=1)).collect()
    expected = {
        f"{name} {role}": "silent" if says_when_it_ends(library_of(name, None), role, by_group) else "gone"
        for name, role in kinds
    }
    assert {row.client_instance_id: row.state for row in found} == expected
    assert set(expected.values()) == ({"silent", "gone"} if by_group is None else {"silent"})
