"""`fleetgauge quotas list` beside a real broker that holds a Java producer back by its quota."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_pipeline import broker_with_plugin, create_topic, export_config, settled, wait_until_landed
from support.programs.export import Export
from support.programs.node import run_cli
from support.quotas.quota_pipeline import fleet, load
from support.receivers.receiver import OtlpReceiver

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1200),  # a machine gets Kafka and builds the plugin once
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin"),
]

LIMIT = 200_000
QUOTAS = f"""
[quotas."clients/busy"]
producer_byte_rate = {LIMIT}

[quotas."clients/<default>"]
producer_byte_rate = {LIMIT}

[quotas."clients/nobody"]
producer_byte_rate = {LIMIT}
"""


def test_a_java_producer_over_its_quota_is_listed_with_its_use_of_the_limit_and_its_throttling(tmp_path: Path) -> None:
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    tables, receiver = tmp_path / "tables", OtlpReceiver()
    with broker_with_plugin(tmp_path / "kafka", "4.3.1") as broker:
        cluster = ("--bootstrap-server", broker.bootstrap)
        broker.subscribe(interval_ms=1000)
        create_topic(broker.bootstrap)
        run_cli("quotas", "apply", "--yes", "-f", str(tmp_path / "quotas.toml"), *cluster)
        with Export(tmp_path, export_config(broker, tmp_path, receiver.port)) as export:
            # Larger buffers fill the connection with requests, and its pushes wait behind them while it is held back.
            rates = {"busy": 3 * LIMIT, "quiet": LIMIT // 4}
            held = load(broker, "4.4.0", rates, seconds=20, buffer_memory=64 * 1024)
            wait_until_landed(export, tmp_path / "landing", settled(broker)["DeliveredTotal"])
            assert export.stop() == 0, export.output()[-4000:]
        fleet("run", "--source", tmp_path / "landing", "--tables", tables, "--window", "5s")
        listed = run_cli("quotas", "list", *cluster, "--tables", str(tables), "--format", "json")
        shown = run_cli("quotas", "list", *cluster, "--tables", str(tables))
    receiver.finish()
    print(held, shown.stdout, sep="\n")
    used: dict[str, dict[str, Any]] = {each["entity"]: each for each in json.loads(listed.stdout)}
    assert held["busy"].share > 0.3
    assert held["quiet"].share == 0
    assert (used["clients/busy"]["clients"], used["clients/busy"]["clients_without_bytes"]) == (1, 0)
    assert used["clients/busy"]["utilization"] > 0.9
    assert used["clients/busy"]["throttled"] == 1
    assert used["clients/<default>"]["utilization"] < 0.6
    assert used["clients/<default>"]["throttled"] == 0
    assert used["clients/nobody"]["utilization"] is None
