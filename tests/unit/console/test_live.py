"""Measures and verdicts of payloads as they come."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData
from support.fleet.console_fleet import WALL_MS, FleetOfTest, instance_id
from support.payloads.payloads import metrics_data
from support.payloads.real_pushes import real_pushes
from support.programs.push_log import push_record, zstd

from fleetgauge.console.state.fleet import ClientQuery
from fleetgauge.console.state.live import Budget, LiveMeasures
from fleetgauge.console.state.source import StoredPush

JAVA = "apache-kafka-java"
LATENCY = "request_latency_avg_ms"


def total(name: str, value: float, at_s: float, *, start_s: float = 0, cumulative: bool = True) -> bytes:
    """A payload of one sum."""
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="group_id").value.string_value = "shoppers"
    metric = resource.scope_metrics.add().metrics.add(name=name)
    kind = AggregationTemporality
    metric.sum.aggregation_temporality = (
        kind.AGGREGATION_TEMPORALITY_CUMULATIVE if cumulative else kind.AGGREGATION_TEMPORALITY_DELTA
    )
    metric.sum.is_monotonic = True
    start = WALL_MS * 1_000_000
    point = metric.sum.data_points.add(as_double=value)
    point.time_unix_nano = start + round(at_s * 1e9)
    point.start_time_unix_nano = start + round(start_s * 1e9)
    return data.SerializeToString()


@pytest.fixture
def of() -> FleetOfTest:
    return FleetOfTest(decode_cores=1_000.0)


def test_what_real_clients_push_becomes_measures_role_and_group(of: FleetOfTest) -> None:
    for number, payload in enumerate(real_pushes()):
        of.push(f"client-{number}", payload, number=number, terminating=False)
    of.pass_time(10)
    rows = of.rows(sort="client_id", order="asc")
    assert {row["role"] for row in rows} == {"producer", "consumer"}
    assert any(row["group_id"] for row in rows)
    for row in rows:
        assert any(value is not None for value in row["measures"].values()), row
    assert of.fleet.overview()["brokers"] >= 1
    json.dumps([of.fleet.overview(), rows, of.fleet.groups(), of.fleet.brokers()], allow_nan=False)


def test_latency_is_kept_by_node_and_minute_beside_that_of_peers(of: FleetOfTest) -> None:
    for minute in range(3):
        for number in range(12):
            of.push(f"orders-{number}", metrics_data(3), number=number, terminating=False, push_interval_ms=60_000)
        of.pass_time(60 if minute < 2 else 10)
    found = of.fleet.client(instance_id(0))
    assert found is not None
    assert [(each["measure"], each["node_id"]) for each in found["series"]] == [
        (LATENCY, None), (LATENCY, 0), (LATENCY, 1), (LATENCY, 2)
    ]  # fmt: skip
    mean, _, _, node_2 = found["series"]
    assert mean["values"][-3:] == [1.5, 1.5, 1.5]
    assert mean["values"][:-3] == [None] * 57
    assert node_2["values"][-3:] == node_2["peers"][-3:] == [2.5, 2.5, 2.5]
    assert len(mean["times"]) == 60
    assert mean["times"][-1] - mean["times"][-2] == 60_000_000
    brokers = of.fleet.brokers()["brokers"]
    assert [(row["node_id"], row["clients"], row[LATENCY]) for row in brokers] == [
        (0, 12, 0.5),
        (1, 12, 1.5),
        (2, 12, 2.5),
    ]
    assert brokers[2]["history"]["values"][-1] == 2.5
    assert set(of.names(broker="2")) == {f"orders-{number}" for number in range(12)}


def test_below_eight_peers_there_is_no_median(of: FleetOfTest) -> None:
    for number in range(8):
        of.push(f"orders-{number}", metrics_data(1), number=number, terminating=False)
    of.pass_time(10)
    found = of.fleet.client(instance_id(0))
    assert found is not None
    assert set(found["series"][0]["peers"]) == {None}


@pytest.mark.slow
@pytest.mark.parametrize("cumulative", [True, False])
def test_growth_is_that_of_the_minute_for_totals_and_for_deltas(of: FleetOfTest, cumulative: bool) -> None:
    name = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
    for minute, value in enumerate((100, 130, 190)):
        sent = value if cumulative else (0, 30, 60)[minute]
        start_s = 0 if cumulative else 60 * (minute - 1)
        payload = total(name, sent, 60 * minute, start_s=start_s, cumulative=cumulative)
        of.push("reader", payload, number=1, terminating=False, push_interval_ms=60_000)
        of.pass_time(60)
    of.pass_time(60)
    found = of.fleet.client(instance_id(1))
    assert found is not None
    series = {each["measure"]: each["values"] for each in found["series"]}["records_consumed"]
    assert [value for value in series if value is not None][-2:] == [30, 60]
    assert of.fleet.groups()["groups"][0]["group_id"] == "shoppers"


def test_several_pushes_of_a_minute_in_several_pieces_add_up(of: FleetOfTest) -> None:
    """While the minute runs nothing is shown: a part of its growth looks like a client that stops."""
    name = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
    for second in (0, 15, 30):
        payload = total(name, 10, second, start_s=second - 15, cumulative=False)
        of.push("reader", payload, number=1, terminating=False, push_interval_ms=15_000)
        of.pass_time(15)
        found = of.fleet.client(instance_id(1))
        assert found is not None
        assert found["series"] == []
    of.pass_time(60)
    found = of.fleet.client(instance_id(1))
    assert found is not None
    assert [value for value in found["series"][0]["values"] if value is not None] == [30]


def test_malformed_payloads_are_counted_and_spoil_no_other(of: FleetOfTest) -> None:
    of.push("broken", b"\xff" * 500, number=1, terminating=False)
    of.push("cut", metrics_data(3)[:-5], number=2, terminating=False)
    of.push("good", metrics_data(3), number=3, terminating=False)
    of.push("heartbeat", b"", number=4, terminating=False)
    of.pass_time(10)
    measures = {row["client_id"]: row["measures"][LATENCY] for row in of.rows()}
    assert measures == {"broken": None, "cut": None, "good": 1.5, "heartbeat": None}
    assert "2 payloads could not be read." in of.fleet.overview()["notices"]


def test_a_payload_that_its_codec_does_not_take_is_counted() -> None:
    live = LiveMeasures(None, 100, 1.0)
    good = zstd(metrics_data(2))
    record = push_record(0)
    live.put(
        [
            StoredPush(0, 1, record._replace(metrics=b"no zstd"), "zstd", 100),
            StoredPush(0, 2, record._replace(metrics=good), "zstd", 7),
            StoredPush(0, 3, record._replace(metrics=good), "unheard of", len(metrics_data(2))),
            StoredPush(0, 4, record._replace(metrics=good), "zstd", len(metrics_data(2))),
        ]
    )
    measured = live.take(record.received_at)
    assert live.malformed == 3
    assert measured is not None
    assert len(measured.values) == 1


def test_a_clock_that_is_set_back_begins_measures_again(of: FleetOfTest) -> None:
    of.push("orders", metrics_data(1), number=1, terminating=False)
    of.pass_time(70)
    of.time.jump_wall_clock(-7_200_000)
    of.push("orders", metrics_data(2), number=1, terminating=False)
    of.pass_time(10)
    assert of.rows()[0]["measures"][LATENCY] == 1.0


def test_beyond_the_budget_the_payloads_of_the_same_clients_are_left_out_and_counted() -> None:
    clock = {"cpu": 0, "now": 0}
    budget = Budget(0.5, lambda: clock["cpu"], lambda: clock["now"])
    for _ in range(100):  # each chunk takes a second of CPU, and comes every second
        budget.begin()
        clock["cpu"] += round(1e9 * budget.share)
        budget.end()
        clock["now"] += 1_000_000_000
    assert clock["cpu"] / clock["now"] < 0.85
    assert 1 / 64 <= budget.share < 1
    ids = [instance_id(number) for number in range(1_000)]
    taken = [each for each in ids if budget.takes(each)]
    assert taken == [each for each in ids if budget.takes(each)]
    assert len(taken) == pytest.approx(1_000 * budget.share, abs=80)
    clock["now"] += 600_000_000_000
    for _ in range(10):
        budget.begin()
        budget.end()
    assert budget.share == 1
    assert all(budget.takes(each) for each in ids)


def test_without_the_extra_identities_remain_and_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "fleetgauge.console.state.analysis":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    of = FleetOfTest()
    monkeypatch.undo()
    of.push("orders", metrics_data(1), number=1, terminating=False)
    of.pass_time(10)
    assert of.states() == {"orders": "live"}
    why_not = "Measures and verdicts need numpy: pip install 'fleetgauge[console]'."
    overview = of.fleet.overview()
    assert overview["measures"] == overview["verdicts"]["not_judged"] == why_not
    assert (overview["groups"], overview["brokers"]) == (None, None)
    assert of.rows()[0]["measures"] == {}
    assert of.fleet.groups() == {"groups": [], "why_not": why_not}
    assert of.fleet.brokers() == {"brokers": [], "why_not": why_not}
    assert of.fleet.verdicts()["verdicts"] == []
    assert of.fleet.verdicts()["not_judged"] == why_not
    assert of.fleet.facets("state", ClientQuery())["facets"][0]["measures"] == {}
    found = of.fleet.client(instance_id(1))
    assert found is not None
    assert found["series"] == []
    assert found["not_judged"] == why_not


def test_a_fleet_is_not_judged_until_a_minute_is_over(of: FleetOfTest) -> None:
    of.push("orders", real_pushes()[0], number=1, terminating=False)
    of.pass_time(10)
    assert "Nothing is judged yet" in of.fleet.overview()["verdicts"]["not_judged"]
    of.pass_time(70)
    assert of.fleet.overview()["verdicts"]["not_judged"] is None
    assert of.fleet.verdicts()["not_judged"] is None


def test_rules_that_cannot_be_read_are_a_notice(tmp_path: Any) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[no-such-verdict]\nfactor = 3\n")
    of = FleetOfTest(rules=rules)
    of.pass_time(3)
    assert any("Live verdicts use the default rules" in each for each in of.fleet.overview()["notices"])


def test_tables_that_are_not_there_are_a_notice(tmp_path: Any) -> None:
    of = FleetOfTest(tables=str(tmp_path / "none"))
    of.pass_time(10)
    overview = of.fleet.overview()
    assert any("cannot be read now" in each for each in overview["notices"])
    assert "No verdicts could be read" in overview["verdicts"]["not_judged"]
    assert of.fleet.verdicts()["source"] == "tables"


@pytest.mark.slow
def test_a_backlog_of_large_payloads_is_decoded_as_it_is_read(of: FleetOfTest) -> None:
    large = metrics_data(400)
    for number in range(700):
        of.push("orders", large, number=number, terminating=False)
    while not of.source.is_read:
        of.fleet.step()
    waiting = of.fleet._analysis.live._waiting  # type: ignore[union-attr]
    assert sum(push.size_bytes for push in waiting) < 4 << 20


def test_payloads_that_a_decoder_fails_at_are_counted_and_the_next_are_read(
    of: FleetOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OverflowError("hostile")

    with monkeypatch.context() as patched:
        patched.setattr("fleetgauge.console.state.live.LivePushes.take", fails)
        of.push("orders", metrics_data(2), number=1, terminating=False)
        of.pass_time(10)
    assert "1 payloads could not be read." in of.fleet.overview()["notices"]
    of.push("orders", metrics_data(2), number=1, terminating=False)
    of.pass_time(10)
    assert of.rows()[0]["measures"][LATENCY] == 1.0


@pytest.mark.slow
def test_ids_without_end_are_forgotten_by_the_judge_too() -> None:
    of = FleetOfTest(clients_max=20, decode_cores=1_000.0)
    for number in range(200):
        of.push(f"id-{number}", metrics_data(1), number=number, terminating=False)
        of.pass_time(6, 3)
    analysis = of.fleet._analysis
    assert analysis is not None
    assert len(analysis.live.memory.registry.instances) <= 60
    assert len(of.fleet._clients._instances) <= 21
    assert analysis._numbers <= 60
    assert any(each.startswith("Live verdicts were reset") for each in of.fleet.overview()["notices"])


NODE_LATENCY = "org.apache.kafka.{}.node.request.latency.avg"


def measured(role: str, latency_ms: float, **polls: float) -> bytes:
    """A payload with the same latency of three brokers, and gauges of the consumer."""
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    for node in range(1, 4):
        point = metrics.add(name=NODE_LATENCY.format(role)).gauge.data_points.add(as_double=latency_ms)
        point.attributes.add(key="node_id").value.string_value = f"node-{node}"
    for name, value in polls.items():
        metrics.add(name=f"org.apache.kafka.consumer.{name.replace('_', '.')}").gauge.data_points.add(as_double=value)
    return data.SerializeToString()


ASLEEP = measured("consumer", 1_400.0, poll_idle_ratio_avg=0.05, time_between_poll_avg=1_500.0)
POLLS_ALONE = measured("consumer", 502.0, poll_idle_ratio_avg=0.5, time_between_poll_avg=500.0)
TINY_FETCHES = measured("consumer", 5.0, fetch_manager_fetch_rate=100.0, fetch_manager_fetch_size_avg=100.0)
MOSTLY_POLLS = measured("consumer", 300.0, poll_idle_ratio_avg=0.2, time_between_poll_avg=500.0)


def broker_latencies(of: FleetOfTest) -> list[tuple[float | None, float | None]]:
    return [(row[LATENCY], row["p95_ms"]) for row in of.fleet.brokers()["brokers"]]


@pytest.mark.parametrize("seconds", [10, 130])
def test_brokers_are_not_shown_slow_for_a_consumer_that_sleeps_or_waits_for_data(of: FleetOfTest, seconds: int) -> None:
    of.push("asleep", ASLEEP, client_software_name=JAVA, terminating=False)
    of.push("within-the-wait", MOSTLY_POLLS, client_software_name=JAVA, terminating=False)
    of.pass_time(seconds)
    assert broker_latencies(of) == [(None, None)] * 3
    found = of.fleet.client(of.rows(q="asleep")[0]["client_instance_id"])
    assert found is not None
    assert {value for each in found["series"] if each["measure"] == LATENCY for value in each["values"]} == {
        None,
        1_400,
    }
    of.push("idle", POLLS_ALONE, client_software_name=JAVA, terminating=False)
    of.pass_time(10)
    assert broker_latencies(of) == [(2.0, 2.0)] * 3


def test_three_producers_alone_say_how_slow_a_broker_is(of: FleetOfTest) -> None:
    of.push("reader", measured("consumer", 900.0), terminating=False)
    for number, latency_ms in enumerate((20.0, 20.0)):
        of.push(f"orders-{number}", measured("producer", latency_ms), terminating=False)
    of.pass_time(10)
    assert broker_latencies(of)[0][0] == pytest.approx((400 + 20 + 20) / 3)
    of.push("orders-2", measured("producer", 20.0), terminating=False)
    of.pass_time(10)
    assert broker_latencies(of) == [(20.0, 20.0)] * 3


@pytest.mark.parametrize("seconds", [10, 130])
def test_time_in_poll_is_that_of_a_day_for_java_too(of: FleetOfTest, seconds: int) -> None:
    """Kafka's ratio is 0.5 of a consumer that does nothing but poll; librdkafka's is 1 then."""
    of.push("java-polls", POLLS_ALONE, client_software_name=JAVA, terminating=False)
    of.push("java-works", MOSTLY_POLLS, client_software_name=JAVA, terminating=False)
    of.push("c-polls", measured("consumer", 1.0, poll_idle_ratio_avg=0.78), terminating=False)
    of.pass_time(seconds)
    shown = {row["client_id"]: row["measures"]["poll_idle_ratio_avg"] for row in of.rows()}
    assert shown == pytest.approx({"java-polls": 1.0, "java-works": 0.25, "c-polls": 0.78})


@pytest.mark.parametrize("pushed_before", [False, True])
def test_no_verdict_is_shown_since_before_the_first_push_of_its_client(of: FleetOfTest, pushed_before: bool) -> None:
    """It is found by windows, and so is its identity: one that began within the first window began with the client."""
    if pushed_before:
        of.push("reader", measured("consumer", 5.0), number=1, client_software_name=JAVA, terminating=False)
        of.pass_time(60, 10)
    of.pass_time(25)
    first = of.time.microseconds()
    for _ in range(13):
        of.push("reader", TINY_FETCHES, number=1, client_software_name=JAVA, terminating=False)
        of.pass_time(60, 10)
    [row] = of.fleet.verdicts()["verdicts"]
    assert (row["verdict"], row["opened_at"]) == ("tiny-fetches", first // 60_000_000 * 60_000_000)
    assert row["since"] == (row["opened_at"] if pushed_before else first)
    assert of.fleet.client(instance_id(1))["verdicts"][0]["since"] == row["since"]  # type: ignore[index]


def test_open_verdicts_outlast_a_restart_and_are_not_judged_twice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"decode_cores": 1_000.0, "kept_memory": tmp_path / "console-node.zip"}
    before = FleetOfTest(**settings)
    pushes = []
    for _ in range(13):
        pushes.append(before.push("reader", TINY_FETCHES, number=1, client_software_name=JAVA, terminating=False))
        before.pass_time(60, 10)
    [opened] = before.fleet.verdicts()["verdicts"]
    before.fleet.stop()
    after = FleetOfTest(before.time, **settings)
    assert after.fleet.verdicts()["verdicts"] == [opened]
    after.source.give(pushes)  # the hour that a console reads back
    after.pass_time(130, 10)
    names = ("verdict", "subject", "opened_at")
    [row] = after.fleet.verdicts()["verdicts"]
    assert [row[name] for name in names] == [opened[name] for name in names]


@pytest.mark.parametrize("damage", ["half", "none", "rules"])
def test_what_cannot_be_remembered_is_judged_anew(damage: str, tmp_path: Path) -> None:
    kept, rules = tmp_path / "console-node.zip", tmp_path / "rules.toml"
    before = FleetOfTest(decode_cores=1_000.0, kept_memory=kept)
    before.push("orders", real_pushes()[0], number=1, terminating=False)
    before.pass_time(80)
    before.fleet.stop()
    if damage == "half":
        kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    rules.write_text("[tiny-fetches]\nfor_s = 120\n" if damage == "rules" else "")
    after = FleetOfTest(before.time, decode_cores=1_000.0, kept_memory=kept, rules=rules)
    judged_before = "Nothing is judged yet" not in str(after.fleet.overview()["verdicts"]["not_judged"])
    assert judged_before == (damage == "none")


def test_what_is_suspected_and_when_verdicts_can_come_is_told_before_there_are_any(of: FleetOfTest) -> None:
    for _ in range(3):
        of.push("reader", TINY_FETCHES, number=1, client_software_name=JAVA, terminating=False)
        of.pass_time(60, 10)
    overview = of.fleet.overview()["verdicts"]
    assert overview["suspected"] == 1
    assert overview["first_verdicts"] == overview["judged_from"] + 300_000_000
    [row] = of.fleet.verdicts()["suspected"]
    assert (row["verdict"], row["title"]) == ("tiny-fetches", "reader fetches very little data per request")
    assert of.fleet.client(instance_id(1))["suspected"] == [row]  # type: ignore[index]
    for _ in range(10):
        of.push("reader", TINY_FETCHES, number=1, client_software_name=JAVA, terminating=False)
        of.pass_time(60, 10)
    overview = of.fleet.overview()["verdicts"]
    assert (overview["suspected"], overview["first_verdicts"], overview["info"]) == (0, None, 1)
