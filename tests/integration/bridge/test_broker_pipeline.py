"""End to end on real parts: Java and librdkafka clients, a real broker with the plugin, export, OTLP, landing zone."""

import shutil
from pathlib import Path

import pytest
from support.brokers.broker_pipeline import inventory, missing, run_pipeline

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin"),
]


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.2", marks=pytest.mark.soak)])
def test_every_client_of_a_real_broker_comes_through_to_the_fleets_inventory(tmp_path: Path, version: str) -> None:
    outcome = run_pipeline(version, tmp_path, print)
    assert missing(outcome) == []
    rows = {row["client_id"]: row for row in inventory(tmp_path / "landing")}
    assert set(rows) == set(outcome.instance_ids)
    for client_id, instance_id in outcome.instance_ids.items():
        assert rows[client_id]["terminated"] is True
        if instance_id:
            assert rows[client_id]["client_instance_id"] == instance_id
