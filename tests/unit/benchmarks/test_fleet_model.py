"""The model of `benchmarks/fleet_model`: queues behave as queues do, and metrics as their clients compute them."""

import dataclasses
import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

ROOT = Path(__file__).resolve().parents[3]
NAMES = (
    "fleet",
    "otlp",
    "levers",
    "physics",
    "view",
    "java",
    "librdkafka",
    "franz_go",
    "zone",
    "faults",
    "truth",
    "score",
)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    modules: dict[str, ModuleType] = {name: importlib.import_module(f"benchmarks.fleet_model.{name}") for name in NAMES}
    return SimpleNamespace(**modules)


def views(model: Any, fleet: Any, history: Any, levers: Any, **wanted: str) -> Iterator[Any]:
    """The pushes of a minute of the processes whose application has these attributes, one after the other."""
    for process in levers.processes:
        app = fleet.app_of(process.slot)
        if all(getattr(app, name) == value for name, value in wanted.items()):
            for now in range(60, 180, 6):
                yield model.view.View(
                    fleet=fleet, history=history, process=process, app=app, before=now - 6, now=now, is_first=False
                )


def test_latencies_rise_with_the_load_of_the_brokers(model: Any) -> None:
    fleet = model.fleet.make_fleet(1, 20, 3, 1.0)
    latencies = []
    for load in (1.0, 30.0, 90.0):
        levers = model.levers.no_levers(fleet)
        levers.load *= load
        levers.linger[:] = 0.05
        latencies.append(float(model.physics.simulate(fleet, levers).true_latency[60:].mean()))
    assert latencies[0] < latencies[1] < latencies[2]


def test_java_sums_of_deltas_are_the_records_sent_and_maxima_are_not_below_averages(model: Any) -> None:
    fleet = model.fleet.make_fleet(2, 20, 3, 1.0)
    levers = model.levers.no_levers(fleet)
    history = model.physics.simulate(fleet, levers)
    total, slots = 0.0, set()
    for view in views(model, fleet, history, levers, library="java", role="producer"):
        points = list(model.java.java_points(view))
        by_name = {(point.name, tuple(point.attributes.values())): point.value for point in points}
        total += by_name[("producer.record.send.total", ())]
        slots.add(view.slot)
        for (name, attributes), value in by_name.items():
            if name.endswith(".avg") and (name.removesuffix("avg") + "max", attributes) in by_name:
                most = by_name[(name.removesuffix("avg") + "max", attributes)]
                assert math.isnan(value) == math.isnan(most)
                assert math.isnan(value) or most >= value
        bootstrap = by_name[("producer.node.request.latency.avg", ("node--1",))]
        assert math.isnan(bootstrap)
    sent = float(history.records[54:174, sorted(slots)].sum(dtype=np.float64))
    assert total == pytest.approx(sent, rel=0.01)


def test_an_idle_java_consumer_has_a_ratio_of_a_half_and_a_busy_one_nearly_none(model: Any) -> None:
    fleet = model.fleet.make_fleet(3, 20, 3, 1.0)
    ratios = []
    for factor in (1e-6, 50.0):
        levers = model.levers.no_levers(fleet)
        levers.processing *= factor
        history = model.physics.simulate(fleet, levers)
        view = next(views(model, fleet, history, levers, library="java", role="consumer"))
        points = {point.name: point.value for point in model.java.java_points(view)}
        ratios.append(points["consumer.poll.idle.ratio.avg"])
    assert ratios[0] == pytest.approx(0.5, abs=0.01)
    assert ratios[1] < 0.02


def test_a_java_push_has_each_point_in_its_own_resource_with_its_times(model: Any) -> None:
    points = [
        model.otlp.Point("producer.record.send.total", 37.0, True),
        model.otlp.Point("producer.node.request.latency.avg", 2.5, attributes={"node_id": "node-37"}),
    ]
    data = MetricsData.FromString(model.otlp.java_payload(points, {"group_id": "a%b"}, 1_000, 2_000))
    assert [each.resource.attributes[0].value.string_value for each in data.resource_metrics] == ["a%b", "a%b"]
    total, latency = (each.scope_metrics[0].metrics[0] for each in data.resource_metrics)
    number = total.sum.data_points[0]
    assert (number.as_double, number.start_time_unix_nano, number.time_unix_nano) == (37.0, 1_000, 2_000)
    number = latency.gauge.data_points[0]
    assert (number.as_double, number.start_time_unix_nano, number.time_unix_nano) == (2.5, 0, 2_000)
    assert number.attributes[0].value.string_value == "node-37"


