"""Limits in two layers, and their records: what tools may change, and what is in force."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ConfigError, InvalidRequestError, KafkaError, PolicyViolationError
from fleetgauge.cluster.quotas.limits import Entity, Limits, by_entity, read_entity, read_limits
from fleetgauge.node.state import client_quotas
from fleetgauge.node.state.client_quotas import (
    ClientQuotas,
    QuotaLimits,
    QuotaOperation,
    to_records,
)
from fleetgauge.node.state.node_state import NodeState, Transaction
from fleetgauge.node.state.store import Records, StateStore

ALICE = read_entity("users/alice")
FILE = by_entity(read_limits({"users/alice": {"request_percentage": 50}}))
STRANGE = ("</script>\n\x1b[31m\x1f\u202eé", "<default>", "a/b%2Fc", "%", "CN=app, O=me")


def after(limits: QuotaLimits, entity: Entity, operations: list[QuotaOperation]) -> QuotaLimits:
    return limits.having({entity: limits.altered(entity, operations)})


def read(records: Records) -> dict[Entity, dict[str, float]]:
    return dict(QuotaLimits(declared={}).read_record(*each) for each in records.items())


def setting(key: str, value: float | None) -> list[QuotaOperation]:
    return [QuotaOperation(key, value)]


@pytest.mark.parametrize("kinds", ["users/{}", "clients/{}", "users/{}/clients/{}"])
def test_any_name_survives_the_records(kinds: str) -> None:
    from urllib.parse import quote

    limits = {read_entity(kinds.format(*[quote(name, safe="")] * 2)): {"request_percentage": 0.1} for name in STRANGE}
    assert len(limits) == len(STRANGE)
    assert read(to_records(limits)) == limits
    defaults: Limits = {read_entity(kinds.format("<default>", "<default>")): {"request_percentage": 1 / 3}}
    assert read(to_records(defaults)) == defaults


def test_a_tools_value_stands_over_the_files_key_by_key_until_it_is_deleted() -> None:
    limits = after(QuotaLimits(declared=FILE), ALICE, setting("request_percentage", 10.0))
    limits = after(limits, ALICE, setting("producer_byte_rate", 1024.0))
    assert limits.effective() == {ALICE: {"request_percentage": 10.0, "producer_byte_rate": 1024.0}}
    assert limits.overridden([ALICE]) == {"users/alice": ["request_percentage"]}
    limits = after(limits, ALICE, setting("request_percentage", None))
    assert limits.effective()[ALICE]["request_percentage"] == 50
    with pytest.raises(PolicyViolationError, match=r'\[quotas\."users/alice"\]'):
        limits.altered(ALICE, setting("request_percentage", None))
    assert after(limits, ALICE, setting("producer_byte_rate", None)).effective() == FILE
    assert after(limits, ALICE, setting("consumer_byte_rate", None)) == limits  # as in Kafka: nothing to remove


@pytest.mark.parametrize(
    ("path", "key", "value", "text"),
    [
        ("users/alice", "bogus", 1.0, "Invalid configuration key bogus"),
        ("users/alice", "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ("ips/10.0.0.1", "request_percentage", 1.0, "Invalid configuration key request_percentage"),
        ("users/alice", "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("users/alice", "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ("users/alice", "request_percentage", math.nan, "Quota request_percentage must be a number"),
        ("users/alice", "request_percentage", math.inf, "Quota request_percentage must be a number"),
    ],
)
def test_what_kafka_refuses_is_refused_with_its_text(path: str, key: str, value: float, text: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        QuotaLimits(declared=FILE).altered(read_entity(path), setting(key, value))
    assert str(refused.value) == text


def test_a_node_of_several_workers_takes_no_telemetry_quota(tmp_path: Path) -> None:
    with pytest.raises(PolicyViolationError, match="workers=1"):
        QuotaLimits(declared=FILE, workers=2).altered(ALICE, setting("telemetry_push_rate", 1.0))


def test_the_number_of_entities_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    limits = after(QuotaLimits(declared=FILE), ALICE, setting("request_percentage", 1.0))
    with pytest.raises(PolicyViolationError, match="at most 1 entities"):
        limits.altered(read_entity("users/bob"), setting("request_percentage", 1.0))
    with pytest.raises(PolicyViolationError, match="at most 1 entities"):
        QuotaLimits(declared=FILE).altered(ALICE, setting("request_percentage", 1.0), added=1)
    assert after(limits, ALICE, setting("request_percentage", 2.0)).changed[ALICE]["request_percentage"] == 2


class Node:
    """The limits of one worker over the node's state; refuses limits above `refused_above`."""

    def __init__(self, path: Path, refused_above: float = math.inf) -> None:
        self.installed: Limits = FILE
        self.changes: list[Limits] = []
        self.refused_above = refused_above
        self.state = NodeState(StateStore(path / "state.db"), MockTime())
        self.quotas = ClientQuotas(FILE, self.install)
        self.state.add(self.quotas)

    def install(self, limits: Limits) -> None:
        if any(value > self.refused_above for values in limits.values() for value in values.values()):
            raise ConfigError("quotas", "too much")
        self.changes.append(limits)
        self.installed = {entity: values for entity, values in {**self.installed, **limits}.items() if values}

    def set(self, key: str, value: float | None) -> Callable[[Transaction], None]:
        return lambda transaction: self.quotas.change(
            transaction, lambda limits: after(limits, ALICE, setting(key, value))
        )


