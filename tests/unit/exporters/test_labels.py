"""Labels in the cases that an operator or a peer would notice; equality with parsing is a property test."""

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.varint import encode_varint
from fleetgauge.exporters.labels import LABEL_NAMES, Labeller, LabelSettings
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError, fields
from fleetgauge.telemetry.push_record import PushRecord

RECORD = PushRecord(
    push_id="0" * 32, received_at=1, receiver_node_id=7, cluster_id="cluster", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.0.0.1", client_source_port=4711, principal="User:a",
    subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd", payload_bytes=1,
    schema_version=1, metrics=b"",
)  # fmt: skip


def java_push(metrics: int, **attributes: str) -> MetricsData:
    """One ResourceMetrics a metric, as the Java client sends it."""
    push = MetricsData()
    for number in range(metrics):
        found = push.resource_metrics.add()
        for name, value in attributes.items():
            found.resource.attributes.add(key=name).value.string_value = value
        metric = found.scope_metrics.add().metrics.add(name=f"org.apache.kafka.producer.{number}")
        metric.gauge.data_points.add(as_double=number)
    return push


def resource_attributes(payload: bytes) -> list[dict[str, str]]:
    return [
        {attribute.key: attribute.value.string_value for attribute in found.resource.attributes}
        for found in MetricsData.FromString(payload).resource_metrics
    ]


def label(push: MetricsData | bytes, **settings: object) -> bytes:
    payload = push if isinstance(push, bytes) else push.SerializeToString()
    return Labeller(LabelSettings(**settings)).labelled(RECORD._replace(metrics=payload))  # type: ignore[arg-type]


def test_the_eight_labels_of_kip_714_the_cluster_and_the_namespace_are_added() -> None:
    assert resource_attributes(label(java_push(1, group_id="g"), namespace="payments")) == [
        {
            "group_id": "g",
            "client_instance_id": "Tm-1TLjmRReIm-FbmcCcIA",
            "client_id": "orders",
            "client_software_name": "librdkafka",
            "client_software_version": "2.16.0",
            "client_source_address": "10.0.0.1",
            "client_source_port": "4711",
            "principal": "User:a",
            "node_id": "7",
            "cluster_id": "cluster",
            "namespace": "payments",
        }
    ]


def test_the_labels_of_kip_714_that_a_client_sends_stay() -> None:
    own = {
        "client_rack": "rack-1",
        "group_id": "auditors",
        "group_instance_id": "auditor-1",
        "group_member_id": "auditor-1-5f",
        "transactional_id": "orders-tx",
    }
    (attributes,) = resource_attributes(label(java_push(1, **own)))
    assert {name: attributes.get(name) for name in own} == own


def test_a_java_push_shrinks_to_one_resource_with_its_metrics_in_order() -> None:
    push = java_push(200, group_id="g")
    found = MetricsData.FromString(label(push))
    assert len(found.resource_metrics) == 1
    names = [metric.name for scope in found.resource_metrics[0].scope_metrics for metric in scope.metrics]
    assert names == [f"org.apache.kafka.producer.{number}" for number in range(200)]
    assert len(label(push)) < len(push.SerializeToString())


def test_a_client_cannot_pose_as_another_by_sending_the_brokers_labels() -> None:
    push = java_push(1, client_id="somebody-else", principal="User:admin", namespace="theirs", group_id="g")
    [attributes] = resource_attributes(label(push))
    assert (attributes["client_id"], attributes["principal"]) == ("orders", "User:a")
    assert "namespace" not in attributes
    names = [a.key for a in MetricsData.FromString(label(push)).resource_metrics[0].resource.attributes]
    assert sorted(names) == sorted(set(names))


def test_a_label_that_the_broker_does_not_know_is_left_out() -> None:
    record = RECORD._replace(client_source_port=None, metrics=java_push(1).SerializeToString())
    [attributes] = resource_attributes(Labeller().labelled(record))
    assert "client_source_port" not in attributes


@pytest.mark.parametrize("names", [(), ("node_id",), ("client_id", "node_id")])
def test_only_the_chosen_labels_are_added_and_the_clients_own_others_stay(names: tuple[str, ...]) -> None:
    [attributes] = resource_attributes(label(java_push(1, principal="theirs"), labels=names))
    assert attributes == {"principal": "theirs", **{n: {"client_id": "orders", "node_id": "7"}[n] for n in names}}


def test_static_labels_replace_what_the_client_sent() -> None:
    [attributes] = resource_attributes(label(java_push(1, region="nowhere"), labels=(), static=(("region", "eu"),)))
    assert attributes == {"region": "eu"}


def test_a_heartbeat_has_nothing_to_label() -> None:
    assert label(b"") == b""


def test_a_push_without_a_resource_gets_one() -> None:
    push = MetricsData()
    push.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    [attributes] = resource_attributes(label(push, labels=("client_id",)))
    assert attributes == {"client_id": "orders"}


def test_dropped_attribute_counts_and_schema_urls_stay_and_keep_resources_apart() -> None:
    push = java_push(3, group_id="g")
    push.resource_metrics[1].resource.dropped_attributes_count = 4
    push.resource_metrics[2].schema_url = "https://opentelemetry.io/schemas/1.30.0"
    found = MetricsData.FromString(label(push)).resource_metrics
    assert [(f.resource.dropped_attributes_count, f.schema_url) for f in found] == [
        (0, ""),
        (4, ""),
        (0, "https://opentelemetry.io/schemas/1.30.0"),
    ]


