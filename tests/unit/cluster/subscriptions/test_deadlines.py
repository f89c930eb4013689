"""Deadlines are kept in the cluster, and whoever reads them can keep them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.subscriptions import by_name

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.deadlines import cancelling, deadline, deadlines, setting, take_back
from fleetgauge.cluster.subscriptions.resources import SUBSCRIPTIONS, Resource

NOW = datetime(2026, 11, 23, 18, 45, 0, 500, tzinfo=UTC)
ORDERS = Resource(name="orders", metrics=("*",), interval_ms=1_000)


class Store:
    """A cluster in memory."""

    def __init__(self, *resources: Resource) -> None:
        self.kept = by_name(resources)
        self.requests = 0

    def list(self) -> dict[str, Resource]:
        return dict(sorted(self.kept.items()))

    def alter(self, wanted: Mapping[str, Resource | None]) -> None:
        self.requests += 1
        kept = {**self.kept, **wanted}
        self.kept = {name: each for name, each in kept.items() if each is not None}


def test_a_deadline_is_a_resource_that_matches_no_client() -> None:
    store = Store(ORDERS)
    wanted = deadline("orders", NOW + timedelta(minutes=30))
    store.alter(setting(store.list(), wanted))
    marker = store.list()[wanted.resource]
    assert wanted.resource == "orders.until.20261123T191501Z"
    assert deadlines(store.list()) == [wanted]
    client = Client(
        instance_id="TaPBdoXKTJC6sSpzRYxDbA", client_id="none", software_name="x", software_version="1", address="none"
    )
    assert not marker.subscription().matches(client.attributes())
    assert marker.metrics == ()


def test_what_is_due_is_taken_back_once_and_nothing_else() -> None:
    store = Store(ORDERS, Resource(name="other", metrics=("*",)))
    store.alter(setting(store.list(), deadline("orders", NOW)))
    store.alter(setting(store.list(), deadline("other", NOW + timedelta(hours=1))))
    assert take_back(store, NOW) == []  # a second begins after NOW
    assert [each.name for each in take_back(store, NOW + timedelta(seconds=1))] == ["orders"]
    assert list(store.list()) == ["other", "other.until.20261123T194501Z"]
    before = store.requests
    assert take_back(store, NOW + timedelta(seconds=1)) == []
    assert store.requests == before


def test_a_subscription_that_is_gone_already_leaves_no_deadline() -> None:
    store = Store(ORDERS)
    store.alter(setting(store.list(), deadline("orders", NOW)))
    store.alter({"orders": None})
    assert len(take_back(store, NOW + timedelta(hours=1))) == 1
    assert store.list() == {}


def test_a_later_deadline_replaces_the_earlier_one_and_cancelling_keeps_the_subscription() -> None:
    store = Store(ORDERS)
    for minutes in (10, 30):
        store.alter(setting(store.list(), deadline("orders", NOW + timedelta(minutes=minutes))))
    assert [each.at.minute for each in deadlines(store.list())] == [15]
    store.alter(cancelling(store.list(), "orders"))
    assert store.list() == {"orders": ORDERS}
    assert cancelling(store.list(), "orders") == {}


def test_a_subscription_and_its_deadline_are_set_by_one_request() -> None:
    store = Store()
    store.alter(setting((), deadline("orders", NOW), ORDERS))
    assert store.requests == 1
    assert store.list()["orders"] == ORDERS


def test_names_that_only_look_like_deadlines_are_left_alone() -> None:
    store = Store(*(Resource(name=name, metrics=("*",)) for name in ("a.until.never", "b.until.20269999T999999Z")))
    assert deadlines(store.list()) == []
    assert take_back(store, NOW + timedelta(days=9_999)) == []
    assert len(store.list()) == 2


def test_apply_makes_the_changes_of_a_plan_and_no_other() -> None:
    store = Store(ORDERS, Resource(name="other", metrics=("*",)))
    wanted = by_name(
        [Resource(name="orders", metrics=("a.",), match="client_id=x"), Resource(name="new", metrics=("*",))]
    )
    SUBSCRIPTIONS.apply(store, SUBSCRIPTIONS.plan(store.list(), wanted))
    assert store.list() == {**wanted, "other": Resource(name="other", metrics=("*",))}
    assert store.requests == 1
    SUBSCRIPTIONS.apply(store, SUBSCRIPTIONS.plan(store.list(), wanted))
    assert store.requests == 1


def test_a_plan_that_is_out_of_date_is_not_applied() -> None:
    store = Store(ORDERS)
    planned = SUBSCRIPTIONS.plan(store.list(), {"orders": Resource(name="orders", metrics=("a.",))})
    store.alter({"orders": replace(ORDERS, interval_ms=5_000)})
    with pytest.raises(ResourceError, match="orders changed since the plan was made"):
        SUBSCRIPTIONS.apply(store, planned)
    assert store.list()["orders"].metrics == ("*",)