def test_changes_are_in_force_at_once_at_other_workers_later_and_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        node, other = Node(tmp_path), Node(tmp_path)
        assert node.installed == FILE
        await node.state.run(node.set("request_percentage", 10.0))
        assert node.installed == {ALICE: {"request_percentage": 10.0}}
        assert other.installed == FILE
        await other.state.run(lambda transaction: transaction.refresh())
        assert other.installed == Node(tmp_path).installed == node.installed
        node.quotas.configure({})
        assert node.installed == {ALICE: {"request_percentage": 10.0}}
        await node.state.run(node.set("request_percentage", None))
        assert node.installed == {}

    asyncio.run(run())


def test_a_change_puts_the_limits_of_its_entity_in_force_and_touches_no_other(tmp_path: Path) -> None:
    others = {f"users/user-{number}": {"request_percentage": "5.0"} for number in range(3)}

    async def run() -> None:
        node = Node(tmp_path)
        node.quotas.apply(node.quotas.usable(others))
        assert len(node.installed) == 4
        node.changes.clear()
        more = {**others, "users/user-1": {"request_percentage": "6.0"}}
        node.quotas.apply(node.quotas.usable(more))
        node.quotas.apply(node.quotas.usable(dict(more)))
        node.quotas.apply(node.quotas.usable({"users/alice": {"request_percentage": "50.0"}, **others}))
        node.quotas.apply(node.quotas.usable({}))
        one = read_entity("users/user-1")
        assert node.changes[:3] == [{one: {"request_percentage": 6.0}}, {}, {one: {"request_percentage": 5.0}}]
        assert node.installed == FILE
        node.quotas.configure({**FILE, one: {"request_percentage": 7.0}})
        assert node.changes[-1] == {one: {"request_percentage": 7.0}}

    asyncio.run(run())


def test_a_refused_change_is_neither_stored_nor_in_force(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(tmp_path)
        with pytest.raises(KafkaError):
            await node.state.run(node.set("request_percentage", -1.0))
        assert node.installed == Node(tmp_path).installed == FILE

    asyncio.run(run())


def test_limits_that_a_callback_refuses_are_logged_and_the_node_starts_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        node = Node(tmp_path, refused_above=60)
        await node.state.run(node.set("request_percentage", 70.0))
        assert node.installed == FILE
        assert "quotas.not_in_force" in capsys.readouterr().out
        again = Node(tmp_path, refused_above=60)
        assert again.installed == FILE
        await again.state.run(again.set("request_percentage", 55.0))
        assert again.installed == {ALICE: {"request_percentage": 55.0}}

    asyncio.run(run())


def test_records_of_a_later_release_are_kept_and_not_applied(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    later = {"users/bob": {"new_rate": "1"}, "topics/x": {"request_percentage": "1"}}
    store.change(lambda _: {"quotas": later})

    async def run() -> None:
        node = Node(tmp_path)
        assert node.installed == FILE
        await node.state.run(node.set("request_percentage", 10.0))

    asyncio.run(run())
    assert store.read()["quotas"] == {**later, "users/alice": {"request_percentage": "10.0"}}
