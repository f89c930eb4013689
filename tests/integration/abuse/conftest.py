"""A node under attack, and what must hold of it whatever the attack is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clients.good_clients import GoodClients
from support.programs.node import Node
from support.rss import RssWatch

MIB = 1024 * 1024
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "100"\n'

Attacked = Callable[..., AbstractContextManager[Node]]

SLOWER = 50
"""The slowest answer that a well-behaved client gets during an attack is at most so many times the slowest one before
it, in the same run. Attackers have their turns on the loop, of 5 ms each; this finds a loop that stands still."""
FLOOR_MS = 100.0
"""The slowest one before it counts as no less than this: it was measured in seconds that may be quiet ones."""


@pytest.fixture
def attacked(tmp_path: Path, request: pytest.FixtureRequest) -> Attacked:
    """`with attacked(*overrides, most_bytes=..., config=...) as node:` and in the block the attack."""

    @contextmanager
    def attack(*overrides: str, most_bytes: int, config: str = SUBSCRIPTION) -> Iterator[Node]:
        with Node(tmp_path, *overrides, config=config) as node:
            assert node.process is not None
            with GoodClients(node.port) as good, RssWatch(node.process.pid) as memory:
                yield node
            grown = memory.peak - memory.at_start
            print(f"{request.node.name}: {good.report}, memory +{grown / MIB:.1f} MiB of {most_bytes / MIB:.0f}")
            assert set(good.report["answers"]) == {"0"}, "a well-behaved client was refused"
            calm_ms = max(good.report["calm"]["max_ms"], FLOOR_MS)
            assert good.report["max_ms"] <= SLOWER * calm_ms, f"well-behaved clients were held up: {good.report}"
            assert grown <= most_bytes
            node.wait_for(_is_empty, what="every connection and instance to be gone")
            assert node.stop() == 0, node.output()
            assert "Traceback" not in node.log.read_text(errors="replace")

    return attack


def _is_empty(status: dict[str, Any]) -> bool:
    connections, telemetry = status["connections"], status["telemetry"]
    return (connections[0]["open"], telemetry["counters"]["instances"]) == (0, 0)
