"""GetTelemetrySubscriptions: who the client is, when it may ask, what it is asked for, and changes meanwhile."""

import uuid
from typing import Any

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.telemetry.codecs import CompressionType

INTERVAL_MS = 60_000


def test_a_first_get_makes_an_instance_and_tells_everything(node: Node, client: Client) -> None:
    result = client.get()
    assert result.error_code is ErrorCode.NONE
    assert result.throttle_time_ms == 0
    assert result.client_instance_id.version == 4
    assert result.accepted_compression_types == (4, 3, 1, 2)
    assert result.push_interval_ms == INTERVAL_MS
    assert result.telemetry_max_bytes == 1_048_576
    assert result.delta_temporality
    assert result.requested_metrics == ("*",)
    assert len(node.manager.instances.cache) == 1


def test_none_is_never_announced(make_node: type[Node], make_client: type[Client]) -> None:
    client = make_client(make_node(compression_types=(CompressionType.NONE, CompressionType.LZ4)))
    assert client.get().accepted_compression_types == (3,)


@pytest.mark.parametrize("is_delta", [True, False])
def test_clients_are_asked_for_deltas_or_cumulative_sums(
    make_node: type[Node], make_client: type[Client], is_delta: bool
) -> None:
    assert make_client(make_node(delta_temporality=is_delta)).get().delta_temporality is is_delta


def test_without_compression_types_an_empty_list_is_announced_and_none_is_taken(
    make_node: type[Node], make_client: type[Client]
) -> None:
    client = make_client(make_node(compression_types=()))
    assert client.get().accepted_compression_types == ()
    for each in sorted(CompressionType, reverse=True):
        expected = ErrorCode.NONE if each is CompressionType.NONE else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert client.answer(compression_type=int(each), metrics=b"") is expected


def test_no_new_id_begins_with_a_dash_or_is_reserved_or_in_use(
    make_node: type[Node], make_client: type[Client], alice: KafkaPrincipal
) -> None:
    node = make_node()
    used, fresh = uuid.UUID(int=2 << 64), uuid.UUID(int=3 << 64)
    ids = [uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=0b111110 << 122), used, fresh]
    node.manager.instances._new_instance_id = iter(ids).__next__
    other = make_client(node, "c2", principal=alice)
    other.id = used
    other.get()
    assert make_client(node).get().client_instance_id == ids[-1]


def test_a_null_get_on_a_connection_that_is_known_is_answered_with_the_known_id(node: Node, client: Client) -> None:
    first = client.get().client_instance_id
    node.time.sleep(INTERVAL_MS)
    client.id = None
    assert client.get().client_instance_id == first
    assert len(node.manager.instances.cache) == 1


@pytest.mark.parametrize("other", [{"client_id": "other"}, {"principal": "alice"}])
def test_a_null_get_of_someone_else_on_the_connection_gets_an_id_of_its_own(
    node: Node, client: Client, make_client: type[Client], alice: KafkaPrincipal, other: dict[str, str]
) -> None:
    first = client.get().client_instance_id
    context: dict[str, Any] = {key: alice if value == "alice" else value for key, value in other.items()}
    assert make_client(node, **context).get().client_instance_id != first


def test_a_null_get_is_answered_with_the_known_id_among_the_latest_of_a_crowded_connection(
    make_node: type[Node], make_client: type[Client]
) -> None:
    """Sixteen are looked at, however many the connection made known: no Get may cost more than the one before it."""
    node = make_node()
    clients = [make_client(node, client_id=f"app-{number}") for number in range(40)]
    first_ids = [each.get().client_instance_id for each in clients]
    for each in clients:
        each.id = None
    assert [each.get().client_instance_id for each in clients[-16:]] == first_ids[-16:]
    assert clients[0].get().client_instance_id not in first_ids
    assert len(node.manager.instances.cache) == 41


def test_a_null_get_after_a_terminating_push_starts_a_new_life(node: Node, client: Client) -> None:
    first = client.get().client_instance_id
    client.answer(terminating=True)
    client.id = None
    assert client.get().client_instance_id != first
    assert client.answer() is ErrorCode.NONE


