"""The fleet pipeline by size: how fast payloads become points and tables, and what that takes of memory and disk.

    .venv/bin/python benchmarks/fleet/bench_pipeline.py --work DIR [--points 500000] [--parts decode ...] [--json]

Landing zones come from `generate_landing`, into DIR, which may be removed afterwards. Parts:

- `decode`: points a second, on `local[2]` and in one process without Spark. `nowhere` is what silver's decoding gives,
  with every column, handed to Spark; `parquet` the same, written by Spark. `silver` is all that `fleet run` does with a
  batch's payloads (clients' pushes brought together, decoded, compared), `silver to parquet` its files of points, too.
  `udf` is the obvious way, a Python UDF a payload and `explode`; `one process` reads the files by pyarrow and decodes,
  and writes Parquet by pyarrow. The ways take turns in one session, `--rounds` times; medians. The UDF gets a tenth of
  the points, since it would take all the time.
- `growth`: `fleet run` over a hundredth, a tenth and all of the points, each into new tables, and then once more over
  a hundredth of other clients into the last ones; bytes on disk a point.
- `little`: `fleet run` over the points, then with nothing new, then with two late pushes of four points: seconds on the
  clock, of CPU of all its processes, jobs' stages and executions of SQL (from Spark's event log).
- `late`: `fleet run` every five minutes of the clients' time, but for the last sixteenth of all points, and what two
  nodes had while they were away, of a quarter of the clients each. Then over the last sixteenth, over what the node has
  that comes back only now, and over what the other one has, whose clients went on meanwhile: CPU a point of each,
  without what a run with nothing new takes.
- `masters`: the same zone as a run chooses by itself, by `local[1]`, `local[2]`, and clusters of one worker of
  two cores and of two workers of one.
- `memory`: the same number of pushes from 1,000 instances, and from one instance each, on a cluster of two workers,
  where the driver is alone in its JVM: the most that its heap held after a collection [MiB].

Every `fleet run` is a process of its own; one that starts a JVM says so in its time.
"""

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(1, str(Path(__file__).parents[2] / "tests"))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table
from support.fleet.spark_cluster import ON_LOOPBACK, cluster, shipped_code

from benchmarks.fleet.bench_decode import about
from benchmarks.fleet.generate_landing import Size, generate
from fleetgauge.fleet.decode.stage import DecodePoints
from fleetgauge.fleet.engines.engine import Batch, OnSpark
from fleetgauge.fleet.schemas import CHECKED, DECODED
from fleetgauge.fleet.silver.batch import MakeSilver
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.source.bronze import read_landing
from fleetgauge.fleet.spark.session import SessionSettings, start_session
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.telemetry.catalogue.dialects import text_of

INSTANCES: Final = 1_000
SHARES: Final = (100, 10, 1)
TIMEOUT_S: Final = 900
RUN_US: Final = 300_000_000
"Between runs of a schedule [us]."

_UDF_TYPE: Final = (
    "array<struct<metric_name:string,time_unix_nano:bigint,value:double,"
    "attributes:map<string,string>,resource:map<string,string>>>"
)
PR_SET_CHILD_SUBREAPER: Final = 36
"""Of Linux: processes whose parent ended become children of this one."""

_TO_HEAP_MIB: Final = re.compile(r"Pause .*->(\d+)M\(")

Rows = list[dict[str, Any]]


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


def zone_of(work: Path, size: Size) -> Path:
    """A landing zone of that size, generated once."""
    root = work / f"zone-{size.instances}-{size.points}-{size.hours:.4f}-{size.seed}-{'-'.join(size.shapes)}"
    done = root / "_written"
    if not done.exists():
        shutil.rmtree(root, ignore_errors=True)
        generate(root, size)
        done.touch()
    return root


def of_points(work: Path, count: int, **others: Any) -> Path:
    """A zone of at least so many points."""
    return zone_of(work, Size(instances=INSTANCES, hours=240, points=count, **others))


def checked_rows(spark: SparkSession, zone: Path) -> DataFrame:
    """CHECKED of a zone."""
    return read_landing(spark, str(zone)).mapInArrow(checked, spark_schema(CHECKED))


def nowhere(frame: DataFrame) -> None:
    """Computes every row and column."""
    frame.write.format("noop").mode("overwrite").save()


