"""CPU that `temporality = cumulative` takes of a push, next to `as_sent`, in one run.

    .venv/bin/python benchmarks/exporters/bench_temporality.py [--seconds 2]

(two cores; the dependency group `bench`)

Payloads: D, a Java producer's push (60 points, of which 20 are delta sums, one resource a metric); S and F of
`bench_labels`, gauges alone; H, 10 delta histograms of 12 buckets. Clients push in turn, their numbers change with each
push. The exporter runs on core 0 and delivers over gRPC to a receiver on core 1 that reads nothing; its state is saved
in a file, as under `fleetgauge`. Prints one JSON object, with CPU of the process [us a push]; `ratio` is `cumulative`
divided by `as_sent` (the goal is 1.5).
"""

import argparse
import json
import multiprocessing
import platform
import random
import sys
import tempfile
import time
from pathlib import Path

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.exporters.bench_destinations import pin, receive
from benchmarks.exporters.bench_labels import RECORD, payload
from fleetgauge.exporters.delivery.readable import export_readable
from fleetgauge.exporters.exporter import Delivered
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushIds, PushRecord

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CLIENTS = 100
TURNS = 40
FIRST_TURNS = 4
SECOND_NANO = 1_000_000_000
START_NANO = 1_750_000_000 * SECOND_NANO


def java_push(turn: int, rng: random.Random) -> bytes:
    """A push of sums and gauges, one resource a metric."""
    push = MetricsData()
    for number in range(60):
        metric = Metric(name=f"org.apache.kafka.producer.node.request.metric.{number}")
        if number % 3 == 0:
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = DELTA
            point = metric.sum.data_points.add(start_time_unix_nano=START_NANO + turn * SECOND_NANO)
        else:
            point = metric.gauge.data_points.add()
        point.as_double = float(rng.randrange(1_000))
        point.time_unix_nano = START_NANO + (turn + 1) * SECOND_NANO
        point.attributes.add(key="node_id").value.string_value = str(number % 5)
        push.resource_metrics.add().scope_metrics.add().metrics.append(metric)
    return push.SerializeToString()


def histograms(turn: int, rng: random.Random) -> bytes:
    """A push of histograms."""
    push = MetricsData()
    scope = push.resource_metrics.add().scope_metrics.add()
    for number in range(10):
        metric = scope.metrics.add(name=f"app.latency.{number}")
        metric.histogram.aggregation_temporality = DELTA
        point = metric.histogram.data_points.add(
            start_time_unix_nano=START_NANO + turn * SECOND_NANO, time_unix_nano=START_NANO + (turn + 1) * SECOND_NANO
        )
        point.explicit_bounds.extend(float(2**power) for power in range(11))
        point.bucket_counts.extend(rng.randrange(100) for _ in range(12))
        point.count, point.sum = sum(point.bucket_counts), rng.random() * 1e4
    return push.SerializeToString()


def batches(case: str) -> list[Batch]:
    """Pushes of each client, one batch a turn."""
    rng, ids = random.Random(7), PushIds(writer=1)
    made = []
    for turn in range(TURNS):
        records = []
        for client in range(CLIENTS):
            metrics = {
                "D": lambda: java_push(turn, rng),  # noqa: B023  # called at once
                "H": lambda: histograms(turn, rng),  # noqa: B023
                "S": lambda: payload(10, a_resource_per_metric=False),
                "F": lambda: payload(700, a_resource_per_metric=False),
            }[case]()
            records.append(record(metrics, client, turn, ids))
        size = sum(len(each.metrics) for each in records)
        made.append(Batch(exporter="x", records=tuple(records), first_position="1", last_position="2", size_bytes=size))
    return made


def record(metrics: bytes, client: int, turn: int, ids: PushIds) -> PushRecord:
    """A push of one of the clients."""
    received_at = START_NANO // 1_000 + turn * 1_000_000 + client
    return RECORD._replace(
        push_id=ids.next_id(received_at),
        received_at=received_at,
        client_instance_id=f"Tm-1TLjmRReIm-FbmcC{client:03d}",
        metrics=metrics,
    )


def cpu_us(port: int, temporality: str, made: list[Batch], seconds: float) -> float:
    """CPU of a push [us], in as many runs from an empty state as there is time for; the first turns do not count."""
    pushes, cpu_s, ends_at = 0, 0.0, time.perf_counter() + seconds
    while time.perf_counter() < ends_at or not pushes:
        with tempfile.TemporaryDirectory() as directory:
            values = {
                "type": "otlp",
                "endpoint": f"http://127.0.0.1:{port}",
                "temporality": temporality,
                "state.file": f"{directory}/state.db",
                "max.request.bytes": 64 << 20,
            }
            exporter = build_exporter("x", values)
            exporter.start()
            try:
                for turn, batch in enumerate(made):
                    started = time.process_time()
                    outcome = export_readable(exporter.export, batch)  # as the pipeline does
                    if turn >= FIRST_TURNS:
                        cpu_s += time.process_time() - started
                        pushes += len(batch.records)
                    assert isinstance(outcome, Delivered), outcome
            finally:
                exporter.close()
    return cpu_s / pushes * 1e6


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    ours, theirs = multiprocessing.Pipe()
    receiver = multiprocessing.Process(target=receive, args=(theirs,), daemon=True)
    receiver.start()
    port, _ = ours.recv()
    pin(0)
    results = {}
    for case in ("D", "H", "S", "F"):
        made = batches(case)
        found = {each: cpu_us(port, each, made, seconds) for each in ("as_sent", "cumulative", "delta")}
        results[case] = {key: round(value, 1) for key, value in found.items()}
        results[case]["ratio"] = round(found["cumulative"] / found["as_sent"], 2)
    receiver.terminate()
    print(json.dumps({"python": platform.python_version(), "cpu_us_per_push": results}, indent=2))


if __name__ == "__main__":
    main()