def test_an_id_that_this_node_never_saw_is_kept_and_echoed(client: Client) -> None:
    client.id = uuid.uuid4()
    known = client.id
    result = client.get()
    assert (result.error_code, result.client_instance_id) == (ErrorCode.NONE, known)


def test_a_get_before_its_interval_is_refused_and_still_echoes_the_id(node: Node, client: Client) -> None:
    known = client.get().client_instance_id
    node.time.sleep(INTERVAL_MS - 1)
    result = client.get()
    assert result.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (result.client_instance_id, result.throttle_time_ms) == (known, 0)
    assert node.sensor("throttle-count") == 1
    assert node.manager.figures.refusals() == {"THROTTLING_QUOTA_EXCEEDED": {"get_before_interval": 1}}
    node.time.sleep(1)
    assert client.get().error_code is ErrorCode.NONE


def test_a_get_has_to_keep_its_distance_from_the_last_push_too(node: Node, client: Client) -> None:
    client.get()
    node.time.sleep(INTERVAL_MS)
    client.answer()
    assert client.get().error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize("fault", [{"subscription_id": 1}, {"compression_type": 9}])
def test_a_get_after_an_error_that_it_cures_is_let_through_once_and_the_push_after_it_too(
    client: Client, fault: dict[str, Any]
) -> None:
    client.get()
    client.answer(**fault)
    assert client.get().error_code is ErrorCode.NONE
    assert client.answer() is ErrorCode.NONE
    assert client.get().error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_that_nothing_matches_is_asked_for_nothing_and_to_come_back(
    make_node: type[Node], make_client: type[Client]
) -> None:
    client = make_client(make_node(subscribed=False))
    result = client.get()
    assert (result.requested_metrics, result.push_interval_ms) == ((), 300_000)
    assert client.answer(metrics=b"") is ErrorCode.NONE


def test_all_metrics_are_asked_of_franz_go_in_its_own_form_under_the_same_subscription(
    make_node: type[Node], make_client: type[Client]
) -> None:
    java, go = make_client(make_node()), make_client(make_node(), client_software_name="kgo")
    java.id = go.id = uuid.uuid4()
    assert (java.get().requested_metrics, go.get().requested_metrics) == (("*",), ("",))
    assert go.subscription_id == java.subscription_id
    assert go.answer() is ErrorCode.NONE


def test_an_interval_above_five_minutes_is_honoured(make_node: type[Node], make_client: type[Client]) -> None:
    assert make_client(make_node(interval_ms=3_600_000)).get().push_interval_ms == 3_600_000


def test_a_change_that_concerns_the_client_makes_its_id_unknown_and_opens_the_gate(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "1000"})
    assert client.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get().push_interval_ms == 1_000
    assert client.answer() is ErrorCode.NONE


def test_a_change_that_does_not_concern_the_client_leaves_its_gate_and_id_alone(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.manager.subscriptions.update("others", {"metrics": "a.", "match": "client_id=other"})
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.get().error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(INTERVAL_MS)
    assert client.answer() is ErrorCode.NONE


def test_a_change_does_not_revive_a_terminated_client(node: Node, client: Client) -> None:
    client.get()
    client.answer(terminating=True)
    node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "1000"})
    client.get()
    assert client.answer() is ErrorCode.INVALID_REQUEST


def test_removing_the_last_subscription_empties_the_next_answer(node: Node, client: Client) -> None:
    client.get()
    node.manager.subscriptions.replace({})
    assert client.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get().requested_metrics == ()
    assert node.manager.subscriptions.names() == ()


def test_resources_are_listed_and_described_as_they_were_configured(node: Node) -> None:
    assert node.manager.subscriptions.names() == ("all",)
    assert node.manager.subscriptions.properties("all") == {"metrics": "*", "interval.ms": "60000"}
    assert node.manager.subscriptions.properties("unknown") == {}
