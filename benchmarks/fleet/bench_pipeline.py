"""The fleet pipeline by size: how fast payloads become points and tables, and what that takes of memory and disk.

    .venv/bin/python benchmarks/fleet/bench_pipeline.py --work DIR [--points 1000000] [--parts decode growth ...]

Landing zones come from `generate_landing`, into DIR, which may be removed afterwards. One JSON line a part:

- `decode`: points a second, on `local[2]`, and in one process without Spark. `nowhere` is what silver's decoding gives,
  with every column; `parquet` the same as files; `udf` the obvious way, a Python UDF a payload and `explode`; `pyarrow`
  one process that reads the files and decodes (`nowhere`), and writes Parquet by pyarrow (`parquet`). Three rounds take
  turns in one session; medians. The UDF gets a tenth of the files, since it would take all the time.
- `growth`: `fleet run` over a hundredth, a tenth, and all of the points, each into new tables; bytes on disk a point.
- `masters`: the same zone by `local[1]`, `local[2]`, and a standalone cluster of two workers with a core each, whose
  executors are processes of their own (`local-cluster`).
- `memory`: the same number of pushes from 1,000 and from 1,000,000 instances on that cluster: the most that the
  driver's heap held after a collection [MiB]. `--pushes` says how many.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from bench_decode import about, rows_of
from generate_landing import Size, generate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.bronze import read_landing
from fleet.decode.stage import DecodePoints
from fleet.schemas import CHECKED
from fleet.session import SessionSettings, start_session
from fleet.silver import points, pushes

ROUNDS: Final = 3
CLUSTER: Final = "local-cluster[2,1,1024]"
FEW_INSTANCES: Final = 1_000
MANY_INSTANCES: Final = 1_000_000
TIMEOUT_S: Final = 3_600

_UDF_TYPE: Final = (
    "array<struct<metric_name:string,time_unix_nano:bigint,value:double,"
    "attributes:map<string,string>,resource:map<string,string>>>"
)
_TO_HEAP_MIB: Final = re.compile(r"Pause .*->(\d+)M\(")


def zone_of(work: Path, size: Size) -> tuple[Path, dict[str, int]]:
    """A landing zone of that size, generated once, and what is in it."""
    root = work / f"zone-{size.instances}-{size.hours:.4f}h-{size.points}-{'-'.join(size.shapes)}"
    said = root / "_written.json"
    if not said.exists():
        shutil.rmtree(root, ignore_errors=True)
        written = generate(root, size)
        said.write_text(json.dumps({name: getattr(written, name) for name in type(written).__slots__}))
    found: dict[str, int] = json.loads(said.read_text())
    return root, found


def checked(spark: SparkSession, zone: Path) -> DataFrame:
    return pushes.check(read_landing(spark, str(zone)))


def nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def decode_part(work: Path, count: int) -> dict[str, Any]:
    """The ways to points, by points a second."""
    zone, written = zone_of(work, Size(instances=1000, hours=24, points=count))
    tenth, few = zone_of(work, Size(instances=1000, hours=24, points=count // 10))
    spark = start_session(SessionSettings(master="local[2]"))
    udf = F.udf(lambda payload: rows_of(bytes(payload)), _UDF_TYPE)
    out = work / "out"

    def to_parquet() -> None:
        frame = points.points(points.decode(checked(spark, zone)))
        frame.write.mode("overwrite").parquet(str(out / "spark"))

    ways: dict[str, tuple[Callable[[], object], int]] = {
        "nowhere": (lambda: nowhere(points.points(points.decode(checked(spark, zone)))), written["points"]),
        "parquet": (to_parquet, written["points"]),
        "udf": (
            lambda: nowhere(checked(spark, tenth).select(F.explode(udf("metrics")).alias("p")).select("p.*")),
            few["points"],
        ),
        "pyarrow nowhere": (lambda: one_process(zone, None), written["points"]),
        "pyarrow parquet": (lambda: one_process(zone, out / "pyarrow.parquet"), written["points"]),
    }
    rates = medians(ways)
    spark.stop()
    return {
        "points": written["points"],
        "points_per_second": {way: round(rate) for way, rate in rates.items()},
        "ratio_to_udf": {way: round(rate / rates["udf"], 1) for way, rate in rates.items()},
    }


def medians(ways: dict[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    """Points a second of each way, which take turns."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, (run, count) in ways.items():
            began = time.perf_counter()
            run()
            found[way].append(count / (time.perf_counter() - began))
    return {way: statistics.median(rates) for way, rates in found.items()}


