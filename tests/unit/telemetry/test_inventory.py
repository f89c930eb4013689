"""Who is there: rows, states, filters, and the metrics of single instances."""

import math
import uuid

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.telemetry.instances.client_metrics import INSTANCE_METRICS, TOTAL_METRICS
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.inventory import ClientFilter, ClientRow, row_of, state_of
from fleetgauge.telemetry.instances.metrics import InstanceMetrics
from fleetgauge.telemetry.push_record import format_instance_id

INTERVAL_MS = 60_000


def rows(node: Node) -> list[ClientRow]:
    register = node.manager.instances.cache.register
    clocks = {"now_ms": node.time.hi_res_clock_ms(), "now_us": node.time.microseconds()}
    return [row_of(each, **clocks) for each in register.between(0, len(register))]


def the_row(node: Node) -> ClientRow:
    (row,) = rows(node)
    return row


def test_a_row_says_who_pushed_what_and_when(node: Node, client: Client, alice: KafkaPrincipal) -> None:
    client.context.update(principal=alice)
    client.get()
    node.time.sleep(1_000)
    pushed_at = node.time.microseconds()
    assert client.answer(metrics=b"") is ErrorCode.NONE
    node.time.sleep(500)
    seen_at = node.time.microseconds()
    client.get()
    node.time.sleep(250)
    row = the_row(node)
    assert row == ClientRow(
        client_instance_id=format_instance_id(client.given_id),
        client_id="app",
        client_software_name="apache-kafka-java",
        client_software_version="4.4.0",
        principal="User:alice",
        client_source_address="10.0.0.9",
        client_source_port=40_001,
        listener="PLAINTEXT",
        connections=1,
        state="throttled",
        subscriptions=("all",),
        metrics=("*",),
        push_interval_ms=INTERVAL_MS,
        subscription_id=client.subscription_id,
        pushes=1,
        push_bytes=0,
        last_push_at=pushed_at,
        last_seen_at=seen_at,
        refused=1,
        last_error="THROTTLING_QUOTA_EXCEEDED",
        last_error_reason="get_before_interval",
        last_error_at=seen_at,
    )


def test_times_are_told_by_the_monotonic_clock_whatever_the_wall_clock_did(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.time.jump_wall_clock(3_600_000)
    node.time.sleep(2_000)
    assert the_row(node).last_push_at == node.time.microseconds() - 2_000_000


def test_payloads_are_counted_as_received_and_only_once_they_are_logged(node: Node, client: Client) -> None:
    client.get()
    push = client.accepted(metrics=b"")
    assert the_row(node).pushes == 0
    node.manager.not_logged((push,), node.time.hi_res_clock_ms())
    row = the_row(node)
    assert (row.pushes, row.last_error_reason, row.last_push_at) == (0, "push_log_unavailable", None)
    first = client.accepted()
    node.manager.logged((first,), node.time.hi_res_clock_ms())
    row = the_row(node)
    assert (row.pushes, row.push_bytes, row.state) == (1, len(first.encoded), "live")
    assert row.push_bytes


def test_the_port_is_that_of_the_latest_request(node: Node, client: Client) -> None:
    client.get("bootstrap")
    client.context.update(client_port=5)
    client.answer("broker")
    assert the_row(node).client_source_port == 5
    assert the_row(node).connections == 2
    node.disconnect("broker")
    assert the_row(node).client_source_port == 5
    client.context.update(client_port=40_001)
    client.answer("bootstrap")
    assert the_row(node).client_source_port == 40_001
    assert the_row(node).connections == 1


def test_a_subscription_under_another_name_is_named_and_disturbs_nobody(node: Node, client: Client) -> None:
    client.get()
    known = client.subscription_id
    node.manager.subscriptions.replace({"b": {"metrics": "*", "interval.ms": "60000"}, "a": {"metrics": "*"}})
    assert client.answer(subscription_id=known) is ErrorCode.NONE
    assert the_row(node).subscriptions == ("a", "b")


def state(node: Node) -> str:
    return the_row(node).state


def test_a_client_is_new_then_live_then_late(node: Node, client: Client) -> None:
    client.get()
    assert state(node) == "new"
    client.answer()
    assert state(node) == "live"
    node.time.sleep(1.5 * INTERVAL_MS + 1_000)
    assert state(node) == "live"
    node.time.sleep(1)
    assert state(node) == "late"
    client.answer()
    assert state(node) == "live"


def test_a_client_whose_latest_request_failed_says_how(node: Node, client: Client) -> None:
    client.get()
    client.answer(subscription_id=1)
    assert (state(node), the_row(node).last_error) == ("refused", "UNKNOWN_SUBSCRIPTION_ID")
    client.get()
    assert state(node) == "new"
    assert the_row(node).last_error == "UNKNOWN_SUBSCRIPTION_ID", "the last error is remembered"
    client.answer()
    client.answer()
    assert state(node) == "throttled"
    client.answer(terminating=True)
    assert state(node) == "ended"


def test_a_client_that_nothing_is_asked_of_is_never_late(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(subscribed=False)
    make_client(node).get()
    node.time.sleep(700_000)
    assert state(node) == "unsubscribed"


def test_every_state_can_be_asked_for(node: Node, client: Client) -> None:
    client.get()
    instance = next(node.manager.instances.cache.register.between(0, 1))
    now_ms = node.time.hi_res_clock_ms()
    found = [each for each in ClientState if ClientFilter.of({"state": each}).accepts(instance, now_ms)]
    assert found == [state_of(instance, now_ms)]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"client_id": "app"}, True),
        ({"client_id": "ap"}, False),
        ({"client_id": "ap*"}, True),
        ({"client_id": "b*"}, False),
        ({"software": "apache-kafka-java"}, True),
        ({"software": "apache-kafka-java/4.4.0"}, True),
        ({"software": "apache-kafka-java/4.*"}, True),
        ({"software": "apache-kafka-java/3.*"}, False),
        ({"software": "apache*"}, True),
        ({"principal": "User:ANONYMOUS"}, True),
        ({"principal": "User:alice"}, False),
        ({"state": "new,live"}, True),
        ({"state": "late"}, False),
        ({"client_id": "app", "state": "late"}, False),
        ({}, True),
    ],
)
def test_a_filter_takes_whole_texts_and_prefixes(
    node: Node, client: Client, wanted: dict[str, object], fits: bool
) -> None:
    client.get()
    instance = next(node.manager.instances.cache.register.between(0, 1))
    assert ClientFilter.of(wanted).accepts(instance, node.time.hi_res_clock_ms()) is fits


