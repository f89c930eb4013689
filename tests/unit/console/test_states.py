"""Who is there, by the pushes of a log."""

import json

import pytest
from support.fleet.console_fleet import FleetOfTest, instance_id

from fleetgauge.console.state.fleet import ClientQuery
from fleetgauge.telemetry.instances.inventory import ClientRow

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m",
    "one\ntwo\r\n\tthree",
    "a\x1fb\x00c",
    "\u202eevil\u2066",
    "x" * 10_000,
    "1" * 5_000 + "a",
    "' OR 1=1 --",
    "",
)


@pytest.fixture
def of() -> FleetOfTest:
    return FleetOfTest()


def test_a_client_that_falls_silent_is_late_then_vanished_for_a_day_and_then_forgotten(of: FleetOfTest) -> None:
    of.push("orders", push_interval_ms=60_000, terminating=False)
    of.pass_time(5)
    assert of.states() == {"orders": "live"}
    of.pass_time(100, 10)
    assert of.states() == {"orders": "late"}
    of.pass_time(100, 10)
    assert of.states() == {"orders": "vanished"}
    of.pass_time(86_000, 5_000)
    assert of.states() == {"orders": "vanished"}
    of.pass_time(600, 300)
    assert of.states() == {}
    assert of.fleet.overview()["clients"] == {"total": 0, "states": {}}


def test_a_client_that_closes_is_ended_for_an_hour(of: FleetOfTest) -> None:
    of.push("orders", terminating=True)
    of.pass_time(3_000, 500)
    assert of.states() == {"orders": "ended"}
    of.pass_time(1_000, 500)
    assert of.states() == {}


def test_while_nothing_can_be_read_no_client_becomes_late(of: FleetOfTest) -> None:
    of.push("orders", terminating=False)
    of.pass_time(5)
    of.source.reads = False
    of.pass_time(3_600, 300)
    assert of.states() == {"orders": "live"}


def test_beyond_the_bound_the_longest_silent_clients_are_dropped_and_it_is_said() -> None:
    of = FleetOfTest(clients_max=10)
    for number in range(25):
        of.push(f"client-{number}", number=number, terminating=False)
    of.pass_time(5)
    assert sorted(of.names()) == sorted(f"client-{number}" for number in range(15, 25))
    assert "15 clients were dropped: the limit is 10." in of.fleet.overview()["notices"]


def test_hostile_client_ids_come_back_as_they_came_and_break_nothing(of: FleetOfTest) -> None:
    for number, client_id in enumerate(HOSTILE):
        of.push(client_id, number=number, terminating=False, principal=client_id, client_software_name=client_id)
    of.pass_time(5)
    assert sorted(of.names()) == sorted(HOSTILE)
    for by in ("application", "principal", "software", "version", "state", "role", "group", "broker"):
        json.dumps(of.fleet.facets(by, ClientQuery()))
    json.dumps(of.fleet.overview())
    for client_id in HOSTILE:
        if client_id:
            assert client_id in of.names(q=client_id)


def test_two_clients_that_share_an_instance_id_are_two_rows(of: FleetOfTest) -> None:
    of.push("orders", number=1, principal="User:a", terminating=False)
    of.push("orders", number=1, principal="User:b", terminating=False)
    of.pass_time(5)
    assert {row["principal"] for row in of.rows()} == {"User:a", "User:b"}


def test_a_clock_that_is_set_back_stops_nothing(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False)
    of.pass_time(10)
    of.time.jump_wall_clock(-7_200_000)
    of.push("orders", number=1, terminating=False)
    of.push("billing", number=2, terminating=False)
    of.pass_time(30)
    assert set(of.states()) == {"orders", "billing"}


def test_a_push_of_the_year_2300_makes_no_other_client_vanish(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False)
    of.push("ahead", number=2, terminating=False, ago_s=-9_000_000_000)
    of.pass_time(10)
    assert of.states()["orders"] == "live"


def test_the_version_rises_with_a_push_and_rests_while_nothing_changes(of: FleetOfTest) -> None:
    of.push("orders", terminating=False, push_interval_ms=600_000)
    of.pass_time(130)
    before = of.fleet.version()
    of.pass_time(4)
    assert of.fleet.version() == before
    of.push("billing", terminating=False)
    of.pass_time(4)
    assert of.fleet.version() > before


def test_a_source_that_fails_is_a_notice_and_is_read_on(of: FleetOfTest) -> None:
    of.source.notices = ["Topic pushes at kafka:9092 cannot be read now: refused."]
    of.pass_time(3)
    assert of.fleet.overview()["notices"] == ["Topic pushes at kafka:9092 cannot be read now: refused."]
    of.source.notices = []
    of.pass_time(3)
    assert of.fleet.overview()["notices"] == []


