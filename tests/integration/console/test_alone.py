"""The console that runs alone, before a real broker."""

import uuid
from pathlib import Path

import pytest
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.programs.node import run_cli

from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.console.api.node import Node
from fleetgauge.node.data_dir import DataDirectory

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def test_it_knows_the_subscriptions_by_which_clients_are_waited_for(broker: KafkaBroker, tmp_path: Path) -> None:
    name = f"alone-{uuid.uuid4().hex[:12]}"
    file = tmp_path / "subscriptions.toml"
    file.write_text(f'[client-metrics.{name}]\nmetrics = "*"\ninterval.ms = 50000\nmatch = "client_id={name}"\n')
    run_cli("subscriptions", "apply", "-f", str(file), "--bootstrap-server", broker.bootstrap, "--yes")
    node = Node(None, DataDirectory(tmp_path), ClusterSettings(bootstrap_servers=broker.bootstrap))
    node.look()
    assert node.in_force is not None
    assert node.in_force[name]["interval.ms"] == "50000"
