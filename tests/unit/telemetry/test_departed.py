"""Instances that a node no longer serves: listed as vanished for a day, as ended for an hour, and bounded."""

import pytest

from telemetry.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS
from telemetry.inventory import state_of

INTERVAL_MS = 60_000


def departed(node) -> dict[str, str]:
    """Client id -> state, of those that are no longer served."""
    now_ms = node.time.hi_res_clock_ms()
    return {each.client_id: state_of(each, now_ms).value for each in node.manager.departed.snapshot()}


@pytest.fixture
def killed(node, client):
    """The node, after a client pushed and lost its connection."""
    client.get()
    client.answer()
    node.disconnect("c1")
    return node


def test_a_client_whose_connection_ends_without_a_terminating_push_is_vanished_for_a_day(killed):
    assert departed(killed) == {"app": "vanished"}
    assert killed.manager.counters()["instances_vanished"] == 1
    killed.time.sleep(VANISHED_SHOWN_MS - 1)
    killed.expire()
    assert departed(killed) == {"app": "vanished"}
    killed.time.sleep(1)
    killed.expire()
    assert departed(killed) == {}


def test_a_client_that_comes_back_under_its_id_is_no_longer_vanished(killed, client):
    client.get("c2")
    assert departed(killed) == {}
    assert killed.manager.counters()["instances"] == 1


def test_another_principal_under_the_id_of_a_vanished_client_is_another_client(killed, client, alice):
    client.context.update(principal=alice)
    client.get("c2")
    assert departed(killed) == {"app": "vanished"}


def test_a_client_that_closes_is_ended_for_an_hour(node, client):
    client.get()
    client.answer()
    client.answer(terminating=True)
    node.disconnect("c1")
    assert departed(node) == {"app": "ended"}
    node.time.sleep(ENDED_SHOWN_MS)
    node.expire()
    assert departed(node) == {}


def test_a_client_that_falls_silent_is_late_then_vanished(node, client):
    client.get()
    client.answer()
    node.time.sleep(3 * INTERVAL_MS)
    assert node.expire() == 1
    assert departed(node) == {"app": "vanished"}


def test_a_client_that_is_forgotten_for_want_of_room_is_judged_by_its_silence(make_node, make_client):
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


def test_a_client_of_which_no_push_was_expected_is_not_listed(make_node, make_client):
    node = make_node(subscribed=False)
    make_client(node).get()
    node.disconnect("c1")
    assert departed(node) == {}


def test_the_register_is_bounded_and_ended_clients_do_not_displace_the_vanished(make_node, make_client):
    node = make_node(cache_max_size=10)
    for index in range(4):
        make_client(node, f"v{index}", client_id=f"killed-{index}").get()
        node.disconnect(f"v{index}")
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
        make_client(node, f"w{index}", client_id=f"late-{index}").get()
        node.disconnect(f"w{index}")
    assert departed(node) == {f"late-{n}": "vanished" for n in range(20, 30)}
