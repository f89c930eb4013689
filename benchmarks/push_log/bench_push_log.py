"""What the push log costs a push, and what rolling and upkeep do to the loop, in one run.

    .venv/bin/python benchmarks/push_log/bench_push_log.py [directory]

`commit`: microseconds a push (wall and CPU) for batches of 5, 10 and 100 payloads of 500 B, in both flush modes;
`ratio` is that over a bare insert of the payload alone with the same SQLite settings (lower is better, 1 is the floor).
`read`: microseconds a push of polling, decompressing and committing the cursor, over inserting it.
`loop`: one loop iteration that logs 5 pushes, in five settings: one segment alone; segments that roll; rolling while
another process checkpoints and drops the sealed ones, at equal priority and at a low one; rolling while another process
only computes, which tells the cost of sharing the cores from that of the upkeep. `ratio_p99` and
`ratio_max` are over the first. Prints JSON.
"""

import asyncio
import json
import multiprocessing
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Literal, cast

import apsw
import uvloop
import zstandard

from fleetgauge.base.clock import SystemTime
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.embedded.writer import SqlitePushLogWriter
from fleetgauge.push_log.loop_commit import LoopCommit
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushRecord

PAYLOAD_BYTES = 500
ROUNDS = 3
PUSHES: dict[str, dict[int, int]] = {
    "os": {5: 20_000, 10: 20_000, 100: 40_000},
    "fsync": {5: 2_000, 10: 4_000, 100: 10_000},
}
LOOP_PUSHES, PUSHES_AN_ITERATION = 60_000, 5
UPKEEP_RUN_S = 0.005
SMALL_SEGMENT = 4 * 1024 * 1024
Flush = Literal["os", "fsync"]


def payload() -> bytes:
    """Metrics that zstd brings to about `PAYLOAD_BYTES`."""
    rng = random.Random(7)
    return rng.randbytes(PAYLOAD_BYTES - 20) + b"org.apache.kafka.producer.node.request.latency.avg" * 18


METRICS = payload()
ENCODED = zstandard.ZstdCompressor().compress(METRICS)
RECORD = PushRecord(
    push_id="0" * 32, received_at=1, receiver_node_id=7, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders-producer-1", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.20.30.40", client_source_port=47_110,
    principal="User:orders", subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd",
    payload_bytes=len(ENCODED), schema_version=1, metrics=METRICS,
)  # fmt: skip


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="bench-push-log-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _push(record: PushRecord) -> Push:
    """An accepted push with this record, as far as the push log looks at it."""
    return Push(cast(Any, None), cast(Any, None), 0, record[:-1], record.metrics, ENCODED)