def decode_part(work: Path, count: int, rounds: int) -> Rows:
    """The ways to points."""
    zone, tenth = of_points(work, count), of_points(work, count // 10)
    spark = start_session(SessionSettings(master="local[2]", log_level="OFF"))
    udf = F.udf(lambda payload: rows_of(bytes(payload)), _UDF_TYPE)
    out = work / "out"

    def silver(*tables: catalog.Table) -> None:
        """What `fleet run` does with a batch, whose rows go to some tables."""
        store = Store(f"file:{out}")
        task = MakeSilver(write={table.name: store.files_of(table) for table in tables}, stored={})
        files = tuple(map(str, sorted(zone.rglob("*.parquet"))))
        OnSpark(lambda: spark).make(Batch(number=0, files=files), {}, task)

    def decoded() -> DataFrame:
        return checked_rows(spark, zone).mapInArrow(DecodePoints(None, None), spark_schema(DECODED))

    ways: dict[str, tuple[Callable[[], object], Path]] = {
        "udf": (lambda: nowhere(checked_rows(spark, tenth).select(F.inline(udf("metrics")))), tenth),
        "nowhere": (lambda: nowhere(decoded()), zone),
        "parquet": (lambda: decoded().write.mode("overwrite").parquet(str(out / "spark")), zone),
        "silver": (silver, zone),
        "silver to parquet": (lambda: silver(catalog.POINTS), zone),
        "one process": (lambda: one_process(zone, None), zone),
        "one process to parquet": (lambda: one_process(zone, out / "pyarrow.parquet"), zone),
    }
    sizes = {each: one_process(each, None) for each in (zone, tenth)}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (run, source) in ways.items():
            shutil.rmtree(out, ignore_errors=True)
            began = time.perf_counter()
            run()
            found[way].append(sizes[source] / (time.perf_counter() - began))
    spark.stop()
    rates = {way: statistics.median(each) for way, each in found.items()}
    return [
        {"way": way, "points_per_second": round(rate), "to_udf": round(rate / rates["udf"], 1)}
        for way, rate in rates.items()
    ]


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


def points_of_files(paths: Iterable[Path]) -> Iterable[Any]:
    """The same stage that Spark's executors run, on batches that pyarrow read."""
    stage = DecodePoints(None, None)
    for path in paths:
        yield from stage(map(with_columns_of_checked, pq.ParquetFile(path).iter_batches(1024)))


def with_columns_of_checked(batch: Any) -> Any:
    """Rows that nothing is wrong with."""
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        for name in CHECKED.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(CHECKED.names))


def fleet_run(zone: Path, tables: Path, master: str | None = None, *more: str) -> dict[str, Any]:
    """`fleet run` in a process of its own, which starts Spark only if it wants to, or with a master."""
    gc_log = tables.with_name(f"{tables.name}-gc.log")
    gc_log.unlink(missing_ok=True)
    began = time.perf_counter()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fleetgauge.cli.fleet.app", "run", "--format", "json"),
            *(("--master", master) if master else ()),
            *("--source", str(zone), "--tables", str(tables), *more),
        ],
        env={**os.environ, "JDK_JAVA_OPTIONS": f"-Xlog:gc:file={gc_log}:uptime"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"fleet run by {master} failed: {done.stderr or done.stdout}")
    report = json.loads(done.stdout.splitlines()[-1])
    heaps = [int(found) for found in _TO_HEAP_MIB.findall(gc_log.read_text())] if gc_log.exists() else []
    silver_points = report["sizes"].get("points", {"bytes": 0, "rows_written": 0})
    print(f"{took_s:9.1f} s  {master}, {zone.name}", file=sys.stderr, flush=True)
    return {
        "pushes": report["pushes"],
        "points": report["points"],
        "took_s": round(took_s, 1),
        "points_per_second": round(report["points"] / took_s),
        "silver_bytes_a_point": round(silver_points["bytes"] / max(1, silver_points["rows_written"]), 2),
        "heap_after_gc_mib": max(heaps, default=None),
    }


def little_part(work: Path, count: int, _: int) -> Rows:
    """What a run costs apart from its points."""
    zone, tables = work / "zone-little", emptied(work / "tables-little")
    shutil.rmtree(zone, ignore_errors=True)
    shutil.copytree(of_points(work, count), zone)
    found = [{"new": "everything"} | cost_of_run(work, zone, tables)]
    found.append({"new": "nothing"} | cost_of_run(work, zone, tables))
    add_late_pushes(zone)
    found.append({"new": "4 points"} | cost_of_run(work, zone, tables))
    return found


