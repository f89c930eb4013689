"""Limits of connections: Kafka's keys, for the node and for one listener."""

import asyncio

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.node.config.connections import resolve_overrides
from fleetgauge.node.config.sizes import Machine
from fleetgauge.node.listener.connection_limits import NodeConnectionLimits
from fleetgauge.quotas import UNLIMITED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.wire.context.connection_limits import Refusal

LISTENERS = (
    "listeners=EXTERNAL://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map=EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT",
)


def limits_of(*overrides: str) -> dict[str, tuple[int, int]]:
    keys = load_config(overrides=[*LISTENERS, *overrides]).security_keys().by_listener
    return {name: (each.max_connections, each.max_connection_creation_rate) for name, each in keys.items()}


def limits(*overrides: str) -> NodeConnectionLimits:
    config = load_config(overrides=[*LISTENERS, *overrides])
    time = MockTime()
    return NodeConnectionLimits(config, Metrics(time=time), time, asyncio.get_running_loop())


def test_connections_are_limited_by_the_machine_and_rates_only_if_it_is_asked_for() -> None:
    machine = Machine.this()
    for connections, rate in limits_of().values():
        assert 1 < connections <= machine.open_files
        assert rate == UNLIMITED
    assert load_config().max_connections_per_ip < load_config().max_connections


def test_a_listener_has_the_nodes_limits_where_it_has_none_of_its_own() -> None:
    found = limits_of(
        "max.connections=500",
        "max.connection.creation.rate=50",
        "listener.name.internal.max.connections=20",
        "listener.name.external.max.connection.creation.rate=10",
    )
    assert found == {"EXTERNAL": (500, 10), "INTERNAL": (20, 50)}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("max.connections=-1", "max.connections"),
        ("max.connections=2147483648", "max.connections"),
        ("max.connection.creation.rate=fast", "max.connection.creation.rate"),
        ("listener.name.internal.max.connections=-1", "listener.name.internal.max.connections"),
        ("max.connections.per.ip.overrides=192.0.2.7", "is not host:count, for example 192.0.2.7:100"),
        ("max.connections.per.ip.overrides=192.0.2.7:many", "is not host:count"),
        ("max.connections.per.ip.overrides=192.0.2.7:99999999999", "is not host:count"),
        ("max.connections.per.ip.overrides=192.0.2.7:1,192.0.2.7:2", "192.0.2.7 occurs twice"),
        ("max.connections.per.ip=0", "max.connections.per.ip can be 0 only if max.connections.per.ip.overrides"),
        ("inter.broker.listener.name=OTHER", "listeners has no such name"),
    ],
)
def test_a_limit_that_cannot_be_used_is_refused_by_its_key(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        limits_of(override)


def test_overrides_are_limits_of_numeric_addresses() -> None:
    assert resolve_overrides({"127.0.0.1": 5, "::ffff:192.0.2.7": 6, "0:0::1": 7}) == {
        "127.0.0.1": 5,
        "192.0.2.7": 6,
        "::1": 7,
    }


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"names nowhere\.\.example, which has no address"):
        resolve_overrides({"nowhere..example": 5})  # no name service is asked for such a name


def test_limits_change_while_the_node_runs_and_hold_for_what_is_counted_already() -> None:
    async def main() -> None:
        found = limits("max.connections.per.ip=1")
        for name in ("EXTERNAL", "INTERNAL"):
            found.on_excess(name, lambda _: None)
        waits: list[str] = []
        first = await found.take("EXTERNAL", "192.0.2.7", waits.append)
        assert isinstance(await found.take("EXTERNAL", "192.0.2.7", waits.append), Refusal)
        config = load_config(
            overrides=[
                "listeners=EXTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",  # one is gone, one is new
                "listener.security.protocol.map=EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "max.connections.per.ip=3",
                "max.connections.per.ip.overrides=192.0.2.7:2",
            ]
        )
        found.reconfigure(config, found.look_up(config))
        assert found.look_up(config) is None
        assert not isinstance(await found.take("EXTERNAL", "192.0.2.7", waits.append), Refusal)
        assert isinstance(await found.take("EXTERNAL", "192.0.2.7", waits.append), Refusal)
        assert found.status() == {"connections": 2, "addresses": 1}
        found.give_back(first)
        found.give_back(first)
        assert found.status() == {"connections": 1, "addresses": 1}
        assert not waits

    asyncio.run(main())


def test_the_fullest_of_the_other_listeners_makes_room_for_the_inter_broker_listener() -> None:
    async def main() -> None:
        found = limits(
            "max.connections=2", "listener.name.internal.max.connections=10", "inter.broker.listener.name=INTERNAL"
        )
        asked: list[int] = []
        found.on_excess("EXTERNAL", asked.append)
        found.on_excess("INTERNAL", lambda excess: pytest.fail("brokers stay"))
        for _ in range(2):
            await found.take("EXTERNAL", "192.0.2.7", pytest.fail)
        assert not asked
        for _ in range(2):
            await found.take("INTERNAL", "192.0.2.8", pytest.fail)
        assert asked == [1, 2]

    asyncio.run(main())