def timed(pushes: int, work: Callable[[], None]) -> dict[str, float]:
    """Wall and CPU time of `work`, a push [us]."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    work()
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    return {"wall_us": wall / pushes / 1_000, "cpu_us": cpu / pushes / 1_000}


def ours(path: Path, flush: Flush, batch: int, pushes: int) -> dict[str, float]:
    """The push log's writer."""
    settings = PushLogSettings(dir=path / "log", flush=flush)
    with closing(SqlitePushLogWriter(settings)) as writer:

        def work() -> None:
            for _ in range(pushes // batch):
                writer.write([_push(RECORD)] * batch)

        return timed(pushes, work)


def bare(path: Path, flush: Flush, batch: int, pushes: int) -> dict[str, float]:
    """The floor: SQLite, one column."""
    with closing(apsw.Connection(str(path / "bare.sqlite"))) as connection:
        connection.execute("CREATE TABLE pushes (row INTEGER PRIMARY KEY, metrics)")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'OFF' if flush == 'os' else 'FULL'}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        rows = [(None, ENCODED)] * batch

        def work() -> None:
            for _ in range(pushes // batch):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO pushes VALUES (?, ?)", rows)
                connection.execute("COMMIT")

        return timed(pushes, work)


def best(parent: Path, measure: Callable[[Path], dict[str, float]]) -> dict[str, float]:
    """The quickest of several rounds."""
    found = []
    for _ in range(ROUNDS):
        with scratch(parent) as path:
            found.append(measure(path))
    return min(found, key=lambda result: result["wall_us"])


def commit_costs(parent: Path) -> list[dict[str, Any]]:
    """One row a flush mode and batch size."""
    rows = []
    for flush, sizes in PUSHES.items():
        mode: Flush = "os" if flush == "os" else "fsync"
        for batch, pushes in sizes.items():
            log = best(parent, lambda path, m=mode, b=batch, p=pushes: ours(path, m, b, p))  # type: ignore[misc]
            floor = best(parent, lambda path, m=mode, b=batch, p=pushes: bare(path, m, b, p))  # type: ignore[misc]
            rows.append({"flush": flush, "batch": batch, **log, "ratio": log["wall_us"] / floor["wall_us"]})
    return rows


def read_cost(parent: Path) -> dict[str, float]:
    """Reading everything in batches of 1,000, over writing it in batches of 100."""
    pushes = 40_000
    with scratch(parent) as path:
        written = ours(path, "os", 100, pushes)
        with closing(SqlitePushLogReader(PushLogSettings(dir=path / "log"), "bench")) as reader:

            def work() -> None:
                while (found := reader.poll(1 << 30, 1_000, 0)) is not None:
                    reader.commit(found)

            read = timed(pushes, work)
    return {**read, "ratio": read["wall_us"] / written["wall_us"]}


def upkeep(path: str, stop: Event) -> None:
    """The exporter process's part: checkpoints every sealed segment, keeps four."""
    settings = PushLogSettings(dir=Path(path), retention_bytes=4 * SMALL_SEGMENT)
    with closing(Retention(settings, ["an exporter that is away"])) as retention:
        while not stop.wait(0.05):
            retention.run(time.time_ns() // 1_000_000)


def low_upkeep(path: str, stop: Event) -> None:
    """The same from a process that gives way to the listener."""
    os.nice(15)
    upkeep(path, stop)


def computing(_path: str, stop: Event) -> None:
    """About what upkeep takes of a core, without a file."""
    while not stop.wait(0.05):
        until = time.perf_counter() + UPKEEP_RUN_S
        while time.perf_counter() < until:
            pass


async def iterations(path: Path, segment_bytes: int) -> tuple[list[int], int]:
    """How long each loop iteration took [ns], and how many segments that was."""
    loop, took = asyncio.get_running_loop(), []
    settings = PushLogSettings(dir=path, segment_bytes=segment_bytes)
    record = RECORD._replace(received_at=time.time_ns() // 1_000)
    writer = SqlitePushLogWriter(settings)
    group = LoopCommit(writer, loop, SystemTime())
    try:
        for _ in range(LOOP_PUSHES // PUSHES_AN_ITERATION):
            started = time.perf_counter_ns()
            for _ in range(PUSHES_AN_ITERATION):
                group.append(_push(record))
            await asyncio.sleep(0)
            took.append(time.perf_counter_ns() - started)
            await asyncio.sleep(0.0002)
        return took, len(LogDirectory(settings.dir).live())
    finally:
        await group.close()


def loop_latency(
    parent: Path, segment_bytes: int, beside: Callable[[str, Event], None] | None = None
) -> dict[str, float]:
    """The iterations' distribution [us]."""
    with scratch(parent) as path:
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        child = context.Process(target=beside or computing, args=(str(path), stop))
        if beside is not None:
            child.start()
        try:
            took, segments = uvloop.run(iterations(path, segment_bytes))
        finally:
            stop.set()
            if beside is not None:
                child.join()
    took.sort()
    quantiles = {
        name: took[int(len(took) * share)] / 1_000 for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }
    return {**quantiles, "max": took[-1] / 1_000, "segments": segments}


def loop_costs(parent: Path) -> dict[str, dict[str, float]]:
    """The five settings, and their ratios to the first."""
    found = {
        "one segment": loop_latency(parent, 1 << 40),
        "rolling": loop_latency(parent, SMALL_SEGMENT),
        "rolling and upkeep": loop_latency(parent, SMALL_SEGMENT, upkeep),
        "rolling and upkeep, nice 15": loop_latency(parent, SMALL_SEGMENT, low_upkeep),
        "rolling and computing": loop_latency(parent, SMALL_SEGMENT, computing),
    }
    first = found["one segment"]
    for result in found.values():
        result["ratio_p99"] = result["p99"] / first["p99"]
        result["ratio_max"] = result["max"] / first["max"]
    return found


def rounded(value: Any) -> Any:
    """Two decimals are enough."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return round(value, 2) if isinstance(value, float) else value


def main() -> None:
    """Measures and prints."""
    parent = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    found = {
        "commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count(),
        "cpu": platform.processor() or platform.machine(), "sqlite": apsw.sqlite_lib_version(),
        "payload_bytes": len(ENCODED),
        "commit_costs": commit_costs(parent), "read": read_cost(parent), "loop": loop_costs(parent),
    }  # fmt: skip
    print(json.dumps(rounded(found), indent=1))


if __name__ == "__main__":
    main()
