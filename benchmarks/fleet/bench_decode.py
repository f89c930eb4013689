"""Data points decoded per second on one core: ptars, protobuf's own classes, and a Python loop as a UDF would run it.

    .venv/bin/python benchmarks/fleet/bench_decode.py [--seconds 1] > decode.json

One process, no Spark: what a worker's Python does with a chunk of payloads. Shapes: `librdkafka` (1.4 kB, 10 points),
`flat` (700 points in one ResourceMetrics) and `java` (the same, one ResourceMetrics a point). The three ways take turns
within one run; only their ratios mean anything. `python_udf` parses with opentelemetry-proto and builds one dict a
point, without the dialects.
"""

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleet.decode import by_protobuf, by_ptars
from fleet.decode.payloads import decode
from fleet.decode.stage import MAX_CHUNK_BYTES
from telemetry.catalogue.dialects import text_of

ROUNDS = 3


def payload(points: int, *, resource_each: bool, description: str) -> bytes:
    """`points` gauges over nodes and topics; values differ from point to point."""
    data = MetricsData()
    scope = None
    for number in range(points):
        if scope is None or resource_each:
            resource_metrics = data.resource_metrics.add()
            for key in ("client_rack", "group_id", "group_instance_id", "group_member_id"):
                resource_metrics.resource.attributes.add(key=key).value.string_value = f"{key}-of-this-client"
            scope = resource_metrics.scope_metrics.add()
        metric = scope.metrics.add(
            name=f"org.apache.kafka.producer.some.metric.{number % 70}.avg", description=description
        )
        point = metric.gauge.data_points.add(as_double=number * 1.5, time_unix_nano=1_750_000_000_000_000_000 + number)
        point.attributes.add(key="node_id").value.string_value = f"node-{number % 3}"
        if number % 2:
            point.attributes.add(key="topic").value.string_value = f"orders-{number % 20}"
    return data.SerializeToString()


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """One dict a point, as a plain Python UDF would yield it."""
    rows: list[dict[str, Any]] = []
    for resource_metrics in MetricsData.FromString(content).resource_metrics:
        resource = {pair.key: text_of(pair.value) for pair in resource_metrics.resource.attributes}
        for scope in resource_metrics.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, str(metric.WhichOneof("data")))
                rows.extend(
                    {
                        "metric_name": metric.name,
                        "time_unix_nano": point.time_unix_nano,
                        "value": float(getattr(point, point.WhichOneof("value"))),
                        "attributes": {pair.key: text_of(pair.value) for pair in point.attributes},
                        "resource": resource,
                    }
                    for point in data.data_points
                )
    return rows


def python_udf(payloads: list[bytes]) -> int:
    """The points of all."""
    return sum(len(rows_of(content)) for content in payloads)


def decoded(reader: Any) -> Callable[[list[bytes]], int]:
    """The whole of `decode` with one reader, dialects and twins included."""
    return lambda payloads: sum(len(part.push_of) for part in decode(payloads, reader=reader))


def rate(run: Callable[[list[bytes]], int], payloads: list[bytes], seconds: float) -> float:
    """Points a second over about `seconds`."""
    points = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        points += run(payloads)
    return points / elapsed


def main() -> None:
    """Prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="a way, a shape and a round")
    seconds = parser.parse_args().seconds
    shapes = {
        "librdkafka": payload(10, resource_each=False, description="what it measures, in words"),
        "flat": payload(700, resource_each=False, description=""),
        "java": payload(700, resource_each=True, description=""),
    }
    ways = {"ptars": decoded(by_ptars.read), "protobuf": decoded(by_protobuf.read), "python_udf": python_udf}
    results = {}
    for shape, content in shapes.items():
        payloads = [content] * max(1, MAX_CHUNK_BYTES // len(content))
        rounds = [{way: rate(run, payloads, seconds) for way, run in ways.items()} for _ in range(ROUNDS)]
        medians = {way: statistics.median(found[way] for found in rounds) for way in ways}
        results[shape] = {
            "payload_bytes": len(content),
            "points_per_second": {way: round(value) for way, value in medians.items()},
            "ratio_to_python_udf": {way: round(value / medians["python_udf"], 2) for way, value in medians.items()},
        }
    print(json.dumps(about() | {"shapes": results}, indent=2))


def about() -> dict[str, str]:
    """What ran, on what."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpu": cpu()}


def cpu() -> str:
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
