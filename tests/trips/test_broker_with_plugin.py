"""The usual form: a real broker with the plugin, `fleetgauge export` beside it, and its destinations."""

import json
import re

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.brokers.kafka_broker import CLUSTER_ID, NODE_ID
from support.fleet.landing import landed
from support.http import get_url
from support.programs.node import run_cli
from support.waiting import wait_for

from trips.conftest import Exported


def test_every_client_is_in_the_landing_zone_under_one_id_of_its_own(exported: Exported) -> None:
    ids: dict[str, set[str]] = {}
    for record in landed(exported.landing):
        ids.setdefault(str(record["client_id"]), set()).add(str(record["client_instance_id"]))
        assert (record["cluster_id"], record["principal"]) == (CLUSTER_ID, "User:ANONYMOUS")
    assert set(ids) == exported.client_ids
    assert [len(each) for each in ids.values()] == [1, 1, 1, 1]


def test_the_collector_gets_every_clients_points_with_the_brokers_labels(exported: Exported) -> None:
    def labels() -> dict[str, dict[str, str]]:
        """By client id."""
        resources = [
            {each.key: each.value.string_value for each in resource_metrics.resource.attributes}
            for request in list(exported.receiver.requests)
            for resource_metrics in MetricsData.FromString(request).resource_metrics
        ]
        return {each["client_id"]: each for each in resources}

    seen = wait_for(labels, "every client at the collector", until=lambda found: found.keys() >= exported.client_ids)
    for client_id in exported.client_ids:
        assert seen[client_id]["node_id"] == str(NODE_ID)
        assert seen[client_id]["client_source_address"] == "127.0.0.1"
        assert seen[client_id]["client_software_version"]


def test_the_page_for_prometheus_has_every_client(exported: Exported) -> None:
    def clients() -> set[str]:
        return set(re.findall(r'client_id="([^"]*)"', get_url(f"http://{exported.page}", "/metrics").body.decode()))

    wait_for(clients, "every client on the page", until=lambda found: found >= exported.client_ids)


def test_the_command_line_lists_the_clients_that_are_there(exported: Exported) -> None:
    command = ("clients", "--log-dirs", str(exported.export.data), "--format", "json")
    rows = [json.loads(line) for line in run_cli(*command).stdout.splitlines()]
    assert {row["client_id"] for row in rows} == exported.client_ids
    assert {row["state"] for row in rows} == {"live"}
