"""Points aggregated to wide rows per second on one core, and wide rows merged, without Spark.

    .venv/bin/python -m benchmarks.fleet.bench_measures [--seconds 1] > measures.json

One process: what a worker's Python does with the points of a chunk of pushes that it has just compared. Shapes are
pushes of real clients with other values (`shapes`), five minutes of each instance. `arrow_group_by` is the yardstick:
one `pyarrow` group-by of the same points by client, window and metric with a sum and a maximum.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.fleet.bench_decode import about
from benchmarks.fleet.shapes import CLIENTS, load_shape
from fleetgauge.fleet.decode.stage import MAX_CHUNK_BYTES
from fleetgauge.fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.schemas import CHECKED
from fleetgauge.fleet.silver.batch import points_of as compared

ROUNDS = 3
PUSHES_EACH = 5
NOON_S = 1_772_366_400


def points_of(name: str) -> pa.Table:
    """POINTS of one chunk of pushes of a shape."""
    shape = load_shape(name)
    instances = max(1, MAX_CHUNK_BYTES // len(shape.payload) // PUSHES_EACH)
    number = np.repeat(np.arange(instances), PUSHES_EACH)
    at_s = NOON_S + 60 * np.tile(np.arange(PUSHES_EACH), instances)
    payloads = shape.stamp(number, at_s * 10**9, (at_s - 60) * 10**9, np.random.default_rng(7))
    record = {**shape.record._asdict(), "reason": None}
    rows = [
        {
            **{field.name: record.get(field.name) for field in CHECKED},
            "push_id": f"{push:032x}",
            "received_at": int(at_s[push]) * 1_000_000,
            "client_instance_id": f"{number[push]:022d}",
            "metrics": payloads[push].tobytes(),
        }
        for push in range(len(number))
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=CHECKED)
    return pa.Table.from_batches(compared([batch])).combine_chunks()


def arrow_group_by(points: pa.Table) -> None:
    """One group-by over the same points."""
    keys = ["principal", "client_instance_id", "date", "metric_name", "node_id", "topic"]
    points.group_by(keys).aggregate([("value", "sum"), ("value", "max"), ("delta", "sum")])


def rate(run: Callable[[], Any], rows: int, seconds: float) -> float:
    """Rows a second of CPU over about `seconds`."""
    done, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < seconds:
        run()
        done += rows
    return done / elapsed


def main() -> None:
    """Prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="a way, a shape and a round")
    seconds = parser.parse_args().seconds
    pa.set_cpu_count(1)
    results = {}
    for shape in CLIENTS:
        points = points_of(shape)
        rows = aggregate(points, DEFAULT_WINDOW_S)
        parts = [rows.slice(at, 500) for at in range(0, rows.num_rows, 500)] * 2
        ways: dict[str, tuple[Callable[[], Any], int]] = {
            "aggregate": (lambda points=points: aggregate(points, DEFAULT_WINDOW_S), points.num_rows),  # type: ignore[misc]
            "arrow_group_by": (lambda points=points: arrow_group_by(points), points.num_rows),  # type: ignore[misc]
            "merge": (lambda parts=parts: merge(parts), 2 * rows.num_rows),  # type: ignore[misc]
        }
        rounds = [{way: rate(run, count, seconds) for way, (run, count) in ways.items()} for _ in range(ROUNDS)]
        medians = {way: statistics.median(found[way] for found in rounds) for way in ways}
        results[shape] = {
            "points": points.num_rows,
            "wide_rows": rows.num_rows,
            "points_per_second": {way: round(medians[way]) for way in ("aggregate", "arrow_group_by")},
            "us_a_point": round(1e6 / medians["aggregate"], 3),
            "ratio_to_arrow_group_by": round(medians["aggregate"] / medians["arrow_group_by"], 2),
            "merged_rows_per_second": round(medians["merge"]),
        }
    print(json.dumps(about() | {"shapes": results}, indent=2))


if __name__ == "__main__":
    main()
