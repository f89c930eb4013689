"""Real clients of every library that are denied telemetry for a while: none switches it off, all push again."""

from pathlib import Path

import pytest
from support.clients.client_fleet import ALL_EACH_SECOND, ClientFleet
from support.clients.telemetry_clients import missing_tools
from support.programs.node import Node
from support.waiting import pause, ticking

pytestmark = [
    pytest.mark.integration,
    pytest.mark.soak,  # a client that was asked for nothing asks again after 4 to 6 minutes
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
    pytest.mark.timeout(2400),
]

DENIED = ALL_EACH_SECOND + '[client.id.patterns]\n"User:*" = "nobody"\n'


def test_every_client_pushes_again_after_a_denial(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    exporters = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 300\n'
    with Node(tmp_path, config=ALL_EACH_SECOND + exporters) as node:
        fleet = ClientFleet(node, exporters, landing)
        try:
            fleet.start_clients()
            fleet.subscribe(DENIED)
            pause(10, "what was answered before the denial, and is in the clients' logs by then")
            before = fleet.acknowledged()
            for _ in ticking(20, every_s=1.0):  # twenty intervals: each client has a push or a Get denied
                assert fleet.acknowledged() == before
            status = node.wait_for(
                lambda status: status["authorization"]["denials"]["PUSH_TELEMETRY: client_id"] >= len(fleet.clients),
                what="denied pushes",
            )
            assert fleet.acknowledged() == before
            assert status["telemetry"]["get_answers"].keys() == {"NONE"}
            fleet.expect_none_off()
            fleet.subscribe(ALL_EACH_SECOND)
            fleet.expect_pushes(before, within_s=900)
            fleet.expect_landed()
            fleet.expect_none_off()
        finally:
            fleet.kill()
