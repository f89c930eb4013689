"""What labelling at the wire level saves against parsing, adding and serialising, in one run.

    .venv/bin/python benchmarks/exporters/bench_labels.py

Payloads: S, a librdkafka push (10 points, one resource); F, 700 points under one resource; J, the same as the Java
client sends them, one ResourceMetrics a metric. Prints one JSON object; `ratio` is parse / wire (higher is better).
"""

import json
import platform
import random
import subprocess
import time
from collections.abc import Callable

import google.protobuf
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData, ResourceMetrics

from fleetgauge.exporters.labels import RECORD_LABELS, Labeller
from fleetgauge.telemetry.push_record import PushRecord

ROUNDS = 7
RECORD = PushRecord(
    push_id="0" * 32, received_at=1, receiver_node_id=7, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders-producer-1", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.20.30.40", client_source_port=47_110,
    principal="User:orders", subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd",
    payload_bytes=1, schema_version=1, metrics=b"",
)  # fmt: skip


def add_metric(found: ResourceMetrics, rng: random.Random, number: int) -> None:
    """One metric of one point, as Kafka's clients name them."""
    scope = found.scope_metrics[0] if found.scope_metrics else found.scope_metrics.add()
    metric = scope.metrics.add(name=f"org.apache.kafka.consumer.fetch.manager.records.lag.{number % 40}")
    point = metric.gauge.data_points.add(as_double=rng.random() * 1e6, time_unix_nano=1_750_000_000_000_000_000)
    for key, value in (("topic", f"orders-{rng.randrange(50)}"), ("partition", str(number)), ("node_id", "node-1")):
        point.attributes.add(key=key).value.string_value = value


def payload(points: int, *, a_resource_per_metric: bool) -> bytes:
    """A push of so many points."""
    rng, push = random.Random(7), MetricsData()
    for number in range(points):
        if number == 0 or a_resource_per_metric:
            found = push.resource_metrics.add()
            found.resource.attributes.add(key="group_id").value.string_value = "orders-service"
            found.resource.attributes.add(key="client_rack").value.string_value = "eu-central-1a"
        add_metric(found, rng, number)
    return push.SerializeToString()


def parse_add_serialise(record: PushRecord) -> bytes:
    """What is saved: the obvious way (equal resources stay apart, and nothing clashing is replaced)."""
    push = MetricsData.FromString(record.metrics)
    for found in push.resource_metrics:
        for label, field in RECORD_LABELS.items():
            found.resource.attributes.add(key=label).value.string_value = str(getattr(record, field))
    return push.SerializeToString()


def microseconds(call: Callable[[PushRecord], bytes], record: PushRecord, calls: int) -> float:
    """Best of several rounds, a call [us]."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        for _ in range(calls):
            call(record)
        best = min(best, (time.perf_counter_ns() - started) / calls / 1_000)
    return best


def main() -> None:
    """Measures and prints."""
    labeller = Labeller()
    results = {}
    for name, points, per_metric, calls in (("S", 10, False, 5_000), ("F", 700, False, 500), ("J", 700, True, 30)):
        record = RECORD._replace(metrics=payload(points, a_resource_per_metric=per_metric))
        wire_us = microseconds(labeller.labelled, record, calls)
        parse_us = microseconds(parse_add_serialise, record, calls)
        results[name] = {
            "bytes": len(record.metrics),
            "labelled_bytes": len(labeller.labelled(record)),
            "wire_us": round(wire_us, 2),
            "parse_us": round(parse_us, 2),
            "ratio": round(parse_us / wire_us, 1),
        }
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(
        json.dumps(
            {
                "commit": commit.stdout.strip(),
                "python": platform.python_version(),
                "protobuf": google.protobuf.__version__,
                "cpu": platform.processor() or platform.machine(),
                "labels": results,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
