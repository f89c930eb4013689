"""Names and labels of series: the clients' dialects read as one, nothing told twice, nobody's name taken."""

from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData
from support.payloads.client_series import (
    CUMULATIVE,
    LATENCY,
    LATENCY_ON_PAGE,
    REQUESTS,
    REQUESTS_ON_PAGE,
    attributes,
    counter,
    export,
    gauge,
    page_of,
    push,
    samples_of,
)

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.exporters.prometheus.derived_labels import DERIVED
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter

LAG = "org.apache.kafka.consumer.fetch.manager.records.lag"
LAG_ON_PAGE = "org_apache_kafka_consumer_fetch_manager_records_lag"


@pytest.mark.parametrize(
    ("attribute", "labels"),
    [
        ({"node_id": "node-1"}, {"node_id": "1"}),
        ({"node__id": 1001}, {"node_id": "1001"}),
        ({"node_id": 7}, {"node_id": "7"}),
        ({"node_id": "node-2147483646"}, {"node_id": "1", "coordinator": "true"}),
        ({"node_id": "node-+1"}, {"node_id": "1", "coordinator": "true"}),
        ({"node_id": "node--3"}, {"node_id": "-1"}),
        ({"node_id": "elsewhere"}, {"node_id": "elsewhere"}),
        ({"member_id": "m-1"}, {"group_member_id": "m-1"}),
        ({"group_member_id": "m-1"}, {"group_member_id": "m-1"}),
        ({"flag": True, "ratio": 0.5, "count": 3}, {"flag": "true", "ratio": "0.5", "count": "3"}),
        ({"le": "1", "quantile": "2", "folded": "3"}, {"key_le": "1", "key_quantile": "2", "key_folded": "3"}),
        ({"a b": "1", "ä": "2", "": "3", "empty": ""}, {"a_b": "1", "_": "2", "key": "3"}),
    ],
)
def test_attributes_become_labels_whatever_the_clients_dialect(
    exporter: PrometheusExporter, attribute: dict[str, Any], labels: dict[str, str]
) -> None:
    export(exporter, push(1, gauge(3, **attribute)))
    [(found, _)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert found == {"client_instance_id": push(1).client_instance_id, "client_id": "orders", **labels}


def test_int_node_ids_stay_apart(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, *(gauge(node, node__id=node) for node in (1, 2, 1001))))
    found = samples_of(exporter)
    assert [found.one(LATENCY_ON_PAGE, node_id=str(node)) for node in (1, 2, 1001)] == [1, 2, 1001]


def test_librdkafkas_links_to_no_known_broker_are_one(exporter: PrometheusExporter) -> None:
    """Sums add up, cumulative ones too, and of gauges the largest counts."""
    doubled = [counter(2, node__id=-1), counter(3, node__id=-1), gauge(4, node__id=-1), gauge(1, node__id=-1)]
    cumulative = [counter(value, name="app.count", temporality=CUMULATIVE, node__id=-1) for value in (10, 20)]
    export(exporter, push(1, *doubled, *cumulative))
    export(exporter, push(2, *doubled, *cumulative))
    found = samples_of(exporter)
    assert found.one(REQUESTS_ON_PAGE, node_id="-1") == 10
    assert found.one(LATENCY_ON_PAGE, node_id="-1") == 4
    assert found.one("app_count_total", node_id="-1") == 30
    assert found.one("fleetgauge_prometheus_folded_points_total", cause="double_identity") == 6


