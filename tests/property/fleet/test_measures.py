"""Wide rows of points: against a reference that goes over all points at once, in any order and split of pushes."""

import math
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetgauge.fleet.measures.aggregate import aggregate, correction
from fleetgauge.fleet.measures.catalogue import (
    FAMILIES,
    LAG,
    LAG_OF_CLIENT,
    MARKED,
    MARKS,
    MEASURES,
    ROLES_OF_NODES,
    family_names,
)
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import KEY, ROWS
from fleetgauge.fleet.schemas import POINTS
from fleetgauge.telemetry.catalogue.standard_metrics import known_metrics, telemetry_name

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
US = timedelta(microseconds=1)
CONSUMER = "org.apache.kafka.consumer"
ASSIGNED = f"{CONSUMER}.coordinator.assigned.partitions"
CONSUMED = f"{CONSUMER}.fetch.manager.records.consumed.total"
LATENCY = "org.apache.kafka.producer.node.request.latency.avg"

Point = dict[str, Any]


def point(metric: str, at: float = 0, value: float | None = None, **more: Any) -> Point:
    """A point of one client, received `at` [s] after noon."""
    received_at = NOON + timedelta(seconds=at)
    known = {
        "push_id": f"{at:016.3f}",
        "point_index": 0,
        "received_at": received_at,
        "cluster_id": "lkc-1",
        "principal": "User:app",
        "client_instance_id": "one",
        "client_id": "orders",
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.4.0",
        "push_interval_ms": 60_000,
        "dialect": "java",
        "metric_name": metric,
        "value": value,
        "twin": False,
        "occurrence": 0,
        "attributes": {},
        "resource": {},
        "date": received_at.date(),
    }
    return known | more


def total(metric: str, at: float, delta: float | None, **marks: Any) -> Point:
    return point(metric, at, delta, delta=delta, **{"gap": False, "before_subscription": False, **marks})


def table(points: Iterable[Point]) -> pa.Table:
    return pa.Table.from_pylist(list(points), schema=POINTS)


def rows(*tables: pa.Table) -> list[dict[str, Any]]:
    """Merged rows by their keys, without what is null."""
    found = merge(tables).sort_by([(name, "ascending") for name in (*KEY[:4], "role", "topic")])
    assert found.schema == ROWS
    return [{name: value for name, value in row.items() if value is not None} for row in found.to_pylist()]


def client(*points: Point, window_s: int = 300) -> dict[str, Any]:
    """The one row of the one client."""
    (row,) = [row for row in rows(aggregate(table(points), window_s)) if "role" not in row and "topic" not in row]
    return row


# --- a reference, straight from what each measure says of itself


