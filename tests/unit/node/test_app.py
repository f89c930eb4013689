"""A node that cannot start."""

import asyncio
from pathlib import Path

import pytest

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config import ServiceConfig


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_a_start_that_fails_leaves_the_data_directory_to_the_next_one(tmp_path: Path, flush: str) -> None:
    values = {"log.dirs": str(tmp_path), "metric.reporters": ["json:JSONDecoder"], "push.log.flush": flush}

    async def run() -> None:
        nodes = [FleetgaugeNode(ServiceConfig.model_validate(values)) for _ in range(2)]
        for node in nodes:
            with pytest.raises(FleetgaugeError, match="it is not a MetricsReporter"):
                await node.start()

    asyncio.run(run())
