"""What plans and canaries read from fleet tables, by the columns that `fleet run` writes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.subscriptions.canary import Fares
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.tables import FleetTables
from fleetgauge.fleet.schemas import INVENTORY, LATENCY, THROTTLING
from fleetgauge.verdicts.rows import SCHEMA as VERDICTS

NOW = datetime(2026, 11, 23, 18, 45, tzinfo=UTC)
SOFTWARE = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.1"}
FARES = Fares(
    clients=1, pushes_per_minute=1, bytes_per_minute=None, bytes_per_push=None, refused=None, troubled=0, gone=0
)


def written(root: Path, name: str, schema: pa.Schema, *rows: dict[str, Any]) -> None:
    whole = [{field.name: row.get(field.name) for field in schema} for row in rows]
    assert all(row.keys() <= set(schema.names) for row in rows)
    write_deltalake(str(root / "gold" / name), pa.Table.from_pylist(whole, schema=schema))


def windowed(instance: str, at: datetime, **columns: Any) -> dict[str, Any]:
    return {"client_instance_id": instance, "window_start": at, "date": at.date(), "window_s": 300, **columns}


def test_live_clients_are_read_with_roles_and_points(tmp_path: Path) -> None:
    known = {"client_instance_id": "a", "client_id": "orders", "principal": "User:a", **SOFTWARE}
    written(
        tmp_path,
        "inventory",
        INVENTORY,
        {**known, "state": "live", "role": "producer", "pushes": 10, "points": 400, "push_interval_ms": 60_000},
        {**known, "state": "silent", "client_instance_id": "b"},
        {**known, "state": "ended", "client_instance_id": "c"},
    )
    assert FleetTables(str(tmp_path)).clients() == [
        Client(
            instance_id="a",
            client_id="orders",
            software_name="apache-kafka-java",
            software_version="4.3.1",
            principal="User:a",
            interval_ms=60_000,
            pushes=10,
            points=400,
            role="producer",
        )
    ]


def test_open_verdicts_alone_are_found(tmp_path: Path) -> None:
    row = {"verdict": "crash-loop", "subject_kind": "client", "subject": "orders", "why": "it crashes"}
    written(tmp_path, "verdicts", VERDICTS, {**row, "state": "open"}, {**row, "state": "cleared"})
    assert [each["state"] for each in FleetTables(str(tmp_path)).findings()] == ["open"]


def test_latency_and_throttling_are_of_the_instances_and_windows_asked_for(tmp_path: Path) -> None:
    """Averages of 10 ms in 3 samples and 30 ms in 1 are 15 ms; 1 of 4 pushes tells of throttling."""
    metric = "org.apache.kafka.producer.node.request.latency"
    earlier = NOW - timedelta(hours=1)
    written(
        tmp_path,
        "latency",
        LATENCY,
        windowed("a", NOW, metric=metric, latency_avg_ms=10.0, samples=3),
        windowed("b", NOW, metric=metric, latency_avg_ms=30.0, samples=1),
        windowed("b", NOW, metric="org.apache.kafka.consumer.commit.latency", latency_avg_ms=9.9, samples=1),
        windowed("a", earlier, metric=metric, latency_avg_ms=500.0, samples=9),
        windowed("other", NOW, metric=metric, latency_avg_ms=700.0, samples=9),
    )
    written(
        tmp_path,
        "throttling",
        THROTTLING,
        windowed("a", NOW, samples=4, throttled=1),
        windowed("a", earlier, samples=4, throttled=4),
    )
    measured = FleetTables(str(tmp_path)).measured(FARES, {"a", "b"}, NOW)
    assert [measured.latency_ms, measured.throttled_share] == pytest.approx([15, 0.25])


def test_tables_that_are_not_there_are_named_or_empty(tmp_path: Path) -> None:
    tables = FleetTables(str(tmp_path))
    assert tables.findings() == []
    assert tables.measured(FARES, {"a"}, NOW) == FARES
    with pytest.raises(ResourceError, match="fleetgauge fleet run creates it"):
        tables.clients()