def late_part(work: Path, count: int, _: int) -> Rows:
    """What comes after an outage, beside as much that comes in time."""
    zone, tables = emptied(work / "zone-late"), emptied(work / "tables-late")
    rows = pq.ParquetDataset(sorted(of_points(work, count).rglob("*.parquet")), partitioning=None).read()
    received_us = rows["received_at"].cast(pa.int64()).to_numpy()
    after_us = received_us - received_us.min()
    at = after_us / after_us.max()
    node = rows["client_source_port"].to_numpy() % 4
    is_back = (node == 1) & (at >= 12 / 16)
    is_late = (node == 0) & (at >= 11 / 16) & (at < 15 / 16)
    is_last = (at >= 15 / 16) & ~is_back
    step = np.where(is_back | is_late | is_last, -1, after_us // RUN_US)

    def run_over(name: str, is_new: np.ndarray) -> dict[str, Any]:
        path = zone / "date=2026-03-01" / "hour=00" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_new.any():
            pq.write_table(rows.filter(pa.array(is_new)), path, compression="zstd")
        return {"new": name} | cost_of_run(work, zone, tables)

    for number in range(step.max() + 1):
        run_over(f"{number:06d}", step == number)
    found = [run_over("nothing", step < -1)]
    for name, is_new in (("in time", is_last), ("back", is_back), ("late", is_late)):
        cost = run_over(name, is_new)
        a_point_us = (cost["cpu_s"] - found[0]["cpu_s"]) / cost["points"] * 1e6
        found.append(cost | {"cpu_us_a_point": round(a_point_us, 2)})
    return [{**row, "cpu_us_a_point": row.get("cpu_us_a_point", "")} for row in found]


def cost_of_run(work: Path, zone: Path, tables: Path) -> dict[str, Any]:
    """`fleet run`, with an event log."""
    events = emptied(work / "events")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that the JVM, too, is waited for, and its CPU time known
    before = cpu_s()
    log = (
        "spark.eventLog.enabled=true",
        f"spark.eventLog.dir={events.as_uri()}",
        "spark.eventLog.rolling.enabled=false",
        "spark.eventLog.compress=false",
    )
    report = fleet_run(zone, tables, None, *(part for conf in log for part in ("--conf", conf)))
    while has_children():
        time.sleep(0.05)
    kinds = Counter(json.loads(line)["Event"] for path in events.iterdir() for line in path.open())
    return {
        "points": report["points"],
        "took_s": report["took_s"],
        "cpu_s": round(cpu_s() - before, 1),
        "sql_executions": kinds["org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"],
        "stages": kinds["SparkListenerStageCompleted"],
    }


def cpu_s() -> float:
    """Of children that were waited for [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def has_children() -> bool:
    """False once all were waited for."""
    try:
        return os.waitpid(-1, os.WNOHANG) is not None
    except ChildProcessError:
        return False


def add_late_pushes(zone: Path) -> None:
    """Two pushes of the first file's clients a second after their first, of two points each."""
    first = min(zone.rglob("*.parquet"))
    rows = pq.read_table(first).slice(0, 2).to_pylist()
    for row in rows:
        data = MetricsData()
        metrics = data.resource_metrics.add().scope_metrics.add().metrics
        for number in range(2):
            metrics.add(name=f"org.apache.kafka.producer.late.{number}").gauge.data_points.add(as_double=1.0)
        row["metrics"] = data.SerializeToString()
        row["received_at"] += timedelta(seconds=1)
        row["push_id"] = row["push_id"][:-8] + "ffffffff"
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(first)), first.with_name("pushes-late.parquet"))


def growth_part(work: Path, count: int, _: int) -> Rows:
    """`fleet run` over parts and all, and then over little more."""
    found = []
    for share in SHARES:
        tables = emptied(work / "tables-growth")
        found.append({"size": f"1/{share}"} | fleet_run(of_points(work, count // share), tables))
    of_others = of_points(work, count // 100, seed=Size().seed + 1)
    found.append({"size": "a hundredth more"} | fleet_run(of_others, tables))
    return found


def masters_part(work: Path, count: int, _: int) -> Rows:
    """The same zone by more and more cores, and by other processes."""
    zone, tables = of_points(work, count), work / "tables-masters"
    masters = (None, "local[1]", "local[2]")
    found = [{"master": master} | fleet_run(zone, emptied(tables), master) for master in masters]
    for workers in (1, 2):
        with cluster(emptied(work / "cluster"), workers) as master:
            run = fleet_run(zone, emptied(tables), master, *on_cluster(work))
            found.append({"master": f"cluster of {workers}"} | run)
    return found


def memory_part(work: Path, count: int, _: int) -> Rows:
    """The driver's heap by the number of instances, of as many pushes."""
    sent = max(INSTANCES, count // 10)
    found = []
    with cluster(emptied(work / "cluster")) as master:
        for instances in (INSTANCES, sent):
            zone = zone_of(work, Size(instances=instances, hours=sent / instances / 60, shapes=("franz-go",)))
            run = fleet_run(zone, emptied(work / "tables-memory"), master, *on_cluster(work))
            found.append({"instances": instances} | run)
    return found


def emptied(directory: Path) -> Path:
    """The directory, without what an earlier run left there."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def on_cluster(work: Path) -> tuple[str, ...]:
    """Options for it, which ship our own code."""
    return (*ON_LOOPBACK, *shipped_code(work))


PARTS: Final[dict[str, Callable[[Path, int, int], Rows]]] = {
    "decode": decode_part,
    "growth": growth_part,
    "little": little_part,
    "late": late_part,
    "masters": masters_part,
    "memory": memory_part,
}


def print_table(part: str, rows: Rows) -> None:
    """Rows under the names of their columns."""
    table = Table(title=part, title_justify="left", box=None)
    for name in rows[0]:
        table.add_column(name, justify="right" if name not in ("way", "size", "master", "new") else "left")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int | float) else str(value) for value in row.values()))
    Console(width=160).print(table)


def main() -> None:
    """Prints a table a part, or one JSON object each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory for landing zones and tables")
    parser.add_argument("--points", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    print(json.dumps(about()), flush=True)
    for part in given.parts:
        rows = PARTS[part](given.work.resolve(), given.points, given.rounds)
        if given.json:
            print(json.dumps({part: rows}), flush=True)
        else:
            print_table(part, rows)


if __name__ == "__main__":
    main()
