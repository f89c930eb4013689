"""Wanted limits against those of a cluster: nothing is changed but what is asked for."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.plan import Action
from fleetgauge.cluster.quotas.limits import QUOTAS, LimitName, entity_path, read_entity

ALICE, BOB, ANY_IP = map(read_entity, ("users/alice", "users/bob", "ips/<default>"))
CURRENT: dict[LimitName, float] = {
    (ALICE, "producer_byte_rate"): 1.0,
    (ALICE, "consumer_byte_rate"): 2.0,
    (ANY_IP, "connection_creation_rate"): 3.0,
}


class Store:
    """The limits of a cluster in memory."""

    def __init__(self, kept: Mapping[LimitName, float]) -> None:
        self.kept = kept
        self.requests: list[Mapping[LimitName, float | None]] = []

    def list(self) -> Mapping[LimitName, float]:
        return self.kept

    def alter(self, wanted: Mapping[LimitName, float | None]) -> None:
        self.requests.append(wanted)


def actions(wanted: dict[LimitName, float], *, prune: bool = False) -> dict[tuple[str, str], Action]:
    found = QUOTAS.plan(CURRENT, wanted, prune=prune)
    return {(entity_path(each.name[0]), each.name[1]): each.action for each in found}


def test_limits_outside_of_the_file_are_left_alone_and_deleted_only_by_prune() -> None:
    wanted: dict[LimitName, float] = {(ALICE, "producer_byte_rate"): 5.0, (BOB, "request_percentage"): 1.0}
    expected = {
        ("ips/<default>", "connection_creation_rate"): Action.LEAVE,
        ("users/alice", "consumer_byte_rate"): Action.LEAVE,
        ("users/alice", "producer_byte_rate"): Action.CHANGE,
        ("users/bob", "request_percentage"): Action.ADD,
    }
    assert actions(wanted) == expected
    pruned = {place: Action.DELETE if action is Action.LEAVE else action for place, action in expected.items()}
    assert actions(wanted, prune=True) == pruned


def test_the_request_has_the_changes_and_nothing_else() -> None:
    store = Store(CURRENT)
    wanted: dict[LimitName, float] = {(ALICE, "producer_byte_rate"): 5.0, (ALICE, "consumer_byte_rate"): 2.0}
    QUOTAS.apply(store, QUOTAS.plan(CURRENT, wanted, prune=True))
    assert store.requests == [{(ALICE, "producer_byte_rate"): 5.0, (ANY_IP, "connection_creation_rate"): None}]
    QUOTAS.apply(store, QUOTAS.plan(CURRENT, CURRENT, prune=True))
    assert len(store.requests) == 1


def test_a_plan_is_not_applied_to_limits_that_changed_meanwhile() -> None:
    planned = QUOTAS.plan(CURRENT, {(ALICE, "producer_byte_rate"): 5.0})
    changed, others_changed = Store({(ALICE, "producer_byte_rate"): 1.5}), Store({(ALICE, "producer_byte_rate"): 1.0})
    with pytest.raises(ResourceError, match="users/alice producer_byte_rate changed since"):
        QUOTAS.apply(changed, planned)
    QUOTAS.apply(others_changed, planned)
    assert (len(changed.requests), len(others_changed.requests)) == (0, 1)


def test_a_file_without_a_quota_prunes_nothing() -> None:
    with pytest.raises(ResourceError, match="would delete all"):
        QUOTAS.plan(CURRENT, {}, prune=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[quotas."users/a"]\nrequest_percentag = 1', "did you mean request_percentage"),
        ('[quotas."user/a"]\nrequest_percentage = 1', "not a quota entity"),
        ('[quotas."users/a"]\nrequest_percentage = "x"', "a number above 0"),
        ('[quotas."users/a"]\nproducer_byte_rate = 1.5', "cannot be a fractional value"),
        ('[quotas."users/a"]\nconnection_creation_rate = 1', "Invalid configuration key"),
        ('[client-metrics.a]\nmetrics = "*"', "is not about quotas"),
        ("[quotas", "TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence_that_names_it(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "q.toml"
    file.write_text(text)
    with pytest.raises(FleetgaugeError) as refused:
        read_file(file, QUOTAS)
    assert problem in str(refused.value)
    assert "q.toml" in str(refused.value)


def test_a_file_has_the_form_of_a_nodes_configuration(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('[quotas."users/svc.orders/clients/<default>"]\ntelemetry_push_rate = 0.5\n')
    assert read_file(file, QUOTAS) == {(read_entity("users/svc.orders/clients/<default>"), "telemetry_push_rate"): 0.5}
