"""Every rung of a push, as the client sees it, and what a refusal costs."""

import gzip
import random
import uuid
from typing import Any

import pytest
import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, ResourceMetrics
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import format_instance_id, is_push_id

INTERVAL_MS = 60_000


def otlp_piece() -> bytes:
    """The smallest part of a payload that says something."""
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.append(Metric(name="org.apache.kafka.producer.m"))
    return data.SerializeToString()


def test_a_push_after_a_get_is_accepted_and_recorded_with_everything_known_of_its_sender(
    node: Node, client: Client
) -> None:
    client.get()
    payload = zstandard.compress(b"")
    push = client.accepted(compression_type=4, metrics=payload)
    assert isinstance(push, Push)
    record = push.record
    assert is_push_id(record.push_id)
    assert record.received_at == node.time.microseconds()
    assert (record.receiver_node_id, record.cluster_id, record.listener) == (7, "cluster-1", "PLAINTEXT")
    assert record.client_instance_id == format_instance_id(client.given_id)
    assert (record.client_id, record.principal) == ("app", "User:ANONYMOUS")
    assert (record.client_software_name, record.client_software_version) == ("apache-kafka-java", "4.4.0")
    assert (record.client_source_address, record.client_source_port) == ("10.0.0.9", 40_001)
    assert (record.subscription_id, record.push_interval_ms) == (client.subscription_id, INTERVAL_MS)
    assert (record.terminating, record.compression_type, record.payload_bytes) == (False, "zstd", len(payload))
    assert record.metrics == b""
    assert push.encoded == payload
    assert push.awaitables == ()


@pytest.mark.parametrize("null", [None, uuid.UUID(int=0), uuid.UUID(int=1)])
def test_a_push_without_an_instance_id_is_an_invalid_request(
    node: Node, client: Client, null: uuid.UUID | None
) -> None:
    client.get()
    assert client.answer(client_instance_id=null) is ErrorCode.INVALID_REQUEST
    assert node.manager.figures.refusals() == {"INVALID_REQUEST": {"null_client_instance_id": 1}}


def test_a_push_before_its_interval_is_throttled_and_counted(node: Node, client: Client) -> None:
    client.get()
    assert client.answer() is ErrorCode.NONE
    node.time.sleep(INTERVAL_MS - 1)
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(1)
    assert client.answer() is ErrorCode.NONE
    assert node.sensor("throttle-count") == 1