def one_process(zone: Path, target: Path | None) -> int:
    """Decodes a landing zone without Spark; with `target`, writes the points there."""
    writer: pq.ParquetWriter | None = None
    count = 0
    for batch in points_of_files(sorted(zone.rglob("*.parquet"))):
        count += batch.num_rows
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            writer = writer or pq.ParquetWriter(target, batch.schema, compression="zstd")
            writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return count


def points_of_files(paths: Iterable[Path]) -> Iterable[pa.RecordBatch]:
    """The same stage that Spark's executors run, on batches that pyarrow read."""
    stage = DecodePoints(None, None)
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(1024):
            yield from stage([with_columns_of_checked(batch)])


def with_columns_of_checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        for name in CHECKED.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(CHECKED.names))


def fleet_run(zone: Path, tables: Path, master: str, *more: str) -> dict[str, Any]:
    """`fleet run` into new tables, in a process of its own."""
    shutil.rmtree(tables, ignore_errors=True)
    gc_log = tables.with_name(f"{tables.name}-gc.log")
    environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    # The driver's alone: what stands in the environment would reach the executors too.
    of_driver = ("--conf", f"spark.driver.extraJavaOptions=-Xlog:gc:file={gc_log}:uptime")
    command = [sys.executable, "-m", "fleet.cli", "run", "--format", "json", "--master", master, *of_driver]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, *more, "--source", str(zone), "--tables", str(tables)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"fleet run by {master} failed: {done.stderr or done.stdout}")
    report = json.loads(done.stdout.splitlines()[-1])
    heaps = [int(found) for found in _TO_HEAP_MIB.findall(gc_log.read_text())]
    silver = report["sizes"]["points"]
    return {
        "points": report["points"],
        "pushes": report["pushes"],
        "batches": report["batches"],
        "took_s": round(report["took_s"], 1),
        "with_start_of_python_s": round(took_s, 1),
        "points_per_second": round(report["points"] / report["took_s"]),
        "silver_bytes_a_point": round(silver["bytes"] / max(1, silver["rows_written"]), 2),
        "tables_bytes": sum(size["bytes"] for size in report["sizes"].values()),
        "driver_heap_after_gc_mib": max(heaps, default=None),
    }


def growth_part(work: Path, count: int) -> dict[str, Any]:
    """`fleet run` over 1, 10 and 100 parts."""
    found = {}
    for share in (100, 10, 1):
        zone, written = zone_of(work, Size(instances=1000, hours=24, points=count // share))
        found[f"{100 // share}x"] = fleet_run(zone, work / "tables-growth", "local[2]") | {
            "landing_bytes_a_point": round(written["file_bytes"] / written["points"], 2)
        }
    return found


def masters_part(work: Path, count: int) -> dict[str, Any]:
    """The same zone by more and more cores."""
    zone, _ = zone_of(work, Size(instances=1000, hours=24, points=count))
    return {master: fleet_run(zone, work / "tables-masters", master) for master in ("local[1]", "local[2]", CLUSTER)}


def memory_part(work: Path, count: int) -> dict[str, Any]:
    """The driver's memory by the number of instances, of as many pushes."""
    found = {}
    for instances in (FEW_INSTANCES, MANY_INSTANCES):
        hours = count / instances / 60
        size = Size(instances=instances, hours=hours, shapes=("franz-go",))
        zone, _ = zone_of(work, size)
        found[f"{instances:,} instances"] = fleet_run(zone, work / "tables-memory", CLUSTER)
    return found


PARTS: Final[dict[str, Callable[[Path, int], dict[str, Any]]]] = {
    "decode": decode_part,
    "growth": growth_part,
    "masters": masters_part,
    "memory": memory_part,
}


def main() -> None:
    """Prints one JSON object a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory for landing zones and tables")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--pushes", type=int, default=MANY_INSTANCES, help="of the part `memory`")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    print(json.dumps(about()), flush=True)
    for part in given.parts:
        count = given.pushes if part == "memory" else given.points
        print(json.dumps({part: PARTS[part](given.work.resolve(), count)}, indent=2), flush=True)


if __name__ == "__main__":
    main()