def test_the_doubled_topics_of_java_consumers_are_counted_once(exporter: PrometheusExporter) -> None:
    """The total without a topic, and a topic that has an underscore itself, are no doubles."""
    points: list[dict[str, Any]] = [
        {"topic": "a.b_c", "partition": "0"},
        {"topic": "a_b_c", "partition": "0"},
        {"topic": "a_b_c", "partition": "1"},
        {"topic": "x_y", "partition": "0"},
        {},
    ]
    metrics = [gauge(number, name=LAG, **point) for number, point in enumerate(points)]
    one_metric = Metric(name="app.lag")
    for number, point in enumerate(points):
        attributes(one_metric.gauge.data_points.add(as_int=number), point)
    export(exporter, push(1, *metrics, one_metric))
    found = samples_of(exporter)
    for name in (LAG_ON_PAGE, "app_lag"):
        assert sorted(value for _, value in found.all(name)) == [0, 2, 3, 4]
    assert found.one("fleetgauge_prometheus_folded_points_total", cause="doubled_topic") == 2


def test_two_clients_with_one_client_id_stay_apart(exporter: PrometheusExporter) -> None:
    export(
        exporter,
        *(push(n, counter(n), client_instance_id="Tm-1TLjmRReIm-FbmcCcI" + c) for n, c in ((1, "A"), (2, "B"))),
    )
    found = samples_of(exporter).all(REQUESTS_ON_PAGE, client_id="orders")
    assert sorted(value for _, value in found) == [1, 2]


def test_who_pushes_under_anothers_id_has_series_of_its_own(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(1)), push(2, counter(100, principal="mine"), principal="User:eve"))
    export(exporter, push(3, counter(1)), push(4, counter(100), principal="User:eve"))
    found = samples_of(exporter)
    values = {labels.get("principal"): value for labels, value in found.all(REQUESTS_ON_PAGE)}
    assert values == {None: 2, "User:eve": 200}
    [(labels, _)] = found.all("fleetgauge_client_info")
    assert labels["principal"] == "User:ANONYMOUS", "one for an instance id, or joins would fail"


def test_who_is_left_alone_with_an_id_has_it_to_itself(exporter: PrometheusExporter, clock: MockTime) -> None:
    """A client that has reconnected with another principal."""
    export(exporter, push(1, counter(1)), push(2, counter(1), principal="User:new"))
    clock.sleep(240_000)
    export(exporter, push(240, counter(1), principal="User:new", push_interval_ms=300_000))
    export(exporter, push(241, counter(1), principal="User:new", push_interval_ms=300_000))
    found = samples_of(exporter)
    [(labels, value)] = found.all(REQUESTS_ON_PAGE)
    assert ("principal" in labels, value) == (False, 3)
    assert found.one("fleetgauge_client_info", principal="User:new") == 1


def test_clients_stay_apart_where_their_labels_are_cut(start: Any) -> None:
    exporter = start(labels=LabelSettings(labels=("client_id",), max_value_bytes=4))
    principals = ["User:alice", "User:bob", "User:carol", "Team:alice"]
    export(exporter, *(push(n, counter(n), principal=principal) for n, principal in enumerate(principals, start=1)))
    export(exporter, *(push(n, counter(n), client_instance_id=f"Tm-1TLjmRReIm-FbmcCc{n}") for n in (10, 11)))
    found = samples_of(exporter)  # where a series is there twice, it says so
    assert sorted(value for _, value in found.all(REQUESTS_ON_PAGE)) == [1, 2, 3, 4, 10, 11]
    assert len(found.all("fleetgauge_client_info")) == 3


def test_chosen_labels_are_on_every_series_and_replace_the_clients_own(start: Any) -> None:
    chosen = LabelSettings(labels=("principal", "node_id", "namespace"), static=(("env", "prod"),), namespace="blue")
    exporter = start(labels=chosen)
    export(exporter, push(1, gauge(1, env="mine", client_instance_id="x", node_id="node-3", principal="me")))
    [(labels, _)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert labels == {
        "client_instance_id": push(1).client_instance_id, "principal": "User:ANONYMOUS", "receiver_node_id": "1",
        "env": "prod", "namespace": "blue", "node_id": "3",
    }  # fmt: skip


def test_what_else_is_known_of_a_client_is_told_once(exporter: PrometheusExporter) -> None:
    resource = {"group_id": "billing", "client_rack": "r-1", "client_id": "liar"}
    export(exporter, push(1, gauge(1), resource=resource), push(2, gauge(1), client_source_port=9))
    [(labels, value)] = samples_of(exporter).all("fleetgauge_client_info")
    assert value == 1
    assert labels == {
        "client_instance_id": push(1).client_instance_id, "client_id": "orders", "client_software_name": "librdkafka",
        "client_software_version": "2.10.1", "client_source_address": "127.0.0.1", "principal": "User:ANONYMOUS",
        "receiver_node_id": "1", "cluster_id": "abcdefghijklmnopqrstuv", "group_id": "billing", "client_rack": "r-1",
    }  # fmt: skip


def test_a_client_that_changes_its_client_id_keeps_its_counters(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)), push(2, counter(7), client_id="renamed"))
    assert samples_of(exporter).all(REQUESTS_ON_PAGE)[0][0]["client_id"] == "renamed"
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 12


