"""How long `fleet whatif` takes: reading wide rows into rates, and replaying those who share a limit.

    .venv/bin/python -m benchmarks.fleet.bench_whatif --clients 1000 --days 7 --window 300

Each client is an entity of its own with three brokers; its rate is a curve by day with noise of a third. Limits are
those that throttle the top 1, 10 and 50 percent. `read_s` is with the search for peaks, which takes no time in windows
of a minute; all times are of the CPU.
"""

import argparse
import json
import platform
import subprocess
import tempfile
import time

import numpy as np
import pyarrow as pa

from fleetgauge.fleet.measures.rows import GROWTH_UNITS, ROWS
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.whatif import engines
from fleetgauge.fleet.whatif.outcome import Outcome, Peak
from fleetgauge.fleet.whatif.rates import Client, ReadRates
from fleetgauge.fleet.whatif.whatif import parts_of, stretch

NODES = 3
BEGIN_S = 1_772_323_200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--window", type=int, default=300)
    asked = parser.parse_args()
    cells = asked.days * 86_400 // asked.window
    rng = np.random.default_rng(1)
    scale = rng.lognormal(10, 1.0, asked.clients)
    curve = 1 + 0.6 * np.sin(np.arange(cells) * asked.window / 86_400 * 2 * np.pi)
    names = [f"{number * 64 // asked.clients:02d}{number:020d}" for number in range(asked.clients)]
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        with store.files_of(catalog.WINDOWS).open() as writer:
            for number, name in enumerate(names):
                noise = rng.gamma(9, 1 / 9, (NODES, cells))
                for batch in of_client(name, scale[number] * curve * noise, asked.window).to_batches():
                    writer.write(batch)
            writer.finish()
            store.change(catalog.WINDOWS, add=writer.take_finished())
        of = stretch(store, None, None)
        clients = {("lkc-1", "User:a", name): Client(at, "producer_byte_rate") for at, name in enumerate(names)}
        windows = store.snapshot(catalog.WINDOWS)
        read = ReadRates(windows=windows, where=of.where, clients=clients, cell_s=asked.window, to_one=False)
        parts = parts_of(of)
        began = time.process_time()
        peaks = engines.in_process(read, parts, Peak(asked.window), lambda _: None)
        read_s = time.process_time() - began
        took = {}
        for percent in (1, 10, 50):
            limit = float(np.quantile(list(peaks.values()), 1 - percent / 100))
            task = Outcome(asked.window, dict.fromkeys(peaks, limit))
            began = time.process_time()
            found = engines.in_process(read, parts, task, lambda _: None)
            shares = [each["throttled_share"] for each in found.values() if each["throttled"]]
            took[f"top_{percent}_percent"] = {
                "read_and_replay_s": round(time.process_time() - began, 2),
                "throttled": len(shares),
                "mean_share": round(float(np.mean(shares)), 3),
            }
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    result = {
        "clients": asked.clients,
        "days": asked.days,
        "window_s": asked.window,
        "rows": of.rows,
        "read_s": round(read_s, 2),
        **took,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
    }
    print(json.dumps(result))


def of_client(name: str, rates: np.ndarray, window_s: int) -> pa.Table:
    """ROWS of a client and its links; `rates` [bytes/s] by broker and window."""
    nodes, cells = rates.shape
    start = (BEGIN_S + np.arange(cells) * window_s) * 1_000_000
    parts = []
    for node in (None, *range(nodes)):
        at = pa.array(start).cast(TIME)
        columns = {
            "date": at.cast(pa.date32()),
            "window_start": at,
            "window_s": pa.array(np.full(cells, window_s, np.int32)),
            "cluster_id": pa.array(["lkc-1"] * cells),
            "principal": pa.array(["User:a"] * cells),
            "client_instance_id": pa.array([name] * cells),
        }
        if node is None:
            columns |= {"seen_at": pa.array(start + window_s * 1_000_000).cast(TIME)}
            columns |= {"push_interval_ms": pa.array(np.full(cells, window_s * 1_000, np.int32))}
        else:
            sent = (rates[node] * window_s * GROWTH_UNITS).astype(np.int64)
            columns |= {"role": pa.array(["producer"] * cells), "node_id": pa.array(np.full(cells, node, np.int32))}
            columns |= {"bytes_sent_sum": pa.array(sent), "requests_sum": pa.array(sent // 16_384)}
            columns |= {f"{each}_count": pa.array(np.ones(cells, np.int64)) for each in ("bytes_sent", "requests")}
        arrays = [columns.get(field.name, pa.nulls(cells, field.type)) for field in ROWS]
        parts.append(pa.table(arrays, schema=ROWS))
    return pa.concat_tables(parts)


if __name__ == "__main__":
    main()