@pytest.mark.parametrize(
    "unknown",
    [
        b"\xa0\x06\x05",  # varint, field 100
        b"\xa2\x06\x03abc",
        b"\xa1\x06" + bytes(8),
        b"\xa5\x06" + bytes(4),
        b"\xa3\x06\x08\x01\xa4\x06",  # a group
    ],
)
def test_fields_from_a_newer_protocol_are_passed_on_at_every_level(unknown: bytes) -> None:
    [found] = java_push(1, group_id="g").resource_metrics
    resource = _delimited(found.resource.SerializeToString() + unknown)
    inner = _delimited(resource + b"\x12\x00" + unknown)
    once = label(inner + unknown, labels=("client_id",))
    assert once.count(unknown) == 3
    assert label(once, labels=("client_id",)) == once
    assert once.endswith(unknown)


def test_resources_with_different_unknown_fields_are_not_made_one() -> None:
    push = b"".join(_delimited(b"\x0a\x00\x12\x00" + unknown) for unknown in (b"\xa0\x06\x05", b"\xa0\x06\x06"))
    assert len(MetricsData.FromString(label(push)).resource_metrics) == 2


@pytest.mark.parametrize("size", [0, 1, 60, 127, 128, 129, 300, 16_383, 16_384, 70_000])
def test_sizes_around_the_steps_of_varints_are_right(size: int) -> None:
    push = java_push(2, group_id="g" * size)
    for found in push.resource_metrics:
        found.scope_metrics[0].metrics[0].name = "m" * size
    [attributes] = resource_attributes(label(push))
    assert attributes["group_id"] == "g" * size
    [found] = MetricsData.FromString(label(push)).resource_metrics
    assert [scope.metrics[0].name for scope in found.scope_metrics] == ["m" * size] * 2


def test_a_payload_cut_anywhere_inside_a_resource_is_refused_by_its_own_error() -> None:
    whole = java_push(1, group_id="g" * 200).SerializeToString()
    for length in range(1, len(whole)):
        with pytest.raises(MalformedPayloadError):
            label(whole[:length])


@pytest.mark.parametrize(
    "payload",
    [
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of more than ten bytes
        b"\x02\x00",  # field number 0
        b"\x0f",  # wire type 7
        b"\xa4\x06",  # a group that ends without beginning
        b"\xa3\x06" * 200,  # groups without end
        b"\x0a\x03\x0a\x05\x00",  # a resource longer than what holds it
        b"\x0a\x04\x0a\x02\x0a\x05",  # an attribute longer than its resource
        b"\x0a\x06\x0a\x04\x0a\x02\x0a\x07",  # a key longer than its attribute
        b"\x0a\x0a\x0a\x08\x0a\x07\x0a\x01k\x12\x02\x0a",  # an attribute one byte longer than its resource
    ],
)
def test_bytes_that_no_parser_would_take_are_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPayloadError, match="not a well-formed MetricsData"):
        label(payload)


def test_a_long_value_is_cut_at_a_character_and_counted() -> None:
    labeller = Labeller(LabelSettings(labels=("client_id",), max_value_bytes=5))
    record = RECORD._replace(client_id="ääää", metrics=java_push(1).SerializeToString())
    assert resource_attributes(labeller.labelled(record)) == [{"client_id": "ää"}]
    assert labeller.truncated == 1


def test_two_clients_of_one_labeller_do_not_share_labels() -> None:
    labeller = Labeller()
    payload = java_push(1).SerializeToString()
    found = [
        resource_attributes(labeller.labelled(RECORD._replace(client_id=client_id, metrics=payload)))[0]["client_id"]
        for client_id in ("one", "two", "one")
    ]
    assert found == ["one", "two", "one"]


def test_tags_written_longer_than_they_need_to_be_do_not_escape_the_labels() -> None:
    """Protobuf reads `8a 00` as it reads `0a`: a client could say who it is, past the broker's own labels."""
    forged = _delimited(b"\x0a\x09client_id\x12\x06\x0a\x04boss")
    payload = b"\x8a\x00" + _delimited(b"\x8a\x80\x00" + _delimited(forged)[1:])[1:]
    assert MetricsData.FromString(payload).resource_metrics[0].resource.attributes[0].key == "client_id"
    labelled = Labeller().labelled(RECORD._replace(client_id="clerk", metrics=payload))
    assert [found["client_id"] for found in resource_attributes(labelled)] == ["clerk"]


def test_labels_that_do_not_exist_are_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"'host' is not a label; expected one of client_instance_id, .*namespace"):
        LabelSettings(labels=("host",))
    for name in ("", *LABEL_NAMES):
        with pytest.raises(ValueError, match="static label"):
            LabelSettings(static=((name, "x"),))
    with pytest.raises(ValueError, match="at least 1 byte"):
        LabelSettings(max_value_bytes=0)


def test_fields_says_where_each_begins_and_ends() -> None:
    data = b"\x0a\x02hi\xa0\x06\x96\x01"
    assert [tuple(field) for field in fields(data, 0, len(data))] == [(10, 0, 2, 4), (800, 4, 6, 8)]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_384, 2**63])
def test_varints_are_protobufs_own(value: int) -> None:
    data = b"\xa0\x06" + encode_varint(value)
    assert [field.end for field in fields(data, 0, len(data))] == [len(data)]
    assert int.from_bytes(encode_varint(value)[-1:], "big") < 0x80


def _delimited(content: bytes) -> bytes:
    return b"\x0a" + encode_varint(len(content)) + content
