"""Real clients of every library, oldest and newest, under the quotas of a node: none switches its telemetry off.

Their own logs say so, and which pushes they saw acknowledged; each of those has to be in the landing zone.
"""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.clients.client_fleet import ALL_EACH_SECOND, ClientFleet
from support.clients.telemetry_clients import missing_tools
from support.fleet.delta_sums import DeltaSums
from support.fleet.landing import landed
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
    # The first test on a machine has the clients fetched and built, which takes minutes there.
    pytest.mark.timeout(1200),
]

INTERVAL_MS = 1_000
USER = '[quotas."users/ANONYMOUS"]\n'


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientFleet]:
    directory = tmp_path_factory.mktemp("fleet")
    landing = directory / "landing"
    exporters = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 300\n'
    with Node(directory, config=ALL_EACH_SECOND + exporters) as node:
        fleet = ClientFleet(node, exporters, landing)
        try:
            yield fleet
        finally:
            fleet.kill()


@pytest.fixture
def fleet(shared_fleet: ClientFleet) -> ClientFleet:
    """All clients pushing each second, whatever the test before set."""
    shared_fleet.subscribe(ALL_EACH_SECOND)
    shared_fleet.start_clients()
    shared_fleet.node.wait_for(
        lambda s: s["telemetry"]["counters"]["instances_slowed"] == 0, what="nobody to be slowed"
    )
    return shared_fleet


def pushes(fleet: ClientFleet) -> dict[str, list[dict[str, Any]]]:
    """What has landed of each client instance."""
    found = defaultdict(list)
    for record in landed(fleet.landing):
        found[record["client_instance_id"]].append(record)
    return found


def test_clients_that_a_request_quota_mutes_keep_their_telemetry_on(fleet: ClientFleet) -> None:
    before = fleet.node.status()["quotas"]["requests_throttled"]
    fleet.subscribe(ALL_EACH_SECOND + USER + "request_percentage = 0.00001\n")
    fleet.expect_pushes(fleet.acknowledged(), 3)
    assert fleet.node.status()["quotas"]["requests_throttled"] - before >= 3 * len(fleet.clients)
    fleet.subscribe(ALL_EACH_SECOND)
    fleet.expect_landed()
    fleet.expect_none_off()


def test_clients_over_a_telemetry_quota_push_less_often_and_no_delta_is_lost(fleet: ClientFleet) -> None:
    """A push a second of each, of which three quarters are allowed: each is given twice its interval, and keeps it."""
    refused = fleet.refusals()
    limit = 0.75 * len(fleet.clients)
    fleet.subscribe(ALL_EACH_SECOND + USER + f"telemetry_push_rate = {limit}\n")
    expect_interval(fleet, lambda interval_ms: interval_ms == 2 * INTERVAL_MS)
    counted = {
        client: DeltaSums(client.process.counted_metric, longer_ms=2 * INTERVAL_MS)
        for client in fleet.clients
        if client.process.counted_metric and not client.name.endswith(("consumer", "admin"))
    }
    assert {client.process.library for client in counted} == {"java", "franz-go"}

    def not_agreed() -> dict[str, dict[int, int]]:
        own = pushes(fleet)  # of all at once: the more often they are compared, the less is between their counts
        missing = {
            c.name: sums.missing(own[c.instance_id()], c.own_count(), acknowledged=c.acknowledged())
            for c, sums in counted.items()
        }
        return {name: each for name, each in missing.items() if each}

    wait_for(not_agreed, "the deltas of each to add up to what it counts itself", until=operator.not_)
    assert (fleet.refusals() - refused).keys() == {"UNKNOWN_SUBSCRIPTION_ID"}, "nobody is refused for the quota"
    fleet.expect_landed()
    fleet.expect_none_off()


@pytest.mark.soak
def test_clients_over_a_telemetry_byte_quota_push_less_often_and_come_back(fleet: ClientFleet) -> None:
    refused = fleet.refusals()
    fleet.subscribe(ALL_EACH_SECOND + USER + "telemetry_byte_rate = 10000\n")
    expect_interval(fleet, lambda interval_ms: interval_ms >= 2 * INTERVAL_MS)
    fleet.expect_pushes(fleet.acknowledged())
    fleet.subscribe(ALL_EACH_SECOND + USER + "telemetry_byte_rate = 10000000\n")
    fleet.node.wait_for(lambda s: s["telemetry"]["counters"]["instances_slowed"] == 0, what="the return of all")
    fleet.expect_pushes(fleet.acknowledged())
    assert (fleet.refusals() - refused).keys() == {"UNKNOWN_SUBSCRIPTION_ID"}, "nobody is refused for the quota"
    fleet.expect_landed()
    fleet.expect_none_off()


def expect_interval(fleet: ClientFleet, is_right: Callable[[int], bool]) -> None:
    """Waits until each client was acknowledged a push at an interval that is right."""
    names = {client.instance_id(): client.name for client in fleet.clients}

    def not_yet() -> set[str]:
        there = {push.client_instance_id for push in fleet.landed() if is_right(push.push_interval_ms)}
        return {name for instance_id, name in names.items() if instance_id not in there}

    wait_for(not_yet, "a push of each at the longer interval", until=operator.not_)
