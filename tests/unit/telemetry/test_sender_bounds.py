"""What all clients of one address or principal may send together."""

import sys
import uuid
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.telemetry.instances.sender_bounds import (
    BYTES_BURST_S,
    INSTANCES_BURST_S,
    MAX_SENDERS,
    SenderBounds,
    SenderLimits,
)

Bounded = Callable[..., Node]
INTERVAL_MS = 60_000
PAYLOAD = b"\x0a\x00" * 500
NO_LIMITS = {
    "bytes_per_ip": 0,
    "bytes_per_principal": 0,
    "new_instances_per_ip": 0,
    "new_instances_per_principal": 0,
}


@pytest.fixture
def bounded(make_node: type[Node]) -> Bounded:
    return lambda **limits: make_node(sender_limits=SenderLimits(**{**NO_LIMITS, **limits}))


def fresh(node: Node, make_client: type[Client], number: int, **context: object) -> Client:
    client = make_client(node, f"fresh-{number}", **context)
    client.id = uuid.UUID(int=10_000 + number)
    return client


def test_new_instances_of_an_address_are_bounded_and_refused_so_that_they_come_again(
    bounded: Bounded, make_client: type[Client]
) -> None:
    node = bounded(new_instances_per_ip=2)
    answers = [fresh(node, make_client, number).get().error_code for number in range(2 * INSTANCES_BURST_S + 5)]
    assert answers.count(ErrorCode.NONE) == 2 * INSTANCES_BURST_S
    assert set(answers[-5:]) == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert node.manager.figures.refusals()["THROTTLING_QUOTA_EXCEEDED"]["sender_new_instance_rate"] == 5
    assert len(node.manager.instances.cache) == 2 * INSTANCES_BURST_S
    refused = fresh(node, make_client, 9_999)
    assert refused.get().client_instance_id == refused.id
    assert refused.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert fresh(node, make_client, 1, client_address="10.0.0.8").get().error_code is ErrorCode.NONE
    node.time.sleep(500)
    assert refused.get().error_code is ErrorCode.NONE


def test_a_client_that_is_known_is_not_refused_for_the_new_ones_of_its_address(
    bounded: Bounded, make_client: type[Client]
) -> None:
    node = bounded(new_instances_per_ip=1)
    honest = make_client(node, "honest")
    honest.get()
    for _ in range(3):
        assert honest.answer() is ErrorCode.NONE
        for number in range(2 * INSTANCES_BURST_S):
            fresh(node, make_client, number).get()
        node.time.sleep(INTERVAL_MS)


