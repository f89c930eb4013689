"""What users and quotas that tools set cost a node: time to set and describe them, and how long other clients wait.

    python benchmarks/fleetgauge/bench_admin_state.py [--number 2000] [--batch 500]

Starts `fleetgauge serve`, sets `--number` SCRAM users and as many quotas of users in requests of `--batch`, describes
all of them, changes 20 quotas in a request for each, and starts the node again. Meanwhile a process sends a request
every 2 ms: `longest_wait_ms` and `p99_wait_ms` [ms] are its waits for answers, `idle` those without any of this. Prints
one JSON object. Linux alone.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

sys.path += [str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parents[2])]
from support.brokers.admin_client import AdminClient
from support.clients.raw_client import RawClient
from support.programs.node import Node

_EVERY_S: Final = 0.002
_SCRAM_SHA_512: Final = 2
_CHANGED: Final = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Node(Path(directory)) as node:
        pid = node.status()["node"]["pid"]
        found: dict[str, Any] = {"rss_MiB_before": _rss_mib(pid)}
        with AdminClient(node.port) as client:
            for name, work in _steps(client, options.number, options.batch).items():
                found[name] = _watched(node.port, work)
        found["rss_MiB_after"] = _rss_mib(pid)
        node.stop()
        begin_s = time.monotonic()
        node.start()
        found["restart_s"] = round(time.monotonic() - begin_s, 2)
    print(json.dumps({"number": options.number, "batch": options.batch, **found}))


def _steps(client: AdminClient, number: int, batch: int) -> dict[str, Callable[[], Any]]:
    names = [f"user-{each:06}" for each in range(number)]
    batches = [names[at : at + batch] for at in range(0, number, batch)]

    def set_users() -> None:
        for part in batches:
            client.alter_scram(upsert=[(name, _SCRAM_SHA_512, 4_096, b"salt" * 4, b"p" * 64) for name in part])

    def set_quotas() -> None:
        limits: dict[str, float | None] = {"request_percentage": 50.0}
        for part in batches:
            entities: list[list[tuple[str, str | None]]] = [[("user", name)] for name in part]
            client.alter_quotas(*((entity, limits) for entity in entities))

    def change_quotas() -> None:
        for name in names[:_CHANGED]:
            client.alter_quotas(([("user", name)], {"request_percentage": 40.0}))

    return {
        "idle": lambda: time.sleep(2.0),
        "set_users": set_users,
        "describe_users": client.scram,
        "set_quotas": set_quotas,
        "describe_quotas": client.quotas,
        "change_quotas": change_quotas,
    }


def _watched(port: int, work: Callable[[], Any]) -> dict[str, float]:
    """Duration of `work` [s], and the waits of another client meanwhile [ms]."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_wait_for_answers, args=(port, theirs))
    process.start()
    ours.recv()
    begin_s = time.monotonic()
    work()
    took_s = time.monotonic() - begin_s
    ours.send(None)
    waits = sorted(ours.recv())
    process.join()
    longest, p99 = waits[-1], waits[int(len(waits) * 0.99)]
    return {
        "seconds": round(took_s, 2),
        "longest_wait_ms": round(longest * 1e3, 1),
        "p99_wait_ms": round(p99 * 1e3, 1),
    }


def _wait_for_answers(port: int, pipe: Connection) -> None:
    waits = []
    with RawClient(port) as client:
        client.api_versions()
        pipe.send(None)
        while not pipe.poll():
            begin_s = time.monotonic()
            client.api_versions()
            waits.append(time.monotonic() - begin_s)
            time.sleep(_EVERY_S)
    pipe.send(waits)


def _rss_mib(pid: int) -> int:
    [line] = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