def reference(points: list[Point], window_s: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    by_client: Any = defaultdict(lambda: defaultdict(list))
    for each in points:
        start = each["received_at"] - timedelta(seconds=each["received_at"].timestamp() % window_s)
        window = (each["cluster_id"], each["principal"], each["client_instance_id"], start)
        by_client[window][each["received_at"], each["push_id"]].append(each)
    for window, pushes in by_client.items():
        add_client(found[(*window, None, None, None, None)], dict(sorted(pushes.items())))
        for measure in MEASURES:
            add_others(found, window, measure, [each for push in pushes.values() for each in push])
    return found


def values(points: list[Point], measure: Any, names: set[str]) -> list[float]:
    found = []
    for each in points:
        value = each["delta"] if measure.over == "growth" else each["value"]
        if each["metric_name"] not in names or each["twin"] or value is None or not math.isfinite(value):
            continue
        if measure.over == "growth" and each["before_subscription"]:
            continue
        if measure.over != "growth" and value < 0:
            continue
        if measure.zero_may_be_nothing and value == 0 and each["dialect"] != "java" and not is_beside(points, measure):
            continue
        found.append(value)
    return found


def is_beside(points: list[Point], measure: Any) -> bool:
    """True where a 0 is a measurement since another value of the push is above 0."""
    others = {name for other in MEASURES if other.column == measure.zero_beside for name in other.names}
    return any(
        each["metric_name"] in others
        and not each["twin"]
        and each["value"] is not None
        and 0 < each["value"] < math.inf
        for each in points
    )


def add_client(row: dict[str, Any], pushes: dict[tuple[Any, ...], list[Point]]) -> None:
    others = (*ROLES_OF_NODES, "producer-topic-metrics")
    (last_at, last_id), last = list(pushes.items())[-1]
    row |= {"seen_at": last_at, "seen_push_id": last_id, "client_id": last[0]["client_id"], "pushes": len(pushes)}
    row["points"] = sum(map(len, pushes.values()))
    for measure in MEASURES:
        names = {telemetry_name(*metric) for metric in measure.metrics if metric[0] not in others}
        of_push: list[Any] = []
        for (at, _), points in pushes.items():
            if not measure.metrics:
                latest = max((each["time_unix_nano"] for each in points if each["time_unix_nano"]), default=None)
                skew = None if latest is None else at.timestamp() * 1e3 - latest / 1e6
                of_push += [] if skew is None else [(at, skew)]
                continue
            if measure.by_partition:
                chosen = [each for each in points if each["partition"] is not None]
            else:
                chosen = [each for each in points if each["topic"] is None]
            found = values(chosen, measure, names)
            if found:
                is_sum = measure.over == "growth" or measure.by_partition == "sum"
                of_push.append((at, sum(found) if is_sum else max(found), len(found)))
        add(row, measure, of_push)
    for family in FAMILIES:
        share = {metric.name for metric in known_metrics() if metric.name.startswith(f"{CONSUMER}.share.")}
        of_family = set(share if family == "share" else family_names(family))
        growth = {
            telemetry_name(*metric)
            for measure in MEASURES
            for metric in measure.metrics
            if measure.over == "growth" and metric[0] not in others
        }
        has = [any(each["metric_name"] in of_family and not each["twin"] for each in push) for push in pushes.values()]
        row[f"{family}_pushes"] = sum(has) or None
        for mark in MARKS if family in MARKED else ():
            row[f"{family}_{mark}_points"] = (
                sum(
                    bool(each.get(mark)) and each["metric_name"] in of_family & growth and each["topic"] is None
                    for push in pushes.values()
                    for each in push
                    if not each["twin"]
                )
                or None
            )


def add(row: dict[str, Any], measure: Any, found: list[Any]) -> None:
    column, numbers = measure.column, [each[1] for each in found]
    if not found:
        return
    match measure.over:
        case "avg":
            row[f"{column}_sum"] = sum(round(number * 1e6) for number in numbers)
            row[f"{column}_count"] = len(numbers)
        case "growth":
            row[f"{column}_sum"] = round(sum(numbers) * 1e3)
            row[f"{column}_count"] = sum(each[2] for each in found)
        case "max":
            row[column] = max(numbers)
        case "min":
            row[column] = min(numbers)
        case "last":
            row[f"{column}_at"], row[column] = max(each[:2] for each in found)
        case "samples":
            row[column] = len(numbers)
        case "positive":
            row[column] = sum(number > 0 for number in numbers) or None


def add_others(found: Any, window: tuple[Any, ...], measure: Any, points: list[Point]) -> None:
    for group, name in measure.metrics:
        is_node, is_topic = group in ROLES_OF_NODES, group == "producer-topic-metrics" or measure.by_topic
        by_key: Any = defaultdict(list)
        for each in points:
            if each["metric_name"] != telemetry_name(group, name):
                continue
            if is_node:
                by_key[(ROLES_OF_NODES[group], each["node_id"], each["coordinator"], None)].append(each)
            elif is_topic and each["topic"] is not None and each["partition"] is None:
                by_key[(None, None, None, each["topic"])].append(each)
        for key, of_key in by_key.items():
            numbers = values(of_key, measure, {telemetry_name(group, name)})
            if numbers:
                add(found[(*window, *key)], measure, [(None, number, 1) for number in numbers])


# --- pushes at random

NAMES = sorted({name for measure in MEASURES for name in measure.names})


@st.composite
def pushes(draw: st.DrawFn) -> list[list[Point]]:
    chance = draw(st.randoms(use_true_random=False))
    found = []
    names = [*chance.sample(NAMES, 12), LAG, LAG_OF_CLIENT, ASSIGNED, "custom.metric"]
    for number in range(draw(st.integers(1, 12))):
        at = chance.choice([0, 1, 1.5, 299.9, 300, 86_390])
        push: dict[str, Any] = {
            "push_id": f"{number:04x}",
            "client_instance_id": chance.choice("ab"),
            "client_id": chance.choice(["x", "y"]),
            "dialect": chance.choice(["java", "librdkafka", None]),
            "time_unix_nano": chance.choice([None, 1_772_366_400_000_000_000 + chance.randrange(10**12)]),
        }
        push["client_instance_id"] += f"{at}" if chance.random() < 0.1 else ""
        found.append(
            [random_point(chance, name, at, push) for name in chance.choices(names, k=chance.randrange(1, 30))]
        )
    return found


def random_point(chance: random.Random, name: str, at: float, push: dict[str, Any]) -> Point:
    value = chance.choice([None, math.inf, -1.0, 0.0, 0.1, 1 / 3, 7.0, 1e12 / 7, float(chance.randrange(10**6))])
    more = {
        "delta": round(value, 3) if value is not None and math.isfinite(value) else value,
        "topic": chance.choice([None, None, "a", "b"]),
        "node_id": chance.choice([None, -1, 1, 2]),
        "coordinator": chance.choice([None, True, False]),
        "twin": chance.random() < 0.1,
        "group_id": "g",
    }
    more["partition"] = chance.choice([None, 0, 1]) if more["topic"] else None
    more |= {mark: chance.random() < 0.2 for mark in MARKS}
    return point(name, at, value, **push, **more)


def by_key(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {tuple(row[name] for name in KEY): row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


@settings(max_examples=60, deadline=None)
@given(pushes(), st.sampled_from([60, 300, 86_400]))
def test_rows_are_those_of_a_reference_over_all_points(sent: list[list[Point]], window_s: int) -> None:
    points = [each for push in sent for each in push]
    found, expected = by_key(aggregate(table(points), window_s)), reference(points, window_s)
    assert found.keys() == expected.keys()
    looked_at = {name for name in ROWS.names if name not in KEY} - {"date", "window_s"}
    looked_at -= {name for name in ROWS.names if name.startswith(("group_", "lag_p", "lag_at", "client_soft"))}
    looked_at -= {"dialect", "push_interval_ms"}
    for key, row in expected.items():
        for name in looked_at | {"lag_partition_max_records"}:
            assert found[key][name] == (
                pytest.approx(row[name], abs=1e-3) if name in row and isinstance(row[name], float) else row.get(name)
            ), (key, name)


@settings(max_examples=60, deadline=None)
@given(pushes(), st.randoms(use_true_random=False))
def test_any_split_and_order_gives_the_same(sent: list[list[Point]], chance: random.Random) -> None:
    at_once = aggregate(table([each for push in sent for each in push]), 300)
    chance.shuffle(sent)
    parts = []
    while sent:
        some = [sent.pop() for _ in range(chance.randrange(1, len(sent) + 1))]
        points = [each for push in some for each in push]
        chance.shuffle(points)
        parts.append(aggregate(table(points), 300))
    while len(parts) > 1:
        chance.shuffle(parts)
        number = chance.randrange(2, len(parts) + 1)
        parts = [merge(parts[:number]), *parts[number:]]
    assert by_key(merge(parts)) == by_key(at_once)


@settings(max_examples=30, deadline=None)
@given(pushes(), st.randoms(use_true_random=False))
def test_a_correction_makes_the_rows_of_the_points_as_they_are_now(
    sent: list[list[Point]], chance: random.Random
) -> None:
    before = [each for push in sent for each in push]
    after = [dict(each) for each in before]
    changed = chance.sample(range(len(before)), chance.randrange(len(before) + 1))
    for number in changed:
        more = {"gap": True, "before_subscription": False, "delta": float(chance.randrange(99))}
        after[number] |= chance.choice([more, {"before_subscription": True, "gap": False}])
    corrected = correction(table([before[n] for n in changed]), table([after[n] for n in changed]), 300)
    found, expected = by_key(merge([corrected, aggregate(table(before), 300)])), by_key(aggregate(table(after), 300))
    assert found == expected


# --- lag


def lag(at: float, *lags: tuple[int, float | None]) -> list[Point]:
    return [point(LAG, at, value, topic="orders", partition=partition) for partition, value in lags]


def of_client(at: float) -> Point:
    return point(LAG_OF_CLIENT, at, None)


def lags(*points: Point) -> list[tuple[int, float]] | None:
    found = client(*points).get("lag_partitions")
    return None if found is None else [(each["partition"], each["lag"]) for each in found]


def test_the_lag_is_that_of_the_latest_push_with_partitions() -> None:
    assert lags(*lag(0, (0, 5_000.0), (1, 10.0)), *lag(60, (1, 7.0))) == [(1, 7.0)]
    assert lags(*lag(60, (1, 7.0)), *lag(0, (0, 5_000.0))) == [(1, 7.0)]


def test_a_consumer_that_lost_its_partitions_has_no_lag() -> None:
    assert lags(*lag(0, (0, 5_000.0)), point(ASSIGNED, 60, 0.0)) == []
    assert lags(*lag(0, (0, 5_000.0)), of_client(60)) == []
    assert lags(*lag(0, (0, 5_000.0)), of_client(60), *lag(120, (0, 6.0))) == [(0, 6.0)]


def test_a_push_that_says_nothing_of_lags_leaves_them() -> None:
    assert lags(*lag(0, (0, 5_000.0)), point(f"{CONSUMER}.poll.idle.ratio.avg", 60, 0.9)) == [(0, 5_000.0)]
    assert lags(*lag(0, (0, 5_000.0)), point(ASSIGNED, 60, 1.0)) == [(0, 5_000.0)]
    assert lags(point(ASSIGNED, 60, 1.0)) is None


def test_partitions_whose_lag_is_not_known_yet_are_in_no_list() -> None:
    assert lags(*lag(0, (0, 5_000.0)), *lag(60, (1, None), (2, 3.0))) == [(2, 3.0)]


# --- others


def test_a_client_that_pushes_late_is_what_its_latest_push_said() -> None:
    late = aggregate(table([point("m", 10, 1.0, client_id="old", group_id="g")]), 300)
    (row,) = rows(aggregate(table([point("m", 20, 1.0, client_id="new")]), 300), late)
    assert (row["client_id"], row["pushes"]) == ("new", 2)


def test_the_clock_of_a_client_is_compared_with_the_receivers() -> None:
    nano = int(NOON.timestamp()) * 1_000_000_000
    row = client(
        point("m", 0, 1.0, time_unix_nano=nano - 40_000_000_000),
        point("m", 0, 1.0, time_unix_nano=nano - 41_000_000_000),
        point("m", 60, 1.0, time_unix_nano=nano + 61_000_000_000),
        point("m", 61, 1.0, time_unix_nano=0),
    )
    assert (row["clock_skew_min_ms"], row["clock_skew_max_ms"]) == (-1_000.0, 40_000.0)


def test_links_of_one_identity_are_one_row_and_every_point_counts() -> None:
    both = [
        point(LATENCY, 0, 3.0, node_id=-1, coordinator=False),
        point(LATENCY, 0, 5.0, node_id=-1, coordinator=False, occurrence=1),
    ]
    row, _ = rows(aggregate(table(both), 300))
    assert (row["role"], row["node_id"], row["request_latency_avg_ms_sum"], row["request_latency_avg_ms_count"]) == (
        "producer",
        -1,
        8_000_000,
        2,
    )


def test_topics_are_counted_once_though_java_sends_those_with_a_dot_twice() -> None:
    found = rows(
        aggregate(
            table(
                [
                    total(CONSUMED, 0, 30.0),
                    total(CONSUMED, 0, 20.0, topic="a.b"),
                    total(CONSUMED, 0, 20.0, topic="a_b", twin=True),
                    total(CONSUMED, 0, 10.0, topic="c"),
                ]
            ),
            300,
        )
    )
    assert {row.get("topic"): row["records_consumed_sum"] for row in found} == {
        None: 30_000,
        "a.b": 20_000,
        "c": 10_000,
    }


def test_two_clusters_with_one_instance_id_are_two_clients() -> None:
    points = table([point("m", 0, 1.0, cluster_id="a"), point("m", 0, 1.0, cluster_id="b")])
    assert [(row["cluster_id"], row["pushes"]) for row in rows(aggregate(points, 300))] == [("a", 1), ("b", 1)]


def test_windows_of_two_lengths_that_begin_together_stay_apart() -> None:
    points = table([point("m", 0, 1.0), point("m", 100, 1.0)])
    found = rows(aggregate(points, 60), aggregate(points, 300))
    assert sorted((row["window_s"], row["pushes"]) for row in found) == [(60, 1), (60, 1), (300, 2)]


def test_nothing_makes_no_rows() -> None:
    assert merge([]).num_rows == aggregate(table([]), 300).num_rows == 0
    assert merge([]).schema == aggregate(table([]), 300).schema == ROWS


@pytest.mark.parametrize("window_s", [7, 0, -300, 86_401])
def test_a_window_that_does_not_divide_a_day_is_refused(window_s: int) -> None:
    with pytest.raises(ValueError, match=rf"a window of {window_s} s does not divide a day; take one that does"):
        aggregate(table([]), window_s)


def test_points_may_be_encoded_as_dictionaries() -> None:
    points = table([*lag(0, (0, 5.0)), total(CONSUMED, 0, 20.0, topic="c"), point(LATENCY, 0, 1.0, node_id=1)])
    kinds = [pa.dictionary(pa.int32(), each.type) if each.type == pa.string() else each.type for each in POINTS]
    encoded = pa.table([points[each.name].cast(kind) for each, kind in zip(POINTS, kinds, strict=True)], POINTS.names)
    assert aggregate(encoded, 300).equals(aggregate(points, 300))


def test_every_metric_of_the_table_is_one_that_clients_send() -> None:
    known = {metric.name for metric in known_metrics()}
    assert {name for measure in MEASURES for name in measure.names} <= known
