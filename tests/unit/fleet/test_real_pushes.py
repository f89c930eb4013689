"""The tables of pushes that real clients sent to a real broker (`tests/spark/recorded`)."""

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.arrow import Table, pc, to_list
from fleetgauge.fleet.engines.questions import Pushes, answer, question
from fleetgauge.fleet.engines.sql import answer as made
from fleetgauge.fleet.gold import latency, members, throttling
from fleetgauge.fleet.gold.inventory import inventory
from fleetgauge.fleet.gold.metrics import metrics
from fleetgauge.fleet.gold.versions import versions
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.report.output import take_first
from fleetgauge.fleet.report.tables import TABLES
from fleetgauge.fleet.schemas import CLIENTS, LATENCY, POINTS, PUSHES, THROTTLING
from fleetgauge.fleet.silver.clients import clients, seen, with_state
from fleetgauge.fleet.source.landing import find_zone
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog

RECORDED = Path(__file__).parents[2] / "spark" / "recorded"
AN_HOUR_LATER = datetime(2026, 11, 21, 23, 46, tzinfo=UTC)
JAVA_CONSUMERS = {"java-3.7.2-consumer", "java-4.4.0-consumer"}
GROUPS = {"java-3.7.2-consumer": "java-3.7.2-group", "java-4.4.0-consumer": "java-4.4.0-group"}
MARKS = ("push_id", "point_index", "delta", "reset", "gap", "before_subscription", "covers_gap")

NOBODY = CLIENTS.empty_table()

Row = dict[str, Any]


class Recorded(NamedTuple):
    """The pushes as they lie in the landing zone, and PUSHES, POINTS and SERIES of one run."""

    sent: list[Row]
    pushes: Table
    points: Table
    series: list[Row]


