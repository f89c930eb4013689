"""Clients and gold tables computed of silver tables, in this process: seconds and peak memory.

    .venv/bin/python -m benchmarks.fleet.bench_refresh [--clients 100000] [--windows 12] > refresh.json

Half of the clients are producers with two links, half are consumers with two links and lags of four partitions, in
groups of twenty. Each has a push and partial wide rows in each window, as a batch of the hour writes them, in the order
of their ids. `first` computes all windows of empty tables, `again` the same ones, `last` the last window alone.
"""

import argparse
import json
import resource
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fleet.bench_decode import about
from fleetgauge.fleet.arrow import SortKeys, Table, pa, pc
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline.answers import Answers
from fleetgauge.fleet.pipeline.spans import of_windows
from fleetgauge.fleet.schemas import PUSHES, SENT_POINTS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WINDOW = timedelta(minutes=5)
CLIENTS_AT_ONCE = 1_000
CONSUMER, PRODUCER = "org.apache.kafka.consumer", "org.apache.kafka.producer"
LATENCY = "node.request.latency.avg"
LAG = f"{CONSUMER}.fetch.manager.records.lag"
OF_CONSUMER = [f"{CONSUMER}.{name}" for name in ("poll.idle.ratio.avg", "coordinator.assigned.partitions")]
OF_PRODUCER = [f"{PRODUCER}.{name}" for name in ("produce.throttle.time.max", "request.rate", "batch.size.avg")]


def made(count: int, starts: list[datetime]) -> tuple[Table, Table]:
    """PUSHES and partial wide rows of clients whose ids are numbers."""
    pushes, points = [], []
    for number in range(count):
        group, name = f"group-{number // 40}" if number % 2 else None, f"{number:04d}"
        for start in starts:
            push = f"{int(start.timestamp()):016x}{number:016x}"
            at = start + timedelta(seconds=number % 300)
            role = "consumer" if group else "producer"
            pushes.append((name, f"client-{number // 20}", at, push, group, role, 12))
            measured: list[tuple[Any, ...]] = [
                (f"org.apache.kafka.{role}.{LATENCY}", node, None, None, 3.0) for node in (1, 2)
            ]
            measured += [(LAG, None, "orders", 4 * number + each, 70.0) for each in range(4) if group]
            measured += [(each, None, None, None, 0.5) for each in (OF_CONSUMER if group else OF_PRODUCER)]
            points += [(name, f"client-{number // 20}", at, push, group, *each) for each in measured]
    columns = "client_instance_id client_id received_at push_id group_id"
    sent = rows(SENT_POINTS, f"{columns} metric_name node_id topic partition value", *points)
    order: SortKeys = [("client_instance_id", "ascending")]
    given = rows(PUSHES, f"{columns} role points", *pushes)
    return given.sort_by(order), aggregate(sent, 300).sort_by(order)


def named(given: Table, ids: list[str], block: int) -> Table:
    """The same rows with ids and groups of their own."""
    of_id = pa.array(ids).take(given["client_instance_id"].cast(pa.int64()).combine_chunks())
    of_group = pc.binary_join_element_wise(given["group_id"], str(block), "-")
    for name, column in (("client_instance_id", of_id), ("group_id", of_group)):
        given = given.set_column(given.schema.get_field_index(name), given.schema.field(name), column)
    return given


def written(count: int, starts: list[datetime]) -> Iterator[tuple[Table, Table]]:
    """PUSHES and partial wide rows of some clients after the others."""
    chance = Random(7)
    ids = sorted(urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=") for _ in range(count))
    pushes, windows = made(min(CLIENTS_AT_ONCE, count), starts)
    for begin in range(0, count, CLIENTS_AT_ONCE):
        own = ids[begin : begin + CLIENTS_AT_ONCE]
        yield named(pushes, own, begin), named(windows, own, begin)


def fill(store: Store, count: int, starts: list[datetime]) -> None:
    """Writes the tables."""
    with store.files_of(catalog.PUSHES).open() as to_pushes, store.files_of(catalog.WINDOWS).open() as to_windows:
        for pushes, windows in written(count, starts):
            for writer, table in ((to_pushes, pushes), (to_windows, windows)):
                for batch in table.combine_chunks().to_batches():
                    writer.write(batch)
        for writer, name in ((to_pushes, catalog.PUSHES), (to_windows, catalog.WINDOWS)):
            writer.finish()
            store.change(name, add=writer.take_finished())


def timed(run: Callable[[], None]) -> dict[str, float]:
    """Seconds of wall clock and CPU, and the largest memory so far."""
    began, cpu = time.perf_counter(), time.process_time()
    run()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu, "peak_mb": peak_mb}
    return {name: round(value, 1) for name, value in took.items()}


def main() -> None:
    """Prints the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--tables", type=Path, help="that an earlier call has filled; or where to")
    given = parser.parse_args()
    starts = [NOON + number * WINDOW for number in range(given.windows)]
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(str(given.tables or scratch))
        results: dict[str, object] = {"clients": given.clients, "windows": given.windows}
        if not store.has(catalog.WINDOWS):
            results["fill"] = timed(lambda: fill(store, given.clients, starts))
        results["wide_rows"] = store.log(catalog.WINDOWS).size()._asdict()
        stages: list[tuple[str, float]] = []
        answers = Answers(store, InProcess(), 300, lambda name: stages.append((name, time.perf_counter())))
        for name, some in (("first", starts), ("again", starts), ("last", starts[-1:])):
            stages.clear()
            results[name] = timed(partial(answers.refresh, of_windows(some, 300), starts[-1] + WINDOW))
            ends = [at for _, at in stages[1:]] + [time.perf_counter()]
            results[f"{name}_s"] = {
                stage: round(end - begin, 2) for (stage, begin), end in zip(stages, ends, strict=True)
            }
        print(json.dumps(about() | {"results": results}, indent=2))


if __name__ == "__main__":
    main()
