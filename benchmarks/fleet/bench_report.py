"""Seconds, memory and size of `fleet report`, and of `fleet explain` of a node, for 10 to 100,000 client instances.

    .venv/bin/python -m benchmarks.fleet.bench_report --clients 10 1000 10000 100000 --windows 8

Tables as `fleet run` leaves them are made of the wide rows of `bench_judge.py` (see there for what is in such a fleet):
`clients`, `windows`, `latency`, `throttling` and `groups` by the functions that `fleet run` calls, one file per window
of five minutes, and `verdicts` and `judged` by the judge. Then each command runs in a process of its own. Prints one
JSON object per fleet: rows of `windows`, verdicts, seconds (with starting Python), the largest resident set, and the
size of the page, which stays in `--work`.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.fleet.bench_judge import Fleet
from fleetgauge.fleet.arrow import conformed, pa, pc
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.gold.latency import latency
from fleetgauge.fleet.gold.members import groups
from fleetgauge.fleet.gold.throttling import throttling
from fleetgauge.fleet.gold.versions import versions
from fleetgauge.fleet.measures.catalogue import BY_COLUMN
from fleetgauge.fleet.measures.rows import AVG_UNITS, GROWTH_UNITS, ROWS
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.rules import default_rules
from fleetgauge.verdicts.window import MEASURES

_WINDOW_S: Final = 300
_FAMILIES: Final = ("produce_throttle_pushes", "fetch_throttle_pushes", "consumer_pushes", "rebalance_pushes")
_FIRST: Final = 8
"""Of the windows of `Fleet`, in which some clients are ill from the twelfth on."""


def wide_rows(window: Any, ids: dict[str, str]) -> Any:
    """ROWS of a window of `bench_judge.Fleet`, with ids as random as a client's own, and in their order."""
    count = window.num_rows
    columns = {name: window[name] for name in window.column_names if name in ROWS.names and name not in MEASURES}
    columns["client_instance_id"] = pa.array([ids[each] for each in window["client_instance_id"].to_pylist()])
    columns["date"] = window["window_start"].cast(pa.date32())
    columns["group_id_at"] = window["seen_at"]
    for name in MEASURES:
        values = window[name].combine_chunks() if name != "lag_records" else None
        if values is None or values.null_count == count:
            continue
        over = BY_COLUMN[name].over
        if over in ("avg", "growth"):
            units = AVG_UNITS if over == "avg" else GROWTH_UNITS
            columns[f"{name}_sum"] = pc.round(pc.multiply(values.cast(pa.float64()), float(units))).cast(pa.int64())
            columns[f"{name}_count"] = pc.if_else(values.is_valid(), 1, None)
        else:
            columns[name] = values.cast(ROWS.field(name).type, safe=False)
            if f"{name}_at" in ROWS.names:
                columns[f"{name}_at"] = pc.if_else(values.is_valid(), window["seen_at"].combine_chunks(), None)
    is_client = pc.is_null(window["role"]).combine_chunks()
    for name in _FAMILIES:
        columns[name] = pc.if_else(is_client, 5, None)
    lag = window["lag_records"].combine_chunks().fill_null(-1.0).to_numpy(zero_copy_only=False)
    kind = ROWS.field("lag_partitions").type.value_type
    known = np.flatnonzero(lag >= 0)
    parts = pa.StructArray.from_arrays(
        [pa.array(["orders"] * len(known), pa.string()), pa.array(known, pa.int32()), pa.array(lag[known])],
        fields=list(kind),
    )
    offsets = np.append(0, np.cumsum(lag >= 0))
    columns["lag_partitions"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), parts)
    columns["lag_at"] = window["seen_at"]
    columns = {name: each.combine_chunks() if hasattr(each, "chunks") else each for name, each in columns.items()}
    return conformed(ROWS, columns, count).sort_by("client_instance_id")


