"""What gold makes of the corners: zeros, clients that nobody knows, share consumers, midnight, groups."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.gold.latency import latency, overall
from fleetgauge.fleet.gold.members import consumers, groups, rebalances
from fleetgauge.fleet.gold.producers import producers
from fleetgauge.fleet.gold.sql import Query
from fleetgauge.fleet.gold.throttling import throttling
from fleetgauge.fleet.gold.versions import versions
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import ROWS
from fleetgauge.fleet.schemas import CLIENTS, LATENCY_OVERALL, POINTS, SENT_POINTS
from fleetgauge.testkit.small_tables import rows

CONSUMER = "org.apache.kafka.consumer"
NODE = "org.apache.kafka.producer.node.request.latency.avg"
THROTTLE = "org.apache.kafka.producer.produce.throttle.time.max"
QUEUE = "record.queue.time.avg"
IDLE = f"{CONSUMER}.poll.idle.ratio.avg"
SHARED = f"{CONSUMER}.share.fetch.manager.bytes.consumed.total"
LAG = f"{CONSUMER}.fetch.manager.records.lag"
ASSIGNED = f"{CONSUMER}.coordinator.assigned.partitions"


def by_client(table: pa.Table) -> dict[str, dict[str, Any]]:
    found = {row["client_instance_id"]: row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def test_a_zero_is_a_time_where_the_library_means_it_and_no_throttling_everywhere() -> None:
    libraries = ("java", "librdkafka", "franz-go", None)
    given = [(f"{each}", each, "12:00:00", name, 1, 0.0) for each in libraries for name in (NODE, THROTTLE)]
    columns = "client_instance_id dialect received_at metric_name node_id value"
    points = aggregate(rows(SENT_POINTS, columns, *given), 300)
    assert [(row["client_instance_id"], row["latency_avg_ms"]) for row in answer(latency(), points).to_pylist()] == [
        ("java", 0.0)
    ]
    throttled = {
        name: (row["throttle_max_ms"], row["throttled"])
        for name, row in by_client(answer(throttling(), points)).items()
    }
    assert throttled == {f"{each}": (0.0, 0) for each in libraries}


def test_what_is_unknown_depends_on_library_and_kind_of_consumer() -> None:
    columns = "client_instance_id dialect received_at metric_name value delta gap before_subscription"
    points = rows(
        POINTS,
        columns,
        ("share", "librdkafka", "12:00:00", SHARED, 5.0, 5.0, False, False),
        ("plain", "librdkafka", "12:00:00", IDLE, 0.0, None, None, None),
        ("stranger", None, "12:00:00", IDLE, 0.5, None, None, None),
        ("go", "franz-go", "12:00:00", SHARED, 7.0, 7.0, True, False),
    )
    found = by_client(answer(consumers(), aggregate(points, 300)))
    assert (found["share"]["bytes_consumed"], "bytes_consumed" in found["share"]["unknown"]) == (5.0, False)
    assert (found["plain"]["bytes_consumed"], "bytes_consumed" in found["plain"]["unknown"]) == (None, True)
    assert found["plain"]["poll_idle_ratio_avg"] is None, "a 0 of librdkafka says that nothing was recorded"
    assert "poll_idle_ratio_avg" not in found["plain"]["unknown"]
    assert "poll_idle_ratio_avg" in found["go"]["unknown"]
    assert found["go"]["gap"]
    nulls = {name for name in found["stranger"]["unknown"] if found["stranger"][name] is None}
    assert nulls == set(found["stranger"]["unknown"]) >= {"lag_records", "commit_latency_avg_ms"}
    assert "poll_idle_ratio_avg" not in nulls


def test_a_days_last_window_ends_at_midnight() -> None:
    points = rows(SENT_POINTS, "received_at metric_name node_id value", ("23:59:59", NODE, 1, 1.0))
    (row,) = answer(latency(), aggregate(points, 3600)).to_pylist()
    assert (str(row["date"]), row["window_s"], str(row["window_start"].time())) == ("2026-03-01", 3600, "23:00:00")


def test_share_consumers_have_rows_of_their_own_metric() -> None:
    name = f"{CONSUMER}.share.fetch.manager.fetch"
    points = rows(
        SENT_POINTS,
        "received_at metric_name value",
        ("12:00:00", f"{name}.latency.avg", 5.0),
        ("12:00:00", f"{name}.throttle.time.max", 0.0),
    )
    (time,) = answer(latency(), aggregate(points, 300)).to_pylist()
    assert (time["role"], time["metric"], time["unit"]) == ("share-consumer", f"{name}.latency", "ms")
    (throttle,) = answer(throttling(), aggregate(points, 300)).to_pylist()
    assert (throttle["request"], throttle["metric"], throttle["samples"]) == ("fetch", f"{name}.throttle.time", 1)


def test_links_to_bootstrap_servers_are_marked() -> None:
    queue = "org.apache.kafka.producer.record.queue.time.avg"
    columns = "received_at metric_name node_id value"
    given = [("12:00:00", NODE, -1, 1.0), ("12:00:00", NODE, 0, 1.0), ("12:00:00", queue, None, 1.0)]
    found = answer(latency(), aggregate(rows(SENT_POINTS, columns, *given), 300)).to_pylist()
    assert {(row["node_id"], row["bootstrap"]) for row in found} == {(-1, True), (0, False), (None, None)}


def test_a_link_has_the_identity_of_its_client() -> None:
    columns = "received_at metric_name node_id value client_id"
    points = rows(SENT_POINTS, columns, ("12:00:00", NODE, 1, 1.0, "old"), ("12:01:00", "other", None, 1.0, "new"))
    (row,) = answer(latency(), aggregate(points, 300)).to_pylist()
    assert (row["client_id"], row["dialect"], row["node_id"]) == ("new", "java", 1)


def test_a_consumer_that_lost_its_partitions_has_no_lag_and_its_largest_stays() -> None:
    columns = "received_at metric_name topic partition value"
    points = rows(
        POINTS,
        columns,
        ("12:00:00", LAG, "a", 0, 5000.0),
        ("12:00:00", ASSIGNED, None, None, 1.0),
        ("12:01:00", ASSIGNED, None, None, 0.0),
    )
    (row,) = answer(consumers(), aggregate(points, 300)).to_pylist()
    assert (row["lag_records"], row["lag_max_records"], row["assigned_partitions"]) == (None, 5000.0, 0.0)
    assert "lag_records" not in row["unknown"]


def lags(*given: tuple[Any, ...]) -> dict[str, Any]:
    """The one group of these lags."""
    columns = "client_instance_id received_at group_id metric_name topic partition value"
    (row,) = answer(
        groups(), aggregate(rows(POINTS, columns, *((*each[:2], "g", *each[2:]) for each in given)), 300)
    ).to_pylist()
    found: dict[str, Any] = row
    return found


def test_a_groups_sum_counts_a_partition_that_moved_once() -> None:
    moved = [("one", "12:00:00", LAG, "a", 0, 5000.0), ("two", "12:01:00", LAG, "a", 0, 70.0)]
    assert (lags(*moved)["lag_records"], lags(*reversed(moved))["lag_records"], lags(*moved)["members"]) == (70, 70, 2)
    back = ("one", "12:02:00", LAG, "a", 0, 60.0)
    assert lags(*moved, back)["lag_records"] == 60
    assert lags(*moved, ("two", "12:02:00", ASSIGNED, None, None, 0.0))["lag_records"] == 5000, "its last known owner"


def test_a_groups_topic_is_one_whichever_way_its_members_write_it() -> None:
    found = lags(("one", "12:00:00", LAG, "a.b", 0, 9.0), ("two", "12:01:00", LAG, "a_b", 0, 7.0))
    assert (found["lag_records"], found["lag_partitions"]) == (7.0, 1)


def test_a_group_without_a_known_lag_has_none() -> None:
    found = lags(("one", "12:00:00", ASSIGNED, None, None, 2.0), ("two", "12:01:00", ASSIGNED, None, None, 3.0))
    assert (found["lag_records"], found["lag_partitions"], found["assigned_partitions"]) == (None, 0, 5.0)


def test_a_producer_is_of_any_library_and_what_its_library_does_not_count_is_unknown() -> None:
    columns = "client_instance_id dialect received_at metric_name value delta before_subscription"
    sent, size, queue = (f"org.apache.kafka.producer.{name}" for name in ("record.send.total", "batch.size.avg", QUEUE))
    points = rows(
        POINTS,
        columns,
        ("java", "java", "12:00:00", sent, 9.0, 9.0, True),
        ("java", "java", "12:01:00", sent, 7.0, 7.0, False),
        ("java", "java", "12:00:00", size, 1000.0, None, None),
        ("java", "java", "12:01:00", size, 1001.0, None, None),
        ("rd", "librdkafka", "12:00:00", queue, 0.0, None, None),
        ("go", "franz-go", "12:00:00", THROTTLE, 20.0, None, None),
        ("other", None, "12:00:00", queue, 2.0, None, None),
        ("consumer", "java", "12:00:00", IDLE, 0.5, None, None),
    )
    found = by_client(answer(producers(), aggregate(points, 300)))
    assert set(found) == {"java", "rd", "go", "other"}
    java = found["java"]
    assert (java["pushes"], java["records_sent"], java["batch_size_avg_bytes"], java["gap"]) == (2, 7.0, 1000.5, True)
    assert (java["unknown"], java["record_errors"]) == ([], None)
    assert found["rd"]["record_queue_time_avg_ms"] is None, "its 0 says that nothing was recorded"
    assert "records_sent" in found["rd"]["unknown"]
    assert not {"record_queue_time_avg_ms", "produce_throttle_max_ms"} & set(found["rd"]["unknown"])
    assert (found["go"]["produce_throttle_max_ms"], "record_queue_time_avg_ms" in found["go"]["unknown"]) == (
        20.0,
        True,
    )
    assert {"records_sent", "request_latency_avg_ms"} <= set(found["other"]["unknown"])
    assert "record_queue_time_avg_ms" not in found["other"]["unknown"]


@pytest.mark.parametrize("query", [latency, throttling, producers, rebalances, consumers, groups, versions])
def test_no_rows_make_a_table_of_none(query: Callable[[], Query]) -> None:
    given = CLIENTS if query is versions else ROWS
    found = answer(query(), given.empty_table())
    assert (found.num_rows, found.schema) == (0, query().schema)


def test_no_rows_have_no_latency_over_all_time() -> None:
    assert overall(merge([])) == LATENCY_OVERALL.empty_table()
