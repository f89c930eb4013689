"""Which clients a query finds, in which order, and how they are counted."""

from collections.abc import Callable
from typing import Any

import pytest
from support.fleet.console_fleet import FleetOfTest, instance_id

from fleetgauge.console.state.clients import application_of
from fleetgauge.console.state.fleet import ClientQuery
from fleetgauge.console.state.verdict_rows import Row, by_severity
from fleetgauge.telemetry.push_record import parse_instance_id


@pytest.fixture
def of() -> FleetOfTest:
    of = FleetOfTest()
    for number, (client, principal, software, version) in enumerate(
        (
            ("orders-1", "User:shop", "apache-kafka-java", "4.1.0"),
            ("orders-2", "User:shop", "apache-kafka-java", "4.0.0"),
            ("billing", "User:money", "librdkafka", "2.10.1"),
        )
    ):
        of.push(
            client, number=number, principal=principal, client_software_name=software, client_software_version=version,
            terminating=client == "billing", receiver_node_id=number,
        )  # fmt: skip
    of.pass_time(5)
    return of


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, {"orders-1", "orders-2", "billing"}),
        ({"q": "ORDERS"}, {"orders-1", "orders-2"}),
        ({"q": "money"}, {"billing"}),
        ({"q": "kafka-java/4.0"}, {"orders-2"}),
        ({"state": "ended"}, {"billing"}),
        ({"state": "ended,live"}, {"orders-1", "orders-2", "billing"}),
        ({"principal": "User:sh*"}, {"orders-1", "orders-2"}),
        ({"principal": "User:sh"}, set()),
        ({"software": "apache-kafka-java"}, {"orders-1", "orders-2"}),
        ({"software": "apache-kafka-java/4.1*"}, {"orders-1"}),
        ({"application": "orders"}, {"orders-1", "orders-2"}),
        ({"broker": "2"}, {"billing"}),
        ({"group": "none"}, set()),
        ({"verdict": "any"}, set()),
        ({"instance_id": parse_instance_id(instance_id(1)).hex}, {"orders-2"}),
    ],
)
def test_a_query_finds_what_matches_all_of_it(of: FleetOfTest, query: dict[str, Any], found: set[str]) -> None:
    assert set(of.names(**query)) == found


def test_rows_are_sorted_paged_and_unknown_values_come_last(of: FleetOfTest) -> None:
    assert of.names(sort="client_id", order="asc") == ["billing", "orders-1", "orders-2"]
    assert of.names(sort="client_id", offset=1, limit=1) == ["orders-1"]
    assert len(of.names(sort="lag_records")) == 3
    assert of.fleet.clients(ClientQuery(limit=1))["total"] == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "up"}, {"limit": 0}, {"limit": 1_001}, {"offset": -1}, {"state": "dead"}, {"instance_id": "<x>"},
        {"broker": "one"}, {"broker": "\u0661"},
    ],
)  # fmt: skip
def test_a_wrong_query_is_refused_with_a_sentence_that_does_not_repeat_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=" ") as raised:
        ClientQuery(**wrong)
    assert "<x>" not in str(raised.value)


def test_a_wrong_sort_facet_or_state_is_refused(of: FleetOfTest) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: of.fleet.clients(ClientQuery(sort="colour")),
        lambda: of.fleet.facets("colour", ClientQuery()),
        lambda: of.fleet.verdicts("closed"),
        lambda: of.fleet.client("nobody"),
    )
    for call in calls:
        with pytest.raises(ValueError, match="is"):
            call()


def test_every_field_of_a_row_can_be_sorted_by(of: FleetOfTest) -> None:
    row = of.rows()[0]
    unsortable = {"subscriptions", "metrics", "asked_for_records", "cluster_id", "measures"}
    for name in (set(row) - unsortable) | set(row["measures"]):
        for order in ("asc", "desc"):
            assert len(of.names(sort=name, order=order)) == 3


def test_facets_count_clients_by_value_most_first(of: FleetOfTest) -> None:
    facets = of.fleet.facets("application", ClientQuery())
    assert [(each["value"], each["clients"]) for each in facets["facets"]] == [("orders", 2), ("billing", 1)]
    assert facets["facets"][1]["states"] == {"ended": 1}
    assert facets["more"] == 0
    assert of.fleet.facets("version", ClientQuery(q="orders-1"))["facets"][0]["value"] == "apache-kafka-java/4.1.0"


def test_a_client_is_named_as_its_own_log_names_it(of: FleetOfTest) -> None:
    wanted = instance_id(0)
    for form in (wanted, parse_instance_id(wanted).hex, str(parse_instance_id(wanted))):
        found = of.fleet.client(form)
        assert found is not None
        assert found["client"]["client_id"] == "orders-1"
        assert found["names"]["hex"] == parse_instance_id(wanted).hex
        assert len(found["names"]["librdkafka"]) == 22  # as its log has it: without padding
    assert of.fleet.client(instance_id(99)) is None


@pytest.mark.parametrize(
    ("client_id", "application"),
    [
        ("orders", "orders"),
        ("orders-7", "orders"),
        ("orders-consumer-4e6fb54c-b8e6-4517-889b-e15b99c09c20", "orders-consumer"),
        ("orders-5f9c7d8b6-12", "orders"),
        ("12345", "12345"),
        ("", ""),
        ("1" * 9_999 + "a", "1" * 9_999 + "a"),
    ],
)
def test_an_application_is_a_client_id_without_numbers_at_its_end(client_id: str, application: str) -> None:
    assert application_of(client_id) == application


def verdict(severity: str, verdict: str, caused_by: str | None = None, state: str = "open") -> Row:
    return {
        "verdict": verdict, "severity": severity, "state": state, "cluster_id": "c", "subject_kind": "client",
        "subject": "orders", "caused_by": caused_by,
    }  # fmt: skip


def test_verdicts_are_listed_by_severity_and_a_cause_counts_as_the_worst_that_it_explains() -> None:
    ranked = [
        verdict("critical", "over", state="cleared"),
        verdict("info", "first"),
        verdict("warning", "second"),
        verdict("info", "cause"),
        verdict("critical", "follows", "cause:client:orders"),
        verdict("critical", "last"),
        verdict("info", "circle", "circle:client:orders"),
    ]
    listed = [row["verdict"] for row in by_severity(ranked)]
    assert listed == ["cause", "follows", "last", "second", "first", "circle", "over"]
