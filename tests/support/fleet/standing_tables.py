"""Fleet tables as somebody without Spark reads them: with `deltalake`, from their files."""

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from unit.fleet.decode import dialect_payloads as dialect

LAYERS = ("silver", "gold")
OF_SIDE_ROWS = ("group_offsets", "group_trends", "traffic")
"""Tables that have rows only where groups were sampled, or a gateway counted traffic."""
THROTTLE = "org.apache.kafka.producer.produce.throttle.time.max"
REBALANCES = "org.apache.kafka.consumer.coordinator.rebalance.rate.per.hour"


def for_every_table(value: float) -> bytes:
    """A payload of what throttling, rebalances and consumers are told from."""
    data = MetricsData()
    dialect.java_metric(data, THROTTLE, value, {}, resource={})
    dialect.java_metric(data, REBALANCES, value, {}, resource={"group_id": "billing", "group_member_id": "m-1"})
    return data.SerializeToString()


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    """A table's rows, in no order; none where it is not there."""
    found = [each for layer in (*LAYERS, "state") if (each := root / layer / name).is_dir()]
    if not found:
        return []
    (path,) = found
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return rows


def contents(root: Path, *, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Every row of every silver and gold table and of what is remembered of series, as text, in order."""
    paths = [*sorted(path for layer in LAYERS for path in (root / layer).iterdir()), root / "state" / "series"]
    return {
        path.name: sorted(json.dumps(row, sort_keys=True, default=repr) for row in rows(root, path.name))
        for path in paths
        if path.name not in without
    }


def assert_equal(found: dict[str, list[str]], expected: dict[str, list[str]]) -> None:
    """The same tables, row by row; names the first row that differs."""
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        assert wanted or name in OF_SIDE_ROWS, f"{name} is empty: nothing would be compared"
        missing, more = set(wanted) - set(found[name]), set(found[name]) - set(wanted)
        assert not missing, (name, next(iter(missing)))
        assert not more, (name, next(iter(more)))
        assert found[name] == wanted, f"{name} has rows twice"
