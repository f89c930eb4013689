"""Instances that a node no longer serves: listed as vanished for a day, as ended for an hour, and bounded."""

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS
from fleetgauge.telemetry.instances.inventory import state_of

INTERVAL_MS = 60_000


def departed(node: Node) -> dict[str, str]:
    """Client id -> state, of those that are no longer served."""
    now_ms = node.time.hi_res_clock_ms()
    return {each.client_id: state_of(each, now_ms).value for each in node.manager.instances.departed.snapshot()}


def pushes_and_vanishes(client: Client) -> None:
    client.get()
    client.answer()
    client.node.disconnect(client.connection)


@pytest.fixture
def killed(node: Node, client: Client) -> Node:
    """The node, after a client pushed and lost its connection."""
    client.get()
    client.answer()
    node.disconnect("c1")
    return node


def test_a_client_whose_connection_ends_without_a_terminating_push_is_vanished_for_a_day(killed: Node) -> None:
    assert departed(killed) == {"app": "vanished"}
    assert killed.manager.figures.counters()["instances_vanished"] == 1
    killed.time.sleep(VANISHED_SHOWN_MS - 1)
    killed.expire()
    assert departed(killed) == {"app": "vanished"}
    killed.time.sleep(1)
    killed.expire()
    assert departed(killed) == {}


def test_a_client_that_comes_back_under_its_id_is_no_longer_vanished(killed: Node, client: Client) -> None:
    client.get("c2")
    assert departed(killed) == {}
    assert killed.manager.figures.counters()["instances"] == 1


def test_another_principal_under_the_id_of_a_vanished_client_is_another_client(
    killed: Node, client: Client, alice: KafkaPrincipal
) -> None:
    client.context.update(principal=alice)
    client.get("c2")
    assert departed(killed) == {"app": "vanished"}


def test_a_client_that_closes_is_ended_for_an_hour(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    client.answer(terminating=True)
    node.disconnect("c1")
    assert departed(node) == {"app": "ended"}
    node.time.sleep(ENDED_SHOWN_MS)
    node.expire()
    assert departed(node) == {}


def test_a_client_that_falls_silent_is_late_then_vanished(node: Node, client: Client) -> None:
    client.get()
    client.answer()
    node.time.sleep(3 * INTERVAL_MS)
    assert node.expire() == 1
    assert departed(node) == {"app": "vanished"}


def test_a_client_that_is_forgotten_for_want_of_room_is_judged_by_its_silence(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=1)
    first = make_client(node)
    first.get()
    first.answer()
    make_client(node, "c2", client_id="second").get()
    assert departed(node) == {"app": "live"}
    node.time.sleep(2 * INTERVAL_MS)
    assert departed(node) == {"app": "late"}
    node.time.sleep(INTERVAL_MS)
    assert departed(node) == {"app": "vanished"}


def test_a_client_of_which_no_push_was_expected_is_not_listed(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(subscribed=False)
    make_client(node).get()
    node.disconnect("c1")
    assert departed(node) == {}


def test_the_register_is_bounded_and_ended_clients_do_not_displace_the_vanished(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=10)
    for index in range(4):
        pushes_and_vanishes(make_client(node, f"v{index}", client_id=f"killed-{index}"))
    for index in range(30):
        client = make_client(node, f"e{index}", client_id=f"job-{index}")
        client.get()
        client.answer(terminating=True)
        node.disconnect(f"e{index}")
    found = departed(node)
    assert len(found) == 10
    assert {name for name, state in found.items() if state == "vanished"} == {f"killed-{n}" for n in range(4)}
    assert {name for name, state in found.items() if state == "ended"} == {f"job-{n}" for n in range(24, 30)}
    for index in range(30):
        pushes_and_vanishes(make_client(node, f"w{index}", client_id=f"late-{index}"))
    assert departed(node) == {f"late-{n}": "vanished" for n in range(20, 30)}


def test_a_vanished_client_stays_listed_whoever_asks_under_its_id(
    killed: Node, client: Client, make_client: type[Client]
) -> None:
    other = make_client(killed, "c2", client_address="10.9.9.9")
    other.id = client.id
    other.get()
    assert departed(killed) == {"app": "vanished"}


def test_two_senders_of_one_id_that_vanish_are_both_listed_and_a_third_erases_neither(
    killed: Node, client: Client, make_client: type[Client]
) -> None:
    for number, name in ((2, "second"), (3, "third")):
        other = make_client(killed, f"c{number}", client_id=name)
        other.id = client.id
        if name == "second":
            pushes_and_vanishes(other)
        else:
            other.get()
    assert departed(killed) == {"app": "vanished", "second": "vanished"}


def test_two_softwares_of_one_sender_that_vanish_are_both_listed(
    killed: Node, client: Client, make_client: type[Client]
) -> None:
    other = make_client(killed, "c2", client_software_version="3.7.0")
    other.id = client.id
    pushes_and_vanishes(other)
    found = killed.manager.instances.departed
    assert sorted(each.client_software_version for each in found.snapshot()) == ["3.7.0", "4.4.0"]
    assert all(found.holds(each) for each in found.snapshot())


def test_a_vanished_client_that_comes_back_on_a_connection_without_software_is_no_longer_vanished(
    killed: Node, client: Client
) -> None:
    client.context.update(client_software_name="unknown", client_software_version="unknown")
    client.get("c2")
    assert departed(killed) == {}


def test_a_client_that_vanishes_again_is_listed_for_a_day_from_then(
    make_node: type[Node], make_client: type[Client]
) -> None:
    """In the order in which they were last seen: the one that is due first is at the head."""
    node = make_node()
    first, second = (make_client(node, name, client_id=name) for name in ("first", "second"))
    for each in (first, second, first):
        pushes_and_vanishes(each)
        node.time.sleep(INTERVAL_MS)
    node.time.sleep(VANISHED_SHOWN_MS - 2 * INTERVAL_MS)
    node.expire()
    assert departed(node) == {"first": "vanished"}


def test_ids_that_are_only_asked_for_displace_no_vanished_client(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=10)
    pushes_and_vanishes(make_client(node, "honest"))
    for index in range(30):
        make_client(node, f"flood-{index}", client_id=f"flood-{index}", client_address="10.6.6.6").get()
        node.disconnect(f"flood-{index}")
    assert departed(node) == {"app": "vanished"}


def test_a_client_that_comes_back_and_goes_before_its_next_push_has_vanished_again(
    killed: Node, client: Client
) -> None:
    killed.time.sleep(INTERVAL_MS)
    client.get("c2")
    assert departed(killed) == {}
    killed.disconnect("c2")
    assert departed(killed) == {"app": "vanished"}