def recorded_in(zone: str, root: Path) -> Recorded:
    sent = [row for path in sorted((RECORDED / zone).rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    tables = SilverTables(root)
    report = tables.read(sent)
    assert report is not None
    assert (report.repeats, report.rejects) == (0, {})
    found = [tables.store.log(table).rows() for table in (catalog.PUSHES, catalog.POINTS)]
    pushes, points = (
        rows.select(schema.names).cast(schema) for rows, schema in zip(found, (PUSHES, POINTS), strict=True)
    )
    return Recorded(sent, pushes, points, tables.rows(catalog.SERIES))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded_in("broker", tmp_path_factory.mktemp("broker"))


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded_in("serve", tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def points(recorded: Recorded) -> Table:
    return recorded.points


def known(pushes: Table, before: Table = NOBODY) -> Table:
    return clients(seen(pushes), before, AN_HOUR_LATER)


def by_client(table: Table) -> dict[str, Row]:
    found = {row["client_id"]: row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def test_every_push_has_its_points_and_every_client_is_known(recorded: Recorded) -> None:
    pushes = recorded.pushes
    assert (pushes.num_rows, pc.sum(pushes["points"]).as_py()) == (143, recorded.points.num_rows)
    found = by_client(known(pushes))
    assert {name: (row["dialect"], row["group_id"], row["state"]) for name, row in found.items()} == {
        "java-3.7.2-producer": ("java", None, "ended"),
        "java-3.7.2-consumer": ("java", "java-3.7.2-group", "ended"),
        "java-4.4.0-producer": ("java", None, "ended"),
        "java-4.4.0-consumer": ("java", "java-4.4.0-group", "ended"),
        "rdkafka-producer": ("librdkafka", None, "ended"),
        "rdkafka-consumer": ("librdkafka", "rdkafka", "ended"),
        "franz-go-1.22.2": ("franz-go", None, "ended"),
    }
    member = found["java-4.4.0-consumer"]["group_member_id"]
    assert member.startswith("java-4.4.0-consumer-")
    assert {row["instances"] for row in made(versions(), known(pushes)).to_pylist()} == {1, 2}


def test_clients_seen_in_several_runs_are_those_of_one(recorded: Recorded) -> None:
    pushes = recorded.pushes
    is_early = pc.less(pushes["push_id"], "000660d11dd00000")
    first, rest = pushes.filter(is_early), pushes.filter(pc.invert(is_early))
    before = known(first)
    states = {(row["role"], row["state"]) for row in before.to_pylist() if row["dialect"] == "java"}
    assert states == {("producer", "gone"), ("consumer", "silent")}
    again = known(rest, known(first, before))
    assert sorted(again.to_pylist(), key=repr) == sorted(known(pushes).to_pylist(), key=repr)


def test_only_the_first_delta_reaches_back_and_the_lost_push_is_a_gap(points: Table) -> None:
    of_client = re.compile(r"org\.apache\.kafka\.(?!.*node).*\.request\.total")
    of_push = sorted(points.filter(points["topic"].is_null()).to_pylist(), key=lambda row: row["push_id"])
    requests = [row for row in of_push if of_client.fullmatch(row["metric_name"])]
    for client in ("java-3.7.2-producer", "java-3.7.2-consumer", "java-4.4.0-producer", "java-4.4.0-consumer"):
        rows = [row for row in requests if row["client_id"] == client]
        assert [row["before_subscription"] for row in rows] == [True] + [False] * (len(rows) - 1), client
        assert [row["gap"] for row in rows].count(True) == 1, "the subscription changed once"
        assert {row["delta"] == row["value"] for row in rows} == {True}
        assert {row["covers_gap"] or row["reset"] for row in rows} == {False}


@pytest.mark.slow
def test_deltas_are_the_same_whatever_the_runs_boundaries(recorded: Recorded, tmp_path: Path) -> None:
    ids = sorted(row["push_id"] for row in recorded.sent)
    tables = SilverTables(tmp_path)
    for begin, end in itertools.pairwise([ids[0], ids[1], ids[30], ids[31], ids[100], "g"]):
        tables.read([row for row in recorded.sent if begin <= row["push_id"] < end])
    found = {tuple(row[name] for name in MARKS) for row in tables.points}
    assert found == {tuple(row[name] for name in MARKS) for row in recorded.points.to_pylist()}
    assert tables.rows(catalog.SERIES) == recorded.series


def test_latency_has_all_clients_with_unit_and_meaning(points: Table) -> None:
    found = made(latency.latency(), aggregate(points, 60))
    assert found.schema == LATENCY
    rows = found.to_pylist()
    by_node = {row["client_id"] for row in rows if row["node_id"] == 1}
    # Java consumers before 4 have the metric, and never record anything.
    assert by_node == {
        "java-3.7.2-producer",
        "java-4.4.0-producer",
        "java-4.4.0-consumer",
        "rdkafka-producer",
        "rdkafka-consumer",
    }
    assert {row["unit"] for row in rows} == {"ms"}
    assert {row["meaning"] for row in rows if row["metric"].endswith("record.queue.time")} == {
        "time that a batch waits in the buffer before it is sent"
    }


@pytest.mark.slow
def test_a_coordinators_link_is_a_link_to_its_broker_in_every_version(points: Table) -> None:
    links = [row for row in points.to_pylist() if row["coordinator"]]
    assert {(row["client_id"], row["node_id"], dict(row["attributes"])["node_id"]) for row in links} == {
        ("java-3.7.2-consumer", 1, "node-2147483646"),
        ("java-4.4.0-consumer", 1, "node-+1"),
    }


def test_throttling_is_known_of_those_who_measure_it_alone(points: Table) -> None:
    found = made(throttling.throttling(), aggregate(points, 3600))
    assert found.schema == THROTTLING
    kinds = {(row["client_id"], row["request"]): row["throttled"] for row in found.to_pylist()}
    assert set(kinds) == {
        ("java-3.7.2-producer", "produce"),
        ("java-4.4.0-producer", "produce"),
        ("rdkafka-producer", "produce"),
        ("java-3.7.2-consumer", "fetch"),
        ("java-4.4.0-consumer", "fetch"),
    }
    assert set(kinds.values()) == {0}


def test_rebalances_are_counted_where_the_library_counts_them(points: Table) -> None:
    found = by_client(made(members.rebalances(), aggregate(points, 3600)))
    assert {name: row["rebalances"] for name, row in found.items()} == {
        "java-3.7.2-consumer": 1.0,  # joined after its first push
        "java-4.4.0-consumer": 0.0,  # before it
        "rdkafka-consumer": None,
    }
    assert "rebalances" in found["rdkafka-consumer"]["unknown"]
    assert found["java-3.7.2-consumer"]["unknown"] == []
    assert found["java-3.7.2-consumer"]["rebalance_latency_total_ms"] == 1438.0
    assert found["java-3.7.2-consumer"]["assigned_partitions"] == 2.0
    assert {row["gap"] for row in found.values()} == {True}
    assert {name: found[name]["group_id"] for name in JAVA_CONSUMERS} == GROUPS


def test_a_consumers_lag_is_that_of_its_partitions_once(points: Table) -> None:
    found = by_client(made(members.consumers(), aggregate(points, 3600)))
    rdkafka = found["rdkafka-consumer"]
    assert (rdkafka["lag_records"], rdkafka["records_consumed"]) == (None, None)
    assert {"lag_records", "lag_max_records", "records_consumed", "last_poll_seconds_ago"} <= set(rdkafka["unknown"])
    assert 0 < rdkafka["poll_idle_ratio_avg"] <= 1
    lag = "org.apache.kafka.consumer.fetch.manager.records.lag"
    for name in JAVA_CONSUMERS:
        of_client = points.filter((pc.field("client_id") == name) & (pc.field("metric_name") == lag))
        by_push: dict[str, dict[int, float]] = {}
        for row in of_client.filter(of_client["partition"].is_valid()).to_pylist():
            by_push.setdefault(row["push_id"], {})[row["partition"]] = row["value"] or 0.0
        sums = [sum(lags.values()) for _, lags in sorted(by_push.items())]
        assert (found[name]["lag_records"], found[name]["lag_max_records"]) == (sums[-1], max(sums))
        assert found[name]["unknown"] == []
        assert found[name]["records_consumed"] > 0


def test_every_metric_of_a_java_client_is_in_the_metrics_table_but_those_that_kafka_4_removed(points: Table) -> None:
    """So that each has a unit and a meaning; new ones of a newer client would be missing here first."""
    sent = set(to_list(points.filter(pc.field("dialect") == "java")["metric_name"]))
    missing = sent - set(to_list(metrics()["metric_name"]))
    assert {name.removeprefix("org.apache.kafka.") for name in missing} == {
        "consumer.io.waittime.total",
        "consumer.iotime.total",
        "producer.bufferpool.wait.time.total",
        "producer.io.waittime.total",
        "producer.iotime.total",
    }


def of_day(pushes: Table) -> Table:
    return with_state(inventory(seen(pushes)), AN_HOUR_LATER)


def test_a_quiet_client_is_silent_only_where_its_kind_says_when_it_ends(serve: Recorded) -> None:
    """The Java clients were closed without a terminating push, as a producer and an admin client always may be."""
    pushes = serve.pushes
    expected = {
        "java-4.4.0-producer": ("producer", "gone"),
        "java-4.4.0-admin": ("admin", "gone"),
        "java-4.4.0-consumer": ("consumer", "silent"),
        "librdkafka-newest-producer": ("producer", "ended"),
        "librdkafka-newest-consumer": ("consumer", "ended"),
        "franz-go-1.22.2": ("producer", "ended"),
    }
    for table in (of_day(pushes), known(pushes)):
        assert {name: (row["role"], row["state"]) for name, row in by_client(table).items()} == expected
    left = by_client(of_day(pushes.filter(pc.invert(pushes["terminating"]))))
    assert {row["state"] for name, row in left.items() if not name.startswith("java")} == {"silent"}
    by_version = {row["client_software_name"]: row for row in made(versions(), known(pushes)).to_pylist()}
    java = by_version["apache-kafka-java"]
    assert [java[name] for name in ("instances", "live", "silent", "gone", "ended")] == [3, 0, 1, 2, 0]


def test_a_franz_go_that_says_no_start_may_reach_back_and_an_admin_client_has_its_latency(serve: Recorded) -> None:
    is_sum = (pc.field("dialect") == "franz-go") & (pc.field("metric_type") == "sum")
    (sent,) = serve.points.filter(is_sum).to_pylist()
    assert (sent["start_time_unix_nano"], sent["delta"], sent["before_subscription"]) == (None, 1.0, True)
    links = made(latency.latency(), aggregate(serve.points, 3600)).filter(pc.field("role") == "admin").to_pylist()
    assert [(row["client_id"], row["node_id"]) for row in links] == [("java-4.4.0-admin", -1)]


def test_a_consumer_that_sleeps_between_polls_is_no_victim_of_its_broker() -> None:
    """Its responses wait for the next poll(): 67 ms beside the 9 and 3 ms of the consumers beside it."""
    pushes = Pushes(find_zone(str(RECORDED / "sleeping"), Selection()), Selection())
    found, _ = take_first(answer(question("latency"), pushes).rows, TABLES["latency"], 10)
    rows: list[dict[str, Any]] = [dict(TABLES["latency"].texts(row)) for row in found]
    (slow,) = [row for row in rows if row["slow by"] == "consumer: rarely polls"]
    assert rows[-1] == slow, "behind those whose latency may be the broker's"
    assert slow["client id"] == "sleeping"
    assert float(slow["avg ms"]) > 5 * max(float(row["avg ms"]) for row in rows if row != slow)
    assert 1_400 < float(slow["poll() every ms"].replace(",", "")) < 1_600
    assert float(slow["idle in poll()"]) < 0.2
    by_client = {row["client id"]: row for row in rows}
    assert by_client.keys() == {"producer", "polling", "sleeping", "sleeping-async"}
    assert float(by_client["sleeping-async"]["poll() every ms"].replace(",", "")) > 1_300, "its network thread reads"
    assert by_client["producer"]["poll() every ms"] is None
