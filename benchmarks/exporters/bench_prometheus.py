"""The page of client series at full size: what a scrape and a push cost, and what it weighs.

    python benchmarks/exporters/bench_prometheus.py [--clients 16384] [--series 20] [--scrapes 5]

A process of its own holds the exporter with its state file, as the exporter process does. Every client pushes three
times: once for its series to be made, once for the exporter to see that it goes on alike, and once as ever after. Then
the page is scraped, plain and with gzip, over a socket, as it is and after another push of everybody; at last pushes go
on while one scrape follows the other. Prints one JSON object.
"""

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.payloads.client_series import batch_of, counter, gauge, payload
from support.programs.push_log import push_record
from support.rss import rss_bytes

from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.telemetry.push_record import PushRecord

BATCH: Final = 1_000
NAMES: Final = 10
MEMBER: Final = "member-????????"


def push(number: int, client: int, metrics: bytes) -> PushRecord:
    """A push of one client, received now, with a resource of its own."""
    metrics = metrics.replace(MEMBER.encode(), f"member-{client:08}".encode())
    now = {"received_at": time.time_ns() // 1_000, "terminating": False, "push_interval_ms": 300_000}
    return push_record(number, metrics, client_instance_id=f"{client:022}", client_id=f"client-{client % 500}", **now)


def metrics_of(series: int, turn: int) -> bytes:
    """Half counters and half gauges, of ten names, by node; every value is another one in each turn."""
    points = [
        (counter if number % 2 else gauge)(
            number + turn + 0.25, name=f"org.apache.kafka.app.{number % NAMES}", node__id=number
        )
        for number in range(series)
    ]
    return payload(*points, group_member_id=MEMBER)


def export_all(exporter: PrometheusExporter, clients: int, metrics: bytes, first: int) -> dict[str, int]:
    """One push of each client: pushes a second, and CPU time [us] of a push."""
    seconds = cpu_seconds = 0.0
    for start in range(0, clients, BATCH):
        stop = min(start + BATCH, clients)
        batch = batch_of(*(push(first + client, client, metrics) for client in range(start, stop)))
        began, cpu_began = time.perf_counter(), time.process_time()
        exporter.export(batch)
        seconds += time.perf_counter() - began
        cpu_seconds += time.process_time() - cpu_began
    return {"pushes_per_second": round(clients / seconds), "cpu_us_a_push": round(1e6 * cpu_seconds / clients)}


def hold(pipe: Connection, clients: int, series: int) -> None:
    """The process: fills the page, then goes on pushing while it is told to."""
    limits = SeriesSettings(max_series=clients * (series + 1), max_per_metric=clients * series)
    with tempfile.TemporaryDirectory() as directory:
        settings = PrometheusSettings(listen=Address(port=0), state_file=Path(directory) / "state.db", series=limits)
        exporter = PrometheusExporter("page", settings)
        exporter.start()
        empty = rss_bytes(os.getpid())
        new = export_all(exporter, clients, metrics_of(series, 0), 0)
        second = export_all(exporter, clients, metrics_of(series, 1), clients)
        known = export_all(exporter, clients, metrics_of(series, 2), 2 * clients)
        state = sum(file.stat().st_size for file in Path(directory).iterdir())
        pipe.send({"url": exporter.url, "empty": empty, "new": new, "second": second, "known": known, "state": state})
        turn = 3
        while pipe.recv() == "turn":
            export_all(exporter, clients, metrics_of(series, turn), turn * clients)
            turn += 1
            pipe.send(turn)
        stopped = threading.Event()
        threading.Thread(target=_stop_when_told, args=(pipe, stopped), daemon=True).start()
        pipe.send(push_until(stopped, exporter, clients, series, turn))
        exporter.close()
        again = time.perf_counter()
        restarted = PrometheusExporter("page", settings)
        restarted.start()
        pipe.send(time.perf_counter() - again)
        restarted.close()


def push_until(stopped: threading.Event, exporter: PrometheusExporter, clients: int, series: int, turn: int) -> float:
    """Goes on pushing, 100 clients a batch; returns pushes a second of the time that the exporter took."""
    pushes, seconds = 0, 0.0
    while not stopped.is_set():
        turn += 1
        metrics = metrics_of(series, turn)
        for start in range(0, clients, 100):
            stop = min(start + 100, clients)
            batch = batch_of(*(push(turn * clients + each, each, metrics) for each in range(start, stop)))
            began = time.perf_counter()
            exporter.export(batch)
            seconds += time.perf_counter() - began
            pushes += stop - start
            if stopped.is_set():
                break
    return pushes / seconds


def _stop_when_told(pipe: Connection, stopped: threading.Event) -> None:
    pipe.recv()
    stopped.set()


def scrape(url: str, *, zipped: bool) -> tuple[float, float, int]:
    """Seconds to the first byte and to the last, and bytes."""
    headers = {"Accept": "application/openmetrics-text", **({"Accept-Encoding": "gzip"} if zipped else {})}
    began = time.perf_counter()
    with urlopen(Request(url, headers=headers), timeout=120) as response:
        size = len(response.read(1))
        first = time.perf_counter() - began
        while piece := response.read(1 << 16):
            size += len(piece)
    return first, time.perf_counter() - began, size


def cpu_s(pid: int) -> float:
    """CPU time of a process so far [s]."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def scrapes(
    url: str, pid: int, count: int, *, zipped: bool, before: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """The medians of several; `before` is called before each."""
    found = []
    for _ in range(count):
        before()
        began = cpu_s(pid)
        found.append((*scrape(url, zipped=zipped), cpu_s(pid) - began))
    first, whole, size, cpu = (sorted(each[place] for each in found)[count // 2] for place in range(4))
    return {"first_byte_s": round(first, 3), "seconds": round(whole, 2), "cpu_s": round(cpu, 2), "bytes": size}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clients", type=int, default=16_384)
    arguments.add_argument("--series", type=int, default=20)
    arguments.add_argument("--scrapes", type=int, default=5)
    chosen = arguments.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=hold, args=(theirs, chosen.clients, chosen.series))
    process.start()
    filled = ours.recv()
    assert process.pid is not None
    rss = rss_bytes(process.pid)

    def everybody_pushes() -> None:
        ours.send("turn")
        ours.recv()

    where = (filled["url"], process.pid, chosen.scrapes)
    plain = scrapes(*where, zipped=False)
    changed = scrapes(*where, zipped=False, before=everybody_pushes)
    zipped = scrapes(*where, zipped=True)
    after = rss_bytes(process.pid)
    ours.send("go on")
    busy = scrapes(*where, zipped=True)
    ours.send("end")
    pushed, restart = ours.recv(), ours.recv()
    process.join()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    result = {
        "clients": chosen.clients,
        "series": chosen.clients * chosen.series,
        "new_clients": filled["new"],
        "second_pushes": filled["second"],
        "known_clients": filled["known"],
        "pushes_per_second_under_scrapes": round(pushed),
        "scrape": plain,
        "scrape_of_another_value_everywhere": changed,
        "scrape_gzip": zipped,
        "scrape_gzip_under_pushes": busy,
        "rss_empty_bytes": filled["empty"],
        "rss_bytes": rss,
        "rss_after_scrapes_bytes": after,
        "bytes_a_series": round((rss - filled["empty"]) / (chosen.clients * chosen.series)),
        "state_file_bytes": filled["state"],
        "restart_s": round(restart, 2),
    }
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine, "load_after": os.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
