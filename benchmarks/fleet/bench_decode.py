"""Data points decoded per second on one core, with all columns of silver; and the check of a payload.

    python benchmarks/fleet/bench_decode.py [--of WHEEL] [--against DIRECTORY] > decode.json

One process a round, no Spark: what a worker's Python does with a chunk of payloads (`decode_and_count`), and the
listener with one (`validate_metrics`, beside `MetricsData.FromString`). Shapes: S, F and J of
docs/reference/performance.md (10 points; 700 in one ResourceMetrics; 700 with one each), and the largest recorded
pushes of a Java producer and consumer. With `--against`, the modules of another checkout or of an unpacked wheel take
turns with these; only ratios within one run mean anything. Figures are of CPU time, medians of the rounds.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path += [str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parents[2])]  # behind PYTHONPATH: `--against`
from benchmarks.fleet.shapes import load_shape
from benchmarks.fleetgauge.load import POINTS, payload
from fleetgauge.fleet.decode.payloads import decode_and_count
from fleetgauge.fleet.decode.stage import MAX_CHUNK_BYTES
from fleetgauge.telemetry.validate import validate_metrics

ROOT: Final = Path(__file__).resolve().parents[2]

Figures = dict[str, dict[str, float]]


def shapes() -> dict[str, bytes]:
    """A payload of each."""
    made = {kind: payload(points, seed=1, by_metric=kind == "J") for kind, points in POINTS.items()}
    return made | {kind: load_shape(kind).payload.tobytes() for kind in ("java-producer", "java-consumer")}


def seconds_of(run: Callable[[], object], seconds: float) -> float:
    """CPU time of one run, the best of as many as fit in `seconds`."""
    best = float("inf")
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def measure(seconds: float) -> Figures:
    """Figures of each shape, with the modules that this process has."""
    found = {}
    for kind, content in shapes().items():
        chunk: Any = pa.array([content] * max(1, MAX_CHUNK_BYTES // len(content)), pa.binary())
        points = len(decode_and_count(chunk)[0].push_of)
        check, parse = (
            seconds_of(lambda run=run, content=content: [run(content) for _ in range(20)], seconds / 4)  # type: ignore[misc]
            for run in (validate_metrics, MetricsData.FromString)
        )
        found[kind] = {
            "points_per_second": points / seconds_of(lambda chunk=chunk: decode_and_count(chunk), seconds),  # type: ignore[misc]
            "check_us": check / 20 * 1e6,
            "parse_us": parse / 20 * 1e6,
            "check_to_parse": check / parse,
        }
    return found


def measured_in(directory: Path, seconds: float) -> Figures:
    """The same in a process of its own, with the modules in `directory`."""
    command = [sys.executable, __file__, "--child", "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(ran.stdout)
    return figures


def medians(rounds: list[Figures]) -> Figures:
    """Of each figure."""
    return {
        kind: {name: round(statistics.median(each[kind][name] for each in rounds), 2) for name in figures}
        for kind, figures in rounds[0].items()
    }


def main() -> None:
    """Prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="a shape and a round")
    parser.add_argument("--of", type=Path, default=ROOT, help="an unpacked wheel in place of this checkout")
    parser.add_argument("--against", type=Path, help="another checkout, or an unpacked wheel")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.seconds)))
        return
    directories = {"here": options.of.resolve()} | ({"against": options.against.resolve()} if options.against else {})
    rounds: dict[str, list[Figures]] = {name: [] for name in directories}
    for _ in range(options.rounds):
        for name, directory in directories.items():
            rounds[name].append(measured_in(directory, options.seconds))
    result: dict[str, Any] = {name: medians(found) for name, found in rounds.items()}
    if options.against:
        result["here_to_against"] = {
            kind: round(
                statistics.median(
                    here[kind]["points_per_second"] / there[kind]["points_per_second"]
                    for here, there in zip(rounds["here"], rounds["against"], strict=True)
                ),
                2,
            )
            for kind in rounds["here"][0]
        }
    print(json.dumps(about() | result, indent=2))


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