def test_rates_and_history_count_pushes_by_minute_of_receipt(of: FleetOfTest) -> None:
    for number in range(120):
        of.push(f"client-{number}", number=number, payload_bytes=50, terminating=False)
    of.pass_time(61)
    overview = of.fleet.overview()
    assert overview["pushes_per_s"] == pytest.approx(2.0, rel=0.05)
    assert overview["bytes_per_s"] == pytest.approx(100.0, rel=0.05)
    assert overview["history"]["pushes"] == [120], "the present minute is not over"
    assert overview["history"]["live"][-1] == 120


def listed(of: FleetOfTest, client_id: str, number: int, state: str, **fields: object) -> ClientRow:
    """A row of a node's listing, of the sender that `FleetOfTest.push` makes."""
    now = of.time.microseconds()
    row = ClientRow(
        client_instance_id=instance_id(number), client_id=client_id, client_software_name="librdkafka",
        client_software_version="2.10.1", principal="User:ANONYMOUS", client_source_address="127.0.0.1",
        client_source_port=1, listener="PLAINTEXT", connections=1, state=state, subscriptions=("all",), metrics=("*",),
        push_interval_ms=60_000, subscription_id=7, pushes=0, push_bytes=0, last_push_at=None, last_seen_at=now,
        refused=0, last_error=None, last_error_reason=None, last_error_at=None,
    )  # fmt: skip
    return row._replace(**fields)  # type: ignore[arg-type]


def take_listing(of: FleetOfTest, *rows: ClientRow) -> None:
    of.fleet._clients.list_of_node(rows, of.time.microseconds())


def test_a_node_adds_what_no_log_has(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False)
    of.pass_time(5)
    refused = {"refused": 3, "last_error": "INVALID_RECORD", "last_error_reason": "not_otlp"}
    take_listing(of, listed(of, "orders", 1, "refused", **refused), listed(of, "fresh", 2, "new"))
    of.pass_time(5)
    assert of.states() == {"orders": "refused", "fresh": "new"}
    row = of.rows(q="orders")[0]
    assert (row["refused"], row["last_error"], row["subscriptions"], row["pushes"]) == (
        3,
        "INVALID_RECORD",
        ("all",),
        1,
    )
    of.time.sleep(1_000)
    of.push("orders", number=1, terminating=False)
    of.pass_time(5)
    assert of.states()["orders"] == "live"


def test_a_client_that_a_node_has_given_a_longer_interval_is_waited_for_by_that_one(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False, push_interval_ms=15_000)
    of.pass_time(5)
    take_listing(of, listed(of, "orders", 1, "live", push_interval_ms=300_000))
    of.pass_time(400, 20)
    assert of.states() == {"orders": "live"}
    of.pass_time(600, 20)
    assert of.states() == {"orders": "vanished"}


def test_the_interval_that_the_subscriptions_in_force_give_is_waited_for(of: FleetOfTest) -> None:
    for name in ("orders", "billing"):
        of.push(name, terminating=False, push_interval_ms=15_000)
    of.pass_time(5)
    of.in_force = {"all": {"metrics": "*"}, "more": {"interval.ms": "15000", "match": "client_id=billing"}}
    of.pass_time(400, 20)
    assert of.states() == {"orders": "live", "billing": "vanished"}
    of.pass_time(600, 20)
    assert of.states() == {"orders": "vanished", "billing": "vanished"}


def test_a_client_whose_connection_was_lost_has_vanished_at_once(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False)
    of.pass_time(5)
    take_listing(of, listed(of, "orders", 1, "vanished", connections=0))
    of.pass_time(5)
    assert of.states() == {"orders": "vanished"}


def test_a_client_that_leaves_a_listing_can_be_read_until_the_next_snapshot(of: FleetOfTest) -> None:
    take_listing(of, listed(of, "fresh", 2, "new"))
    of.pass_time(5)
    take_listing(of)
    assert of.states() == {"fresh": "new"}
    of.pass_time(5)
    assert of.states() == {}


def test_a_day_after_its_last_push_a_listed_client_is_as_the_node_has_it(of: FleetOfTest) -> None:
    of.push("orders", number=1, terminating=False)
    of.pass_time(5)
    take_listing(of, listed(of, "orders", 1, "unsubscribed"))
    of.pass_time(90_000, 10_000)
    assert of.states() == {"orders": "unsubscribed"}
    assert of.rows()[0]["measures"]["lag_records"] is None
