"""`max.connections.per.ip=0` and its overrides, as a node changes them."""

import asyncio

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.node.config import ConfigError, load_config
from fleetgauge.node.listener.connection_limits import NodeConnectionLimits
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.wire.context.connection_limits import Refusal


async def _is_admitted(limits: NodeConnectionLimits, address: str) -> bool:
    place = await limits.take("PLAINTEXT", address, lambda why: None)
    if isinstance(place, Refusal):
        return False
    limits.give_back(place)
    return True


def test_a_node_goes_from_named_addresses_to_all_and_back_and_never_refuses_every_one() -> None:
    named = load_config(overrides=["max.connections.per.ip=0", "max.connections.per.ip.overrides=192.0.2.7:1"])
    every = load_config(overrides=["max.connections.per.ip=5"])

    async def change() -> list[bool]:
        time = MockTime()
        limits = NodeConnectionLimits(named, Metrics(time=time), time, asyncio.get_running_loop())
        seen = []
        for config in (named, every, named):
            limits.reconfigure(config, limits.look_up(config))
            seen += [await _is_admitted(limits, address) for address in ("192.0.2.7", "192.0.2.8")]
        return seen

    assert asyncio.run(change()) == [True, False, True, True, True, False]
    with pytest.raises(ConfigError, match=r"max.connections.per.ip can be 0 only if"):
        load_config(overrides=["max.connections.per.ip=0"])
