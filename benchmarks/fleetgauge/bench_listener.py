"""Pushes per second and latency of one listener process, as ratios to an echo of the same frames in the same run.

    python benchmarks/fleetgauge/bench_listener.py [--seconds 3] [--rounds 3] [--cases S:2000:1 J:100:1]
        [--rates 1000 ...] [--against DIRECTORY] [--workers 2] [--fsync] [--otlp] [--polled]
        [--set KEY=VALUE ...] [--within 230]

A real `fleetgauge serve` (validation, sensors and push log on, its exporter process delivering to the landing zone)
and an echo server on the same kind of loop and Protocol, one after the other in an order that changes, are driven by
one generator process over loopback. A case is a payload (see `load`), connections, and frames under way on each: a
closed loop. `--rates` adds so many pushes a second, whatever is answered, with the latency of each. Answers other
than NONE are counted as `refused` and must be 0 for a valid figure. `cpu_us` is the CPU time that the listener
process, or the echo, took for each frame: the rate that one core allows, whatever else took of the machine's cores.

`--against` adds a node whose packages lie in another directory: another checkout, or the compiled form, which is
`FLEETGAUGE_COMPILE=1 python -m hatchling build -t wheel`, unpacked. `--workers` adds a node of so many listener
processes, `--fsync` one with `push.log.flush=fsync`, `--set` one with the given keys, `--otlp` one (of so many
workers, too) that also delivers by OTLP over gRPC, to a receiver that answers and reads nothing; what its exporters say
in the end is printed. `--polled` adds a node with 16,384 instances whose `/clients` and `/metrics` are fetched all the
time, and the same node left alone. The generator is one process and takes a core of its own where there is one.

Every figure is printed when it is there; the JSON object with medians and ratios comes at the end, or with what there
is when the time `--within` [s] is over or a signal ends the run. What was started is stopped in every case.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import multiprocessing
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.brokers.kafka_broker import with_the_test_run
from support.programs.node import Node

from benchmarks.exporters.bench_destinations import receive
from benchmarks.fleetgauge.load import (
    SUBSCRIPTION,
    Board,
    Deadline,
    Load,
    echo_server,
    encoded_payload,
    listener_pids,
    run,
    stop_in_order,
    tell,
)

NODE, ECHO, AGAINST, WORKERS, POLLED = "fleetgauge", "echo", "against", "workers", "polled"
FSYNC, OTLP, SET = "fsync", "otlp", "set"
EXPORTERS = """
[exporters.landing]
type = "landing"
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{port}"
"""
DELIVERED_WITHIN_S = 60.0
KNOWN_INSTANCES = 16_384


class Poller:
    """Fetches pages of a node again and again while it is on, as dashboards do, in a thread of this process."""

    def __init__(self, base: str) -> None:
        self._pages = (f"{base}/clients", f"{base}/metrics")
        self._on = threading.Event()
        self._stopped = False
        self.fetched = 0
        self._thread = threading.Thread(target=self._fetch, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def polling(self, wanted: bool) -> Iterator[None]:
        if wanted:
            self._on.set()
        try:
            yield
        finally:
            self._on.clear()

    def _fetch(self) -> None:
        while True:
            for page in self._pages:
                self._on.wait()
                with contextlib.suppress(OSError), urllib.request.urlopen(page, timeout=60) as answer:
                    answer.read()
                    self.fetched += 1


class Targets:
    """Everything that one case drives, and what stops with it."""

    def __init__(self, stack: contextlib.ExitStack, chosen: argparse.Namespace, case: tuple[str, int, int]) -> None:
        kind, self._connections, _ = case
        self._stack = stack
        self._encoded = encoded_payload(kind)
        self.poller: Poller | None = None
        port, pid = stack.enter_context(echo_server())
        self.loads = [Load(ECHO, port, self._encoded, self._connections, echo=True, pids=[pid]), self._node(NODE)[1]]
        if chosen.against:
            self.loads.append(self._node(AGAINST, modules=chosen.against.resolve())[1])
        several = (f"workers={chosen.workers}", "telemetry.client.instances.max=65536") if chosen.workers > 1 else ()
        if several:
            self.loads.append(self._node(WORKERS, *several)[1])
        if chosen.fsync:
            self.loads.append(self._node(FSYNC, "push.log.flush=fsync")[1])
        if chosen.set:
            self.loads.append(self._node(SET, *chosen.set)[1])
        self.delivering: Node | None = None
        if chosen.otlp:
            exporters = EXPORTERS.format(port=stack.enter_context(receiver()))
            self.delivering, load = self._node(OTLP, *several, config=SUBSCRIPTION + exporters)
            self.loads.append(load)
        if chosen.polled:
            node, load = self._node(POLLED, "http.listeners=http://127.0.0.1:0", instances=KNOWN_INSTANCES)
            self.poller = Poller(node.status()["http"]["listeners"][0])
            self.loads.append(load)

    def _node(
        self,
        name: str,
        *options: str,
        config: str = SUBSCRIPTION,
        modules: Path | None = None,
        instances: int | None = None,
    ) -> tuple[Node, Load]:
        made = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        options = ("push.log.retention.bytes=1073741824", *options)
        node = Node(Path(made), *options, config=config, modules=modules, before=with_the_test_run())
        self._stack.enter_context(node)
        more: dict[str, Any] = {} if instances is None else {"instances": instances}
        return node, Load(name, node.port, self._encoded, self._connections, pids=listener_pids(node), **more)


@contextlib.contextmanager
def receiver() -> Iterator[int]:
    """The port of one for OTLP over gRPC, in a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=receive, args=(there, None), daemon=True)
    process.start()
    try:
        yield here.recv()[0]
    finally:
        process.terminate()
        process.join()