def test_an_instance_is_found_by_its_id_in_every_form_that_clients_log(node: Node, make_client: type[Client]) -> None:
    one, other = make_client(node, "c1"), make_client(node, "c2", client_id="other")
    one.id = uuid.UUID("fbefbefb-efbe-4bef-bbef-fbefbefbefbe")
    one.get()
    other.get()
    url_safe = format_instance_id(one.given_id)
    standard = url_safe.replace("-", "+").replace("_", "/")
    now_ms = node.time.hi_res_clock_ms()
    for form in (url_safe, standard, standard + "==", one.id.hex, str(one.id)):
        chosen = ClientFilter.of({"instance_id": form})
        found = [each for each in node.manager.instances.cache.register.between(0, 9) if chosen.accepts(each, now_ms)]
        assert [each.instance_id for each in found] == [one.id]


@pytest.mark.parametrize(
    "wanted", [{"colour": "<script>"}, {"state": "<script>"}, {"instance_id": "<script>"}, {"state": 1}]
)
def test_what_cannot_be_asked_for_is_one_sentence_that_repeats_nothing(wanted: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"filter|state|instance") as refused:
        ClientFilter.of(wanted)
    assert "<script>" not in str(refused.value)


def test_places_of_those_who_left_are_used_again(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(cache_max_size=10)
    for index in range(100):
        make_client(node, f"c{index}").get()
    assert len(node.manager.instances.cache.register) == 10
    assert len(rows(node)) == 10
    for index in range(100):
        node.disconnect(f"c{index}")
    assert rows(node) == []
    make_client(node, "again").get()
    assert len(node.manager.instances.cache.register) == 10
    assert len(rows(node)) == 1


def test_equal_software_of_many_clients_is_kept_once_and_long_software_is_cut(
    node: Node, make_client: type[Client]
) -> None:
    for index in range(2):
        make_client(node, f"c{index}", client_software_version="".join(["1.", "x" * 5_000])).get()
    first, second = node.manager.instances.cache.register.between(0, 2)
    assert first.client_software_version is second.client_software_version
    assert len(first.client_software_version) == 256


# Metrics of single instances


def own_metrics(node: Node) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for name, metric in node.metrics.metrics().items():
        if name.group == "client-metrics" and name.tags:
            assert set(name.tags) == {"client_instance_id"}
            value = metric.metric_value()
            assert isinstance(value, float)
            found[name.tags["client_instance_id"], name.name] = value
    return found


def test_the_totals_have_the_names_of_kafkas_broker(node: Node) -> None:
    found = {name.name for name in node.metrics.metrics() if name.group == "client-metrics"}
    assert found == {
        "instance-count",
        "unknown-subscription-request-rate",
        "unknown-subscription-request-count",
        "throttle-rate",
        "throttle-count",
        "plugin-export-rate",
        "plugin-export-count",
        "plugin-error-rate",
        "plugin-error-count",
        "plugin-export-time-avg",
        "plugin-export-time-max",
    }
    assert found == {metric.name for metric in TOTAL_METRICS} == set(node.manager.figures.client_metrics.values())


def test_without_asking_there_are_no_metrics_of_single_instances(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    assert own_metrics(node) == {}


def test_an_instance_has_kafkas_metrics_of_its_own_where_they_are_asked_for(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(instance_metrics_max=10)
    client, quiet = make_client(node), make_client(node, "c2", client_id="quiet")
    client.get()
    quiet.get()
    push = client.accepted()
    node.time.sleep(4)
    node.manager.logged((push,), node.time.hi_res_clock_ms())
    client.answer()
    node.time.sleep(INTERVAL_MS)
    node.manager.not_logged((client.accepted(),), node.time.hi_res_clock_ms())
    found = own_metrics(node)
    mine, other = format_instance_id(client.given_id), format_instance_id(quiet.given_id)
    assert {name for _, name in found} == {metric.name for metric in INSTANCE_METRICS}
    assert len(found) == 2 * len(INSTANCE_METRICS)
    assert (found[mine, "throttle-count"], found[other, "throttle-count"]) == (1, 0)
    assert found[mine, "plugin-export-count"] == 1
    assert found[mine, "plugin-error-count"] == 1
    assert found[mine, "plugin-error-rate"] > 0
    assert math.isnan(found[other, "plugin-export-time-avg"])
    assert node.sensor("throttle-count") == 1, "the totals count all the same"


@pytest.mark.parametrize("way", ["eviction", "expiry", "disconnect", "close"])
def test_no_series_of_a_gone_client_stays(make_node: type[Node], make_client: type[Client], way: str) -> None:
    node = make_node(instance_metrics_max=10, cache_max_size=1)
    make_client(node).get()
    assert own_metrics(node)
    if way == "eviction":
        other = make_client(node, "c2")
        other.get()
        assert {instance for instance, _ in own_metrics(node)} == {format_instance_id(other.given_id)}
        assert node.manager.figures.counters()["instances_with_metrics"] == 1
        return
    if way == "expiry":
        node.time.sleep(3 * INTERVAL_MS)
        assert node.expire() == 1
    elif way == "disconnect":
        assert node.disconnect("c1") == 1
    else:
        node.manager.close()
    assert own_metrics(node) == {}
    assert node.manager.figures.counters()["instances_with_metrics"] == 0


def test_metrics_of_single_instances_are_bounded_and_who_got_none_is_counted(
    make_node: type[Node], make_client: type[Client], alice: KafkaPrincipal
) -> None:
    node = make_node(instance_metrics_max=2)
    clients = [make_client(node, f"c{index}") for index in range(3)]
    for each in clients:
        each.get()
    assert len(own_metrics(node)) == 2 * len(INSTANCE_METRICS)
    assert node.manager.figures.counters()["instances_without_metrics"] == 1
    node.disconnect("c0")
    rogue = make_client(node, "c4", principal=alice)
    rogue.id = clients[1].id
    rogue.get()
    assert node.manager.figures.counters()["instances_without_metrics"] == 2, "one id is one series"
    node.disconnect("c4")
    assert len(own_metrics(node)) == len(INSTANCE_METRICS), "those of the other principal stay"


def test_a_rate_is_kafkas_over_two_windows_of_thirty_seconds() -> None:
    metrics = InstanceMetrics(now_ms=0)
    for at_ms in (1_000, 2_000, 3_000):
        metrics.record_throttle(at_ms)
    assert metrics.values(15_000).throttle_rate == 3 / 45
    metrics.record_throttle(40_000)
    assert metrics.values(45_000).throttle_rate == 4 / 45
    assert metrics.values(70_000).throttle_rate == 1 / 40
    assert metrics.values(200_000)[:2] == (0, 4)


def test_the_times_of_exports_are_of_the_latest_two_windows() -> None:
    metrics = InstanceMetrics(now_ms=0)
    metrics.record_plugin_export(10.0, 1_000)
    metrics.record_plugin_export(2.0, 31_000)
    assert (metrics.values(32_000).plugin_export_time_avg, metrics.values(32_000).plugin_export_time_max) == (6, 10)
    assert (metrics.values(61_000).plugin_export_time_avg, metrics.values(61_000).plugin_export_time_max) == (2, 2)
    assert math.isnan(metrics.values(91_000).plugin_export_time_max)


def test_instance_count_counts_an_id_once_however_many_senders_use_it(
    node: Node, client: Client, make_client: type[Client], alice: KafkaPrincipal
) -> None:
    """Kafka's cache has one entry per id. The first sender may leave before the others, and a new one come after it."""
    client.get()
    others = [make_client(node, f"c{number}", client_address=f"10.0.0.{number}") for number in range(2, 5)]
    for other in others:
        other.id = client.id
        other.get()
    make_client(node, "c9", principal=alice).get()
    assert node.sensor("instance-count") == 2
    assert len(node.manager.instances.cache) == 5
    assert node.manager.figures.counters()["instance_id_clashes"] == 3
    node.disconnect("c1")
    assert node.sensor("instance-count") == 2
    client.get("c8")
    assert node.sensor("instance-count") == 2
    for connection in ("c2", "c3", "c8"):
        node.disconnect(connection)
        assert node.sensor("instance-count") == 2
    node.disconnect("c4")
    assert node.sensor("instance-count") == 1
    client.get("c8")
    assert node.sensor("instance-count") == 2