def instance_id(number: int) -> str:
    """22 characters, which follow from a number."""
    digits = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
    bits = int.from_bytes(np.random.default_rng(number).bytes(17), "big")
    return "".join(digits[bits >> 6 * place & 63] for place in range(22))


def write(store: Store, table: catalog.Table, rows: Any) -> None:
    """Appends rows, as a task of `fleet run` does."""
    with store.files_of(table).open() as writer:
        for batch in rows.to_batches(max_chunksize=50_000):
            writer.write(batch)
        writer.finish()
        store.change(table, add=writer.take_finished())


def make(root: Path, clients: int, windows: int) -> int:
    """Makes the tables; returns the rows of `windows`."""
    store, fleet, total = Store(str(root)), Fleet(clients), 0
    ids: dict[str, str] = {}
    known: dict[str, dict[str, Any]] = {}
    for number in range(_FIRST, _FIRST + windows):
        window = fleet.window(number)
        for each in window["client_instance_id"].unique().to_pylist():
            ids.setdefault(each, instance_id(len(ids)))
        rows = wide_rows(window, ids)
        total += rows.num_rows
        for table, found in (
            (catalog.WINDOWS, rows),
            (catalog.LATENCY, answer(latency(), rows)),
            (catalog.THROTTLING, answer(throttling(), rows)),
            (catalog.GROUPS, answer(groups(), rows)),
        ):
            write(store, table, found)
        every = fleet.clients(0).to_pylist()
        software = window.filter(pc.is_null(window["role"])).select(
            ("client_id", "client_software_name", "client_software_version")
        )
        for row, more in zip(every, software.to_pylist(), strict=True):
            row |= more | {"client_instance_id": ids[row["client_instance_id"]], "state": "live"}
            row |= {"last_seen": window["seen_at"][0].as_py(), "push_interval_ms": 60_000}
            known[row["client_instance_id"]] = row
    store.make(catalog.CLIENTS)
    found = pa.Table.from_pylist(list(known.values()), schema=catalog.CLIENTS.schema).sort_by("client_instance_id")
    write(store, catalog.CLIENTS, found)
    write(store, catalog.VERSIONS, answer(versions(), found))
    store.make(catalog.POINTS)
    everything = [(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC) - timedelta(days=1))]
    replace_verdicts(store, InProcess(), everything, default_rules(), _WINDOW_S)
    return total


def measured(work: Path, clients: int, windows: int) -> dict[str, Any]:
    """The figures of one fleet."""
    tables, page = work / f"{clients}-{windows}", work / f"{clients}.html"
    rows = None if tables.exists() else make(tables, clients, windows)
    reported = _timed("report", "--tables", str(tables), "--output", str(page))
    explained = _timed("explain", "node", "3", "--cluster-id", "cluster-0", "--tables", str(tables))
    return {
        "clients": clients,
        "rows": rows or Store(str(tables)).log(catalog.WINDOWS).size().rows,
        "verdicts": Store(str(tables)).log(catalog.VERDICTS).size().rows,
        **{f"report_{name}": value for name, value in reported.items()},
        **{f"explain_{name}": value for name, value in explained.items()},
        "page_kb": round(page.stat().st_size / 1000),
        "python": platform.python_version(),
    }


def _timed(*arguments: str) -> dict[str, float]:
    """Seconds and memory of a command."""
    command = [sys.executable, "-m", "fleetgauge", "fleet", *arguments]
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _MEASURED, *command], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    cpu_s, rss_kb = done.stdout.split()
    return {"seconds": round(seconds, 2), "cpu_s": float(cpu_s), "rss_mb": round(int(rss_kb) / 1024)}


_MEASURED: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--windows", type=int, default=24, help="of five minutes; ten at least, for verdicts")
    parser.add_argument("--work", type=Path, help="directory of tables, which are used again if they are there")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="report-"))
    work.mkdir(parents=True, exist_ok=True)
    for clients in given.clients:
        print(json.dumps(measured(work, clients, given.windows)), flush=True)


if __name__ == "__main__":
    main()