def tell_delivered(node: Node) -> None:
    """What its exporters delivered and lost, once nothing waits for them."""
    deadline = time.monotonic() + DELIVERED_WITHIN_S
    while True:
        exporters = node.status()["exporter_process"]["exporters"]
        if time.monotonic() > deadline or not any(each["lag_records"] for each in exporters.values()):
            break
        time.sleep(0.5)
    names = ("delivered_records", "lag_records", "lost_records", "refused")
    told = {name: {key: each.get(key) for key in names} for name, each in exporters.items()}
    print(json.dumps({"exporters": told}), file=sys.stderr)


async def measure(
    targets: Targets, board: Board, chosen: argparse.Namespace, case: tuple[str, int, int], deadline: Deadline
) -> None:
    name, pipelined = ":".join(map(str, case)), case[2]
    await asyncio.gather(*(load.open() for load in targets.loads))
    for number in range(chosen.rounds):
        for load in targets.loads if number % 2 else targets.loads[::-1]:
            if not deadline.allows((chosen.seconds + 2) * (1 + len(chosen.rates))):
                return
            if load.name != POLLED:
                board.add(name, load.name, await load.closed_loop(pipelined, chosen.seconds))
            for rate in chosen.rates:
                board.add(f"{name} {rate}/s", load.name, await load.open_loop(rate, chosen.seconds))
                if load.name == POLLED and targets.poller is not None:
                    with targets.poller.polling(True):
                        board.add(f"{name} {rate}/s", "while polled", await load.open_loop(rate, chosen.seconds))
    if targets.delivering is not None:
        tell_delivered(targets.delivering)
    if targets.poller is not None:
        print(f"{targets.poller.fetched} pages were fetched meanwhile", file=sys.stderr)


def summary(board: Board) -> dict[str, Any]:
    closed, latencies = {}, {}
    for what, by in board.figures.items():
        if what.endswith("/s"):
            latencies[what] = {
                f"{name}_p99_to_echo": board.ratio(what, "p99_us", name, ECHO) for name in by if name != ECHO
            }
            latencies[what]["polled_p99_to_unpolled"] = board.ratio(what, "p99_us", "while polled", POLLED)
            for name in by.keys() & {AGAINST, SET}:
                for figure in ("cpu_us", "p50_us", "p99_us"):
                    latencies[what][f"{name}_to_here, {figure}"] = board.ratio(what, figure, name, NODE)
            continue
        closed[what] = {
            **{f"{name}_to_echo": board.ratio(what, "per_second", name, ECHO) for name in by if name != ECHO},
            **{f"{name}_to_here": board.ratio(what, "per_second", name, NODE) for name in by if name != NODE},
            "cpu_of_an_echo_to_a_push": board.ratio(what, "cpu_us", ECHO, NODE),
            "cpu_of_a_push_set_to_here": board.ratio(what, "cpu_us", SET, NODE),
            "cpu_of_a_push_to_one_against": board.ratio(what, "cpu_us", NODE, AGAINST),
        }
    return {"closed": closed, "latencies": latencies, "medians": board.medians()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cases", nargs="+", default=["S:100:1", "S:2000:1", "S:100:8", "F:100:1", "J:100:1"])
    arguments.add_argument("--rates", type=int, nargs="*", default=[])
    arguments.add_argument("--against", type=Path)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--fsync", action="store_true")
    arguments.add_argument("--otlp", action="store_true")
    arguments.add_argument("--polled", action="store_true")
    arguments.add_argument("--set", nargs="+", metavar="KEY=VALUE")
    arguments.add_argument("--within", type=float, default=230.0)
    chosen = arguments.parse_args()
    stop_in_order()
    deadline, board = Deadline(chosen.within), Board()
    ended = False
    try:
        for text in chosen.cases:
            kind, connections, pipelined = text.split(":")
            case = (kind, int(connections), int(pipelined))
            with contextlib.ExitStack() as stack:
                targets = Targets(stack, chosen, case)
                ended = run(functools.partial(measure, targets, board, chosen, case, deadline))
            if not ended:
                break
    finally:
        tell({"ended_by_itself": ended, **summary(board)})


if __name__ == "__main__":
    main()