def test_hostile_texts_stay_within_their_labels(exporter: PrometheusExporter) -> None:
    evil = 'a"b\\c\n} 9 # HELP'
    metric = gauge(1, name='app."x\n', topic=evil)
    metric.description = 'say "hi"\nbye\\'
    export(exporter, push(1, metric, client_id=evil + "\ud800"))
    for accept in ("text/plain", "application/openmetrics-text"):
        [(labels, value)] = samples_of(exporter, accept).all("app_x_")
        assert (labels["topic"], labels["client_id"], value) == (evil, evil + "?", 1)


def test_long_values_are_cut_and_points_with_too_many_labels_left_out(start: Any) -> None:
    exporter = start(labels=LabelSettings(labels=(), max_value_bytes=10))
    many: dict[str, Any] = {f"key{number}": "x" * 10 for number in range(1_000)}
    export(exporter, push(1, gauge(1, topic="ä" * 9), gauge(2, **many)))
    found = samples_of(exporter)
    [(labels, _)] = found.all(LATENCY_ON_PAGE)
    assert labels["topic"] == "ä" * 5
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="labels_too_long") == 1


def test_a_name_that_is_taken_gets_its_kind_behind_it(exporter: PrometheusExporter) -> None:
    """A known metric keeps its name even where another kind of it comes first; own names are never a client's."""
    wrong = gauge(1, name=REQUESTS)
    clash = [counter(1, name="app.x"), gauge(2, name="app.x"), gauge(3, name="app_x"), gauge(4, name="app-x")]
    own = gauge(5, name="fleetgauge.prometheus.series")
    export(exporter, push(1, wrong, *clash, own), push(2, counter(7)))
    found = samples_of(exporter)
    assert found.one(REQUESTS_ON_PAGE) == 7
    assert found.one("org_apache_kafka_producer_request_total_gauge") == 1
    assert (found.one("app_x_total"), found.one("app_x_gauge")) == (1, 2)
    assert found.one("fleetgauge_prometheus_series_gauge") == 5
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="name") == 2


def test_units_that_a_push_says_are_in_the_name_and_known_ones_in_the_help(exporter: PrometheusExporter) -> None:
    metric = gauge(1, name="app.latency")
    metric.unit = "ms"
    export(exporter, push(1, metric, gauge(1, name=LATENCY), gauge(1, name="x" * 513)))
    page = page_of(exporter)
    assert "# UNIT app_latency_milliseconds milliseconds\n" in page
    assert (
        f"# HELP {LATENCY_ON_PAGE} time from a request to its response, at most in the client's last samples [ms]"
        in page
    )
    assert "xxx" not in page