def test_bytes_of_new_instances_end_where_half_is_left_for_those_that_keep_to_their_interval(
    bounded: Bounded, make_client: type[Client]
) -> None:
    rate = 10 * len(PAYLOAD)
    node = bounded(bytes_per_ip=rate)
    honest = make_client(node, "honest")
    honest.get()
    assert honest.answer(metrics=PAYLOAD) is ErrorCode.NONE
    node.time.sleep(INTERVAL_MS)
    clients = [fresh(node, make_client, number) for number in range(10 * BYTES_BURST_S)]
    for each in clients:
        each.get()
    answers = [each.answer(metrics=PAYLOAD) for each in clients]
    assert answers.count(ErrorCode.NONE) == 10 * BYTES_BURST_S // 2
    assert honest.answer(metrics=PAYLOAD) is ErrorCode.NONE
    assert node.manager.figures.refusals()["THROTTLING_QUOTA_EXCEEDED"] == {"sender_byte_rate": 10 * BYTES_BURST_S // 2}
    elsewhere = fresh(node, make_client, 1, client_address="10.0.0.8")
    elsewhere.get()
    assert elsewhere.answer(metrics=PAYLOAD) is ErrorCode.NONE


def test_a_client_that_makes_its_pushes_due_by_errors_does_not_count_as_keeping_to_its_interval(
    bounded: Bounded, make_client: type[Client]
) -> None:
    node = bounded(bytes_per_ip=10 * len(PAYLOAD))
    thief, honest = make_client(node, "thief"), make_client(node, "honest", client_id="other")
    for each in (thief, honest):
        each.get()
        assert each.answer(metrics=PAYLOAD) is ErrorCode.NONE
    node.time.sleep(INTERVAL_MS)
    for _ in range(100):
        node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": str(INTERVAL_MS + 1)})
        thief.answer(metrics=PAYLOAD)
        thief.get()
        thief.answer(metrics=PAYLOAD)
        node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": str(INTERVAL_MS)})
        thief.get()
        thief.answer(metrics=PAYLOAD)
    assert honest.answer(metrics=PAYLOAD) is ErrorCode.NONE


def test_first_pushes_of_all_take_a_quarter_of_the_log_and_after_that_of_senders_that_have_used_little(
    bounded: Bounded, make_client: type[Client]
) -> None:
    node = bounded(bytes_per_ip=10 * len(PAYLOAD), log_bytes=40 * len(PAYLOAD))
    answers = []
    for number in range(14):
        client = fresh(node, make_client, number)
        client.get()
        answers.append(client.answer(metrics=PAYLOAD))
    assert answers == [ErrorCode.NONE] * 10 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 4
    elsewhere = fresh(node, make_client, 20, client_address="10.0.0.8")
    elsewhere.get()
    assert elsewhere.answer(metrics=PAYLOAD) is ErrorCode.NONE


def test_a_push_that_its_address_has_no_room_for_costs_no_turn(bounded: Bounded, make_client: type[Client]) -> None:
    node = bounded(bytes_per_ip=1)
    first, second = (fresh(node, make_client, number) for number in range(2))
    first.get()
    second.get()
    assert first.answer(metrics=PAYLOAD) is ErrorCode.NONE  # the last one may be larger than what is left
    assert second.answer(metrics=PAYLOAD, terminating=True) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(1_000 * len(PAYLOAD))
    assert second.answer(metrics=PAYLOAD) is ErrorCode.NONE


def test_a_principal_is_bounded_on_however_many_addresses_and_nobody_is_as_anonymous(
    bounded: Bounded, make_client: type[Client], alice: KafkaPrincipal
) -> None:
    node = bounded(new_instances_per_principal=1)
    found = [
        fresh(node, make_client, number, principal=alice, client_address=f"10.0.1.{number}").get().error_code
        for number in range(INSTANCES_BURST_S + 1)
    ]
    assert found.count(ErrorCode.NONE) == INSTANCES_BURST_S
    anonymous = [fresh(node, make_client, number).get().error_code for number in range(INSTANCES_BURST_S + 1)]
    assert set(anonymous) == {ErrorCode.NONE}


def test_addresses_of_one_ipv6_network_share_what_they_may_send(bounded: Bounded, make_client: type[Client]) -> None:
    node = bounded(new_instances_per_ip=1)
    found = [
        fresh(node, make_client, number, client_address=f"2001:db8::{number:x}").get().error_code
        for number in range(INSTANCES_BURST_S + 1)
    ]
    assert found.count(ErrorCode.NONE) == INSTANCES_BURST_S


def test_a_refused_sender_is_named_in_the_log_once_a_minute(bounded: Bounded, make_client: type[Client]) -> None:
    node = bounded(new_instances_per_ip=1)
    with capture_logs() as said:
        for number in range(INSTANCES_BURST_S + 50):
            fresh(node, make_client, number).get()
    assert [(line["event"], line["client_address"], line["exceeded"]) for line in said] == [
        ("telemetry.sender_over_limit", "10.0.0.9", "new client instances")
    ]


@pytest.mark.slow
def test_the_senders_that_are_remembered_are_bounded(client: Client) -> None:
    bounds = SenderBounds(SenderLimits())
    for number in range(MAX_SENDERS + 10):
        client.context["client_address"] = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        bounds.take_in(client.request_context(), 0)
    assert len(bounds._by_ip) == MAX_SENDERS


def test_ids_that_are_equal_as_python_hashes_integers_do_not_share_a_slot(
    node: Node, make_client: type[Client]
) -> None:
    modulus = sys.hash_info.modulus
    ids = [uuid.UUID(int=2 + modulus * number) for number in range(1, 2_000)]
    assert len({hash(each) for each in ids}) == 1
    client = make_client(node)
    for index, each in enumerate(ids):
        client.id = each
        client.get(f"c{index}")
    found = node.manager.instances.cache._instances
    assert len(found) == len(ids)
    assert len({hash(key) for key in found}) > len(ids) - 10
