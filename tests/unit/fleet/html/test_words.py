"""Sentences about verdicts."""

from datetime import UTC, datetime
from typing import Any, get_args

from fleetgauge.fleet.html.words import SIDES, TITLES, name, shown, title, who
from fleetgauge.verdicts.catalogue import BY_ID
from fleetgauge.verdicts.declare import Side

AT = datetime(2026, 3, 2, 7, tzinfo=UTC)


def row(**given: Any) -> dict[str, Any]:
    return {
        "verdict": "slow-client", "subject_kind": "client", "subject": "orders", "client_id": "orders",
        "group_id": None, "node_id": None, "side": "client",
    } | given  # fmt: skip


def test_every_verdict_of_the_catalogue_has_a_title_and_every_side_a_name() -> None:
    assert set(TITLES) == set(BY_ID)
    assert set(SIDES) == set(get_args(Side))


def test_a_rule_of_ones_own_is_called_by_its_name_and_subject() -> None:
    assert title(row(verdict="too-many-retries")) == "too-many-retries: client orders"


def test_braces_in_a_name_are_no_placeholders() -> None:
    assert title(row(subject="{client}{0}")).startswith("{client}{0} ")


def test_who_has_to_act_names_the_application() -> None:
    assert who(row()) == "The team of orders"
    assert who(row(subject_kind="group", group_id="carts-group", client_id=None)) == "The team of carts-group"
    assert who(row(side="broker", subject_kind="node")) == "Kafka operators"
    assert who(row(subject_kind="version", client_id=None)) == "Teams whose applications use it"


def test_text_is_one_short_line_without_control_characters() -> None:
    assert shown("a\n\u202eb\x00") == "a\\n\\u202eb\\x00"
    assert len(name("x" * 10_000)) == 80
    assert name("") == name(None) == "(no name)"