@pytest.mark.parametrize(
    ("name", "unit", "on_page", "told"),
    [
        ("app.readbytes", "By", "app_readbytes_bytes", "bytes"),
        ("app.read.bytes", "By", "app_read_bytes", "bytes"),
        ("bytes", "By", "bytes", None),
        ("app.hitratio", "1", "app_hitratio_ratio", "ratio"),
        (REQUESTS, "ms", f"{REQUESTS_ON_PAGE}_milliseconds_gauge", None),
    ],
)
def test_a_unit_is_told_where_it_is_the_names_suffix_alone(
    exporter: PrometheusExporter, name: str, unit: str, on_page: str, told: str | None
) -> None:
    """OpenMetrics; for another one Prometheus refuses the whole page."""
    metric = gauge(1, name=name)
    metric.unit = unit
    export(exporter, push(1, metric))
    assert samples_of(exporter).one(on_page) == 1
    units = [line for line in page_of(exporter).splitlines() if line.startswith("# UNIT")]
    assert units == ([f"# UNIT {on_page} {told}"] if told else [])


def test_nothing_that_a_client_makes_long_is_kept_long(exporter: PrometheusExporter) -> None:
    endless = "x" * 100_000
    unit = gauge(1, name="app.unit")
    unit.unit = endless
    described = gauge(1, name="app.described")
    described.description = endless
    endless_label: dict[str, Any] = {endless: "1"}
    resource = {endless: "1", "group_id": endless, **{f"key{number}": "1" for number in range(1_000)}}
    export(exporter, push(1, gauge(1, name=endless), unit, described, gauge(1, **endless_label), resource=resource))
    page = page_of(exporter)
    assert len(page) < 10_000
    found = samples_of(exporter)
    assert found.names() == {"app_described"}
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="name") == 2
    [(labels, _)] = found.all("fleetgauge_client_info")
    assert labels["group_id"] == "x" * 1_024
    assert len(labels) < 50


CHOSEN = ("client_id", "principal", "cluster_id")


@pytest.mark.parametrize(
    ("client_id", "application"),
    [
        ("orders-17", "orders"),
        ("orders_2", "orders"),
        ("17", "1"),
        ("7", "7"),
        ("orders", "orders"),
        ("billing2", "billing"),
        ("shop-0c5f3e9a-1d2b-4c3d-8e4f-5a6b7c8d9e0f-StreamThread-1-consumer", "shop"),
        ("cart-7d9f8b6c5d-x2k4q", "cart"),
        ("payment-gateway-store", "payment-gateway-store"),
        ("line\nbreak-3", "line\\nbreak"),
        ('</script>"-4', '</script>\\"'),
        ("7" * 900 + "x", "7" * 900 + "x"),
        ("x" * 5_000, "x" * 1_000),
    ],
)
def test_a_clients_application_is_its_id_without_what_tells_instances_apart(
    start: Any, client_id: str, application: str
) -> None:
    labels = LabelSettings(labels=CHOSEN, derived=DERIVED, max_value_bytes=1_000)
    exporter = start(labels=labels)
    export(exporter, push(1, gauge(3), client_id=client_id))
    assert f'application="{application}"' in page_of(exporter)