def test_the_first_push_after_a_get_may_come_early_as_clients_jitter_it(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.time.sleep(INTERVAL_MS)
    client.get()
    node.time.sleep(INTERVAL_MS // 2)
    assert client.answer() is ErrorCode.NONE
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_terminating_push_need_not_wait_and_is_the_last(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    assert client.answer(terminating=True) is ErrorCode.NONE
    for _ in range(2):  # Kafka accepts the one after the refusal
        assert client.answer() is ErrorCode.INVALID_REQUEST
        assert client.answer(terminating=True) is ErrorCode.INVALID_REQUEST
        node.time.sleep(INTERVAL_MS)


def test_an_instance_has_one_unthrottled_terminating_push_on_however_many_connections(
    node: Node, client: Client
) -> None:
    client.get()
    client.answer()
    answers = [client.answer(connection, terminating=True) for connection in ("c1", "c2", "c3", "c4", "c5", "c6")]
    assert answers == [ErrorCode.NONE] + [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 5


def test_the_terminating_flag_may_be_used_again_after_an_interval_or_under_another_subscription(
    node: Node, client: Client
) -> None:
    client.get()
    assert client.answer("c1", terminating=True) is ErrorCode.NONE
    node.time.sleep(INTERVAL_MS)
    assert client.answer("c2") is ErrorCode.NONE
    assert client.answer("c2", terminating=True) is ErrorCode.NONE
    assert client.answer("c3", terminating=True) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.manager.subscriptions.update("all", {"metrics": "org.apache.kafka.", "interval.ms": str(INTERVAL_MS)})
    assert client.answer("c3", terminating=True) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    client.get("c3")
    assert client.answer("c3") is ErrorCode.NONE
    assert client.answer("c3", terminating=True) is ErrorCode.NONE
    assert client.answer("c4", terminating=True) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_terminating_push_that_was_not_logged_leaves_its_flag(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    push = client.accepted(terminating=True)
    node.manager.not_logged([push], node.time.hi_res_clock_ms())
    assert client.answer("c2", terminating=True) is ErrorCode.NONE
    assert client.answer("c3", terminating=True) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes((1 << 20) + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": zstandard.compress(bytes(17 << 20)), "compression_type": 4}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": gzip.compress(bytes(17 << 20)), "compression_type": 1}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_a_curable_refusal_gives_back_the_turn_and_terminating(
    client: Client, fault: dict[str, Any], code: ErrorCode
) -> None:
    client.get()
    assert client.answer(**fault) is code
    assert client.answer(terminating=True, **fault) is code
    assert client.answer() is ErrorCode.NONE
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_refused_early_push_after_a_get_leaves_the_next_one_due(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.time.sleep(INTERVAL_MS)
    client.get()
    client.answer()
    node.time.sleep(INTERVAL_MS // 2)
    assert client.answer(subscription_id=1, terminating=True) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get().error_code is ErrorCode.NONE
    assert client.answer(compression_type=9) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the two would evade the interval"
    node.time.sleep(INTERVAL_MS // 2)
    assert client.answer(compression_type=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.answer() is ErrorCode.NONE


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"metrics": b"no zstd at all", "compression_type": 4}, "broken_compression"),
        ({"metrics": b"no gzip at all", "compression_type": 1}, "broken_compression"),
        ({"metrics": b"\xff" * 9, "compression_type": 2}, "broken_compression"),
        ({"metrics": b"no lz4 at all", "compression_type": 3}, "broken_compression"),
        ({"metrics": b"\x0a\x05cut"}, "malformed_metrics_data"),
    ],
)
def test_a_payload_that_is_not_what_it_claims_uses_up_its_turn_but_does_not_terminate(
    make_node: type[Node], make_client: type[Client], fault: dict[str, Any], reason: str
) -> None:
    node = make_node(accept_malformed=False)
    client = make_client(node)
    client.get()
    assert client.answer(terminating=True, **fault) is ErrorCode.INVALID_RECORD
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.answer(terminating=True) is ErrorCode.NONE
    assert node.manager.figures.refusals()["INVALID_RECORD"] == {reason: 1}


@pytest.mark.parametrize(
    ("fault", "errors"),
    [
        ({"metrics": b"no zstd at all", "compression_type": 4}, 1),
        ({"metrics": zstandard.compress(bytes(17 << 20)), "compression_type": 4}, 1),
        ({"metrics": zstandard.compress(otlp_piece() * ((2 << 20) // len(otlp_piece()))), "compression_type": 4}, 1),
        ({"metrics": b"\x0a\x05cut"}, 0),
        ({"metrics": bytes(2 << 20)}, 0),
        ({"compression_type": 9}, 0),
    ],
)
def test_a_payload_that_cannot_be_decompressed_counts_as_a_plugin_error_as_in_kafka(
    make_node: type[Node], make_client: type[Client], fault: dict[str, Any], errors: int
) -> None:
    node = make_node(accept_malformed=False)
    client = make_client(node)
    client.get()
    assert client.answer(**fault) is not ErrorCode.NONE
    assert node.sensor("plugin-error-count") == errors
    assert node.manager.plugin.errors() == {}


def test_a_compression_type_that_is_not_configured_is_refused_but_none_never_is(
    make_node: type[Node], make_client: type[Client]
) -> None:
    from fleetgauge.telemetry.codecs import CompressionType

    client = make_client(make_node(compression_types=(CompressionType.GZIP,)))
    assert client.get().accepted_compression_types == (1,)
    assert client.answer(compression_type=4) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.answer(compression_type=0) is ErrorCode.NONE


def test_the_largest_payload_is_exactly_the_announced_size(make_node: type[Node], make_client: type[Client]) -> None:
    client = make_client(make_node(telemetry_max_bytes=400))
    metrics = b"\x0a\x00" * 200
    assert client.get().telemetry_max_bytes == len(metrics)
    assert client.answer(metrics=metrics + b"\x0a") is ErrorCode.TELEMETRY_TOO_LARGE
    assert client.answer(metrics=metrics) is ErrorCode.NONE


def test_well_formed_metrics_inflated_beyond_any_real_ratio_are_too_large_before_they_are_checked(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[bytes] = []
    monkeypatch.setattr("fleetgauge.telemetry.manager.validate_metrics", checked.append)
    client.get()
    bomb = zstandard.compress(otlp_piece() * ((2 << 20) // len(otlp_piece())))
    assert len(bomb) * 100 < 1 << 20
    assert client.answer(metrics=bomb, compression_type=4) is ErrorCode.TELEMETRY_TOO_LARGE
    assert checked == []
    assert node.manager.figures.refusals()["TELEMETRY_TOO_LARGE"] == {"inflated_beyond_max_compression_ratio": 1}


def test_what_is_small_may_have_any_ratio_and_what_is_large_a_hundredfold(
    make_node: type[Node], make_client: type[Client]
) -> None:
    client = make_client(make_node(interval_ms=100))
    client.get()
    small = otlp_piece() * ((1 << 20) // len(otlp_piece()))
    assert client.answer(metrics=zstandard.compress(small), compression_type=4) is ErrorCode.NONE
    client.node.time.sleep(100)
    noise = random.Random(1).randbytes(30_000)
    large = (
        otlp_piece() * ((2 << 20) // len(otlp_piece()))
        + MetricsData(resource_metrics=[ResourceMetrics(schema_url=noise.hex())]).SerializeToString()
    )
    assert client.answer(metrics=zstandard.compress(large), compression_type=4) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("metrics", "compression_type"),
    [
        (b"", 0),
        (None, 0),
        (b"", 4),
        (None, 4),
        (zstandard.compress(b""), 4),
        (gzip.compress(b"", mtime=0), 1),
        (b"\x00", 2),
    ],
)
def test_an_empty_payload_is_a_heartbeat_with_a_record(
    client: Client, metrics: bytes | None, compression_type: int
) -> None:
    client.get()
    push = client.accepted(metrics=metrics, compression_type=compression_type)
    assert isinstance(push, Push)
    assert push.record.metrics == b""
    assert push.record.payload_bytes == len(metrics or b"")
    assert push.encoded == (metrics or b"")


def test_the_rungs_stand_in_the_documented_order(node: Node, client: Client) -> None:
    client.get()
    everything_wrong: dict[str, Any] = {"subscription_id": 1, "compression_type": 9, "metrics": bytes(2 << 20)}
    client.answer()
    assert client.answer(**everything_wrong) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(INTERVAL_MS)
    assert client.answer(**everything_wrong) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    del everything_wrong["subscription_id"]
    assert client.answer(**everything_wrong) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.answer(metrics=bytes(2 << 20), compression_type=4) is ErrorCode.TELEMETRY_TOO_LARGE
    client.answer(terminating=True)
    assert client.answer(**everything_wrong) is ErrorCode.INVALID_REQUEST


def test_a_push_that_the_log_did_not_take_costs_the_client_nothing(node: Node, client: Client) -> None:
    client.get()
    push = client.accepted(terminating=True)
    node.manager.not_logged((push,), node.time.hi_res_clock_ms())
    assert client.answer() is ErrorCode.NONE
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.answer(terminating=True) is ErrorCode.NONE
    assert node.manager.figures.refusals()["THROTTLING_QUOTA_EXCEEDED"]["push_log_unavailable"] == 1
    assert node.sensor("plugin-error-count") == 1


def test_a_push_due_by_its_interval_is_due_again_when_the_log_did_not_take_it(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.time.sleep(INTERVAL_MS)
    push = client.accepted()
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(500)
    node.manager.not_logged((push,), node.time.hi_res_clock_ms())
    assert client.answer() is ErrorCode.NONE


def test_only_the_first_word_of_the_push_log_counts(node: Node, client: Client) -> None:
    client.get()
    push = client.accepted()
    node.manager.logged((push,), node.time.hi_res_clock_ms())
    node.manager.not_logged((push,), node.time.hi_res_clock_ms())
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_late_failure_of_the_log_does_not_undo_a_younger_push(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(interval_ms=100)
    client = make_client(node)
    client.get()
    client.answer()
    node.time.sleep(100)
    slow = client.accepted()
    node.time.sleep(100)
    assert client.answer() is ErrorCode.NONE
    node.manager.not_logged((slow,), node.time.hi_res_clock_ms())
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_that_fails_over_with_the_right_subscription_id_is_taken_in_at_once(
    make_node: type[Node], make_client: type[Client]
) -> None:
    first, second = make_node(), make_node()
    client = make_client(first)
    client.get()
    client.node = second
    assert client.answer() is ErrorCode.NONE
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert len(second.manager.instances.cache) == 1


def test_a_client_that_fails_over_to_other_subscriptions_is_sent_to_get_them(
    make_node: type[Node], make_client: type[Client]
) -> None:
    first, second = make_node(), make_node(interval_ms=5_000)
    client = make_client(first)
    client.get()
    client.node = second
    assert client.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    known = client.id
    assert client.get().error_code is ErrorCode.NONE
    assert client.id == known
    assert client.answer() is ErrorCode.NONE
    assert second.sensor("unknown-subscription-request-count") == 1


def test_a_push_on_another_connection_than_the_get_is_the_same_instance(node: Node, client: Client) -> None:
    client.get("bootstrap")
    assert client.answer("broker") is ErrorCode.NONE
    assert client.answer("bootstrap") is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert len(node.manager.instances.cache) == 1


def test_the_record_names_the_connection_of_the_push_itself(client: Client) -> None:
    client.get("bootstrap")
    client.context.update(client_address="10.9.9.9", client_port=5)
    record = client.accepted("broker").record
    assert (record.client_source_address, record.client_source_port) == ("10.9.9.9", 5)


def test_long_values_of_a_client_are_cut_in_the_record_and_counted(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(max_label_bytes=8)
    client = make_client(node, client_id="ü" * 5, client_software_version="12345678")
    client.get()
    record = client.accepted().record
    assert record.client_id == "üüüü"
    assert record.client_software_version == "12345678"
    assert record.principal == "User:ANO"
    assert node.manager.figures.counters()["labels_truncated"] == 3


def test_nobody_is_refused_for_an_id_and_nobody_disturbs_the_state_of_another(
    node: Node, client: Client, make_client: type[Client], alice: KafkaPrincipal
) -> None:
    client.get()
    rogue = make_client(node, "c2", principal=alice)
    rogue.id = client.id
    rogue.get()
    assert rogue.answer(terminating=True) is ErrorCode.NONE
    assert client.answer() is ErrorCode.NONE
    assert node.manager.figures.counters()["instance_id_clashes"] == 1


def test_a_connection_that_names_no_software_is_of_the_client_that_named_it_elsewhere(
    node: Node, client: Client, make_client: type[Client]
) -> None:
    """franz-go before 1.22 sends ApiVersions on its first connection alone, and pushes on another."""
    node.manager.subscriptions.update(
        "all", {"metrics": "*", "interval.ms": "60000", "match": "client_software_name=kgo"}
    )
    client.context["client_software_name"] = "kgo"
    client.get("bootstrap")
    client.context.update(client_software_name="unknown", client_software_version="unknown")
    assert client.answer("broker") is ErrorCode.NONE
    assert len(node.manager.instances.cache) == 1
    client.context.update(client_software_name="kgo", client_software_version="4.4.0")
    assert client.answer("bootstrap") is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    "forged",
    [{"client_address": "10.0.0.8"}, {"client_id": "thief"}, {"client_software_name": "x"}],
    ids=["address", "client id", "software"],
)
@pytest.mark.parametrize("thief_is_first", [True, False])
def test_another_sender_under_the_same_id_is_another_instance(
    node: Node, client: Client, make_client: type[Client], forged: dict[str, str], thief_is_first: bool
) -> None:
    thief = make_client(node, "c2", **forged)
    thief.id = client.id = uuid.uuid4()
    for each in (thief, client) if thief_is_first else (client, thief):
        each.get()
    assert len(node.manager.instances.cache) == 2
    for _ in range(2):
        assert thief.answer() is client.answer() is ErrorCode.NONE
        node.time.sleep(INTERVAL_MS)
    assert node.disconnect("c2") == node.disconnect("c1") == 1
    assert node.sensor("instance-count") == 0


def test_the_sensors_carry_kafkas_names_and_count_the_log_as_a_receiver(node: Node, client: Client) -> None:
    client.get()
    push = client.accepted()
    node.time.sleep(4)
    node.manager.logged((push,), node.time.hi_res_clock_ms())
    assert node.sensor("instance-count") == 1
    assert node.sensor("plugin-export-count") == 1
    assert node.sensor("plugin-export-time-avg") == 4
    assert node.sensor("plugin-export-time-max") == 4
    assert node.sensor("plugin-export-rate") > 0
    assert node.sensor("unknown-subscription-request-rate") == 0


def test_closing_forgets_the_clients_and_leaves_no_metric_behind(node: Node, client: Client) -> None:
    client.get()
    node.manager.close()
    assert len(node.manager.instances.cache) == 0
    assert not [name for name in node.metrics.metrics() if name.group == "client-metrics"]