def test_librdkafka_sends_zeros_and_whole_maxima_and_franz_go_leaves_zeros_out(model: Any) -> None:
    fleet = model.fleet.make_fleet(4, 40, 3, 1.0)
    levers = model.levers.no_levers(fleet)
    history = model.physics.simulate(fleet, levers)
    view = next(views(model, fleet, history, levers, library="librdkafka"))
    points = list(model.librdkafka.librdkafka_points(view))
    assert any(point.value == 0 for point in points)
    assert all(isinstance(point.value, int) for point in points if point.name.endswith(".max"))
    view = next(views(model, fleet, history, levers, library="franz-go"))
    assert all(point.value for point in model.franz_go.franz_go_points(view))


def test_what_is_sent_is_what_is_consumed_and_what_waits(model: Any) -> None:
    fleet = model.fleet.make_fleet(5, 20, 3, 1.0)
    levers = model.levers.no_levers(fleet)
    levers.processing[120:] = 40.0
    history = model.physics.simulate(fleet, levers)
    topic = fleet.apps[0].topic
    sent = sum(history.records[:, slot].sum() for slot in fleet.slots_of("archive-bulk"))
    read = sum(history.records[:, slot].sum() for slot in fleet.slots_of("archive-writer"))
    conditions = importlib.import_module("benchmarks.fleet_model.conditions")
    waits = history.lag[-1, conditions.group_shares(fleet, "archive-writer-group")].sum()
    assert topic == 0
    assert waits > 0
    assert sent == pytest.approx(read + waits, rel=0.001)


def test_a_fault_is_put_where_its_condition_holds_and_the_zone_has_its_clients(model: Any, tmp_path: Path) -> None:
    fleet = dataclasses.replace(model.fleet.make_fleet(6, 4, 3, 2.0, (60.0,), ["wide group"]), samples_offsets=True)
    wishes = [model.truth.Wish(verdict="slow-node", begin=420, end=560, size=0.5)]
    case = model.truth.make_case(fleet, wishes, [])
    assert [fault.verdict for fault in case.faults] == ["slow-node"]
    pushes = model.zone.write_zone(case.fleet, case.levers, case.history, tmp_path)
    files = sorted(tmp_path.glob("date=*/**/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert len(rows) == pushes
    assert {row["client_id"] for row in rows} == {app.client_id for app in fleet.apps}
    assert all(MetricsData.FromString(row["metrics"]).resource_metrics for row in rows[:50])
    assert list((tmp_path / "group_offsets").rglob("*.parquet"))


def test_a_row_of_another_subject_is_false_and_one_that_names_its_cause_is_folded(model: Any) -> None:
    truth = {
        "clients": 10, "hours": 24.0, "unattributed": [],
        "faults": [
            {
                "verdict": "slow-node", "subject_kind": "node", "subject": "2", "from": 3600.0, "to": 7200.0,
                "size": 0.5, "library": "", "consequences": [["buffer-full", "client", "a"]],
            }
        ],
    }  # fmt: skip
    times = {"opened_at": "1970-01-01T01:20:00Z", "last_seen_at": "1970-01-01T02:00:00Z", "cleared_at": None}
    common = {**times, "state": "open", "why": ""}
    cause = "slow-node:node:2"
    rows = [
        {**common, "verdict": "slow-node", "subject_kind": "node", "subject": "2", "caused_by": None},
        {**common, "verdict": "buffer-full", "subject_kind": "client", "subject": "a", "caused_by": cause},
        {**common, "verdict": "buffer-full", "subject_kind": "client", "subject": "b", "caused_by": cause},
    ]
    score = model.score.compare("f", truth, rows)
    assert (score.found, score.right, score.folded, score.false) == (1, 1, 1, 1)
    assert (score.causes, score.right_causes) == (2, 1)