def test_library_and_group_are_labels_of_each_series_and_change_with_the_client(start: Any) -> None:
    labels = LabelSettings(labels=CHOSEN, derived=DERIVED)
    exporter = start(labels=labels)
    export(exporter, push(1, gauge(3), client_software_name="apache-kafka-java"))
    [(found, _)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert (found["library"], found["principal"], "group_id" in found) == ("java", "User:ANONYMOUS", False)
    export(exporter, push(2, gauge(4), client_software_name="curl", resource={"group_id": "billing"}))
    [(found, value)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert (found["library"], found["group_id"], value) == ("other", "billing", 4)


def scoped(name: str, version: str, *metrics: Metric, **resource: str) -> bytes:
    """Metrics of one scope and one resource."""
    data = MetricsData()
    resource_metrics = data.resource_metrics.add()
    attributes(resource_metrics.resource, resource)
    scope_metrics = resource_metrics.scope_metrics.add()
    scope_metrics.scope.name, scope_metrics.scope.version = name, version
    scope_metrics.metrics.extend(metrics)
    return data.SerializeToString()


@pytest.mark.parametrize("is_reversed", [False, True])
def test_metrics_of_scopes_and_services_are_series_of_their_own(
    exporter: PrometheusExporter, is_reversed: bool
) -> None:
    """In any order, from push to push, also where pushes are read by their shape."""
    for number in range(1, 9):
        parts = [
            scoped("io.app", "1", counter(1, name="app.a")),
            scoped("io.app", "2", counter(2, name="app.a")),
            scoped("", "", counter(4, name="app.a")),
            scoped("", "", counter(8, name="app.a"), service__name="shop", service__namespace="n", other="o"),
            scoped("io.app", "1", counter(16, name="app.a"), service__instance__id="7"),
        ]
        payload = b"".join(parts[::-1] if is_reversed and number % 3 == 0 else parts)
        export(exporter, push(number)._replace(metrics=payload))
    client = {"client_instance_id": push(1).client_instance_id, "client_id": "orders"}
    found = [(value / 8, labels) for labels, value in samples_of(exporter).all("app_a_total")]
    assert sorted(found, key=lambda each: each[0]) == [
        (1, {**client, "otel_scope_name": "io.app", "otel_scope_version": "1"}),
        (2, {**client, "otel_scope_name": "io.app", "otel_scope_version": "2"}),
        (4, client),
        (8, {**client, "service_name": "shop", "service_namespace": "n"}),
        (16, {**client, "otel_scope_name": "io.app", "otel_scope_version": "1", "service_instance_id": "7"}),
    ]


@pytest.mark.parametrize(("scope", "version"), [("kgo", "1.20.6"), ("rdkafka#producer-1", "2.16.0"), ("", "")])
def test_the_scopes_of_known_clients_are_no_labels(exporter: PrometheusExporter, scope: str, version: str) -> None:
    export(exporter, push(1)._replace(metrics=scoped(scope, version, gauge(1))))
    [(labels, _)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert labels.keys() == {"client_instance_id", "client_id"}


def test_an_attribute_of_the_point_replaces_that_of_its_origin(exporter: PrometheusExporter) -> None:
    """Keys that become one name are joined."""
    point = gauge(1, otel_scope_name="mine", service__name="own")
    export(exporter, push(1)._replace(metrics=scoped("io.app", "", point, service__name="shop")))
    [(labels, _)] = samples_of(exporter).all(LATENCY_ON_PAGE)
    assert (labels["otel_scope_name"], labels["service_name"]) == ("io.app;mine", "own")


def in_unit(unit: str, metric: Metric) -> Metric:
    metric.unit = unit
    return metric


def test_units_of_kafkas_metrics_are_converted_and_those_of_others_remain(exporter: PrometheusExporter) -> None:
    """Also in pushes that are alike: no shape is learned of them."""
    wait = "org.apache.kafka.producer.bufferpool.wait.time.ns.total"
    for number in range(1, 9):
        converted = [
            in_unit("s", gauge(0.012)),
            in_unit("ms", counter(2, name=wait)),
            in_unit("ns", counter(1, name=wait)),
        ]
        others = [in_unit("By", gauge(7)), in_unit("s", gauge(5, name="app.age"))]
        export(exporter, push(number, *converted, *others))
    found = samples_of(exporter)
    assert found.one(LATENCY_ON_PAGE) == 12
    assert found.one("org_apache_kafka_producer_bufferpool_wait_time_ns_total") == 8 * 2_000_001
    assert (found.one(f"{LATENCY_ON_PAGE}_bytes"), found.one("app_age_seconds")) == (7, 5)


def test_a_value_that_its_unit_makes_infinite_spoils_no_counter(exporter: PrometheusExporter) -> None:
    wait = "org.apache.kafka.producer.bufferpool.wait.time.ns.total"
    export(exporter, push(1, counter(5, name=wait)), push(2, in_unit("d", counter(1e308, name=wait))))
    found = samples_of(exporter)
    assert found.one("org_apache_kafka_producer_bufferpool_wait_time_ns_total") == 5
    assert found.one("fleetgauge_prometheus_left_out_points_total", cause="malformed") == 1
