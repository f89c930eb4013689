"""What a point, a push and a reject has of the push record that it came in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from spark.landing_zone import LandingZone, push
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.decode.stage import CountPoints
from fleetgauge.fleet.engines.questions import question
from fleetgauge.fleet.schemas import COUNTED, REJECTS, SENT_POINTS
from fleetgauge.fleet.silver.batch import reject_rows_of
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.source.landing import read
from fleetgauge.fleet.source.selection import Selection


class Rejects:
    total = 0

    def add(self, rejects: int) -> None:
        self.total += rejects


def rows(path: Path) -> Iterator[pa.RecordBatch]:
    return checked(read(path, Selection()))


def points_of(path: Path) -> list[dict[str, Any]]:
    batches = list(question("points").step(Rejects(), rows(path)))
    assert all(batch.schema == SENT_POINTS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def counted(path: Path) -> pa.Table:
    batches = list(CountPoints(None)(rows(path)))
    assert all(batch.schema == COUNTED for batch in batches)
    return pa.Table.from_batches(batches)


def test_a_point_carries_its_push_the_original_and_the_normalised_columns(tmp_path: Path) -> None:
    row = push(dialect.java_consumer(["a.b"]), client_id="billing-1")
    found = points_of(LandingZone(tmp_path).write([row]))
    assert [(p["metric_name"], p["topic"], p["partition"], p["twin"], p["value"]) for p in found] == [
        (dialect.LAG, None, None, False, 30.0),
        (dialect.LAG, "a.b", 0, False, 10.0),
        (dialect.LAG, "a_b", 0, True, 10.0),
        (dialect.CONSUMER_AVG, None, None, False, None),
    ]
    last = found[-1]
    assert [last[name] for name in ("node_id", "coordinator", "group_id", "group_member_id")] == [
        *(1, True),
        *("billing", "m-1"),
    ]
    assert dict(last["attributes"]) == {"node_id": "node-2147483646"}
    assert dict(last["resource"]) == {"group_id": "billing", "group_member_id": "m-1", "client_rack": "eu-1a"}
    assert {(p["push_id"], p["client_id"], p["client_instance_id"]) for p in found} == {
        (row["push_id"], "billing-1", row["client_instance_id"])
    }
    assert {p["received_at"].timestamp() * 1_000_000 for p in found} == {row["received_at"]}


def test_a_distribution_keeps_what_it_holds_and_a_number_has_none(tmp_path: Path) -> None:
    data = MetricsData.FromString(dialect.franz_go({1: 2.5}))
    metric = data.resource_metrics[0].scope_metrics[0].metrics.add(name="size")
    metric.histogram.data_points.add(count=3, sum=7.5, max=6.0, explicit_bounds=[1, 5], bucket_counts=[1, 1, 1])
    number, histogram = points_of(LandingZone(tmp_path).write([push(data.SerializeToString())]))
    assert (number["value"], number["distribution"]) == (2.5, None)
    assert (histogram["value"], histogram["count"], histogram["sum"]) == (None, 3, 7.5)
    assert {name: value for name, value in histogram["distribution"].items() if value is not None} == {
        "max": 6.0,
        "bounds": [1.0, 5.0],
        "bucket_counts": [1, 1, 1],
    }


def test_a_malformed_payload_among_many_pushes_is_set_aside_alone(tmp_path: Path) -> None:
    pushes = [push(dialect.librdkafka_producer([(n % 3, 1.0 + n)]), client_id=f"c-{n}") for n in range(2500)]
    pushes[1777]["metrics"] = dialect.MALFORMED
    path = LandingZone(tmp_path).write(pushes)
    assert len(points_of(path)) == 2499 * 2
    everything = counted(path)
    (bad,) = everything.filter(everything["reason"].is_valid()).combine_chunks().to_batches()
    rejects = reject_rows_of(bad)
    assert rejects.schema == REJECTS
    (reject,) = rejects.to_pylist()
    assert (reject["client_id"], reject["source_row"]) == ("c-1777", 1777)
    assert reject["reason"].startswith("malformed OTLP MetricsData")
    assert Path(reject["source_file"]).name == "part-0.parquet"
    assert (reject["payload"], str(reject["date"])) == (dialect.MALFORMED, "2026-03-01")


def test_pushes_are_counted_with_their_points_and_heartbeats(tmp_path: Path) -> None:
    path = LandingZone(tmp_path).write(
        [
            push(dialect.franz_go({1: 1.0, 2: 2.0}), client_id="a"),
            push(b"", client_id="b"),
            push(dialect.MALFORMED, client_id="c"),
        ]
    )
    found = {
        row["client_id"]: (row["points"], row["heartbeat"], row["reason"] is None) for row in counted(path).to_pylist()
    }
    assert found == {"a": (2, False, True), "b": (0, True, True), "c": (None, None, False)}
