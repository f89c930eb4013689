"""A node beside a real Kafka broker whose reporter labels each push: pushes per second, and latency at fixed rates.

    python benchmarks/fleetgauge/bench_against_kafka.py [--seconds 2] [--rounds 3] [--rates 1000 ...]
        [--workers 2] [--modules DIRECTORY] [--set KEY=VALUE ...] [--within 230]

Both are driven by the same generator over loopback, one after the other, in an order that changes, with S of
docs/reference/performance.md (1.4 kB, 10 points, zstd) on 4,000 connections: first as fast as they answer, then at so
many pushes a second, whatever they answer. Without `--rates` these are 0.3, 0.5 and 0.8 of what the slower of the two
answered in the warm-up. The node validates, counts and logs each push before it answers (its exporter process delivers
to the landing zone meanwhile); the broker parses, labels and serialises it, as every receiver must, and keeps nothing.
An echo on a loop like the node's is the measure of the generator itself. `--workers` gives the node so many listener
processes; `--modules` is where its packages lie, for example an unpacked wheel of the compiled form
(`FLEETGAUGE_COMPILE=1 python -m hatchling build -t wheel`); `--set` gives it other keys.

Every figure is printed when it is there; the JSON object with medians and ratios comes at the end, or with what there
is when the time `--within` [s] is over or a signal ends the run. What was started is stopped in every case.
"""

import argparse
import asyncio
import contextlib
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.brokers.kafka_broker import KafkaBroker, with_the_test_run
from support.brokers.kafka_jars import kafka_jars
from support.programs.node import Node

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

VERSION = "4.3.1"
NODE, BROKER, ECHO = "fleetgauge", "kafka", "echo"
SHARES = (0.3, 0.5, 0.8)
INSTANCES = "telemetry.client.instances.max=65536"
"""Workers divide it, and each may get most of the connections."""
WARM_UPS = 3
"""The JVM needs them."""
CLOSED = "closed loop"


def broker(directory: Path) -> KafkaBroker:
    classes = directory / "classes"
    source = Path(__file__).parent / "LabellingReporter.java"
    command = ["javac", "-Xlint:none", "-nowarn", "-cp", f"{kafka_jars(VERSION)}/*", "-d", str(classes), str(source)]
    subprocess.run(command, check=True)
    properties = {"metric.reporters": "LabellingReporter", "socket.listen.backlog.size": "4096"}
    return KafkaBroker(directory / "kafka", VERSION, jars=[classes], properties=properties, heap="1g", jvm=())


async def measure(loads: list[Load], board: Board, chosen: argparse.Namespace, deadline: Deadline) -> None:
    await asyncio.gather(*(load.open() for load in loads))
    fastest = dict.fromkeys((load.name for load in loads), 0.0)
    for _ in range(WARM_UPS):
        for load in loads:
            found = await load.closed_loop(1, chosen.seconds)
            board.add(CLOSED, load.name, found, warm_up=True)
            fastest[load.name] = max(fastest[load.name], found["per_second"])
    slowest = min(fastest[load.name] for load in loads)
    rates = chosen.rates or [max(100, int(slowest * share) // 100 * 100) for share in SHARES]
    for number in range(chosen.rounds):
        order = loads if number % 2 else loads[::-1]
        for what in (CLOSED, *rates):
            if not deadline.allows(len(loads) * (chosen.seconds + 2)):
                return
            for load in order:
                if what == CLOSED:
                    board.add(CLOSED, load.name, await load.closed_loop(1, chosen.seconds))
                else:
                    board.add(f"{what}/s", load.name, await load.open_loop(int(what), chosen.seconds))


def summary(board: Board) -> dict[str, object]:
    latencies = {}
    for what, by in board.figures.items():
        if what != CLOSED:
            latencies[what] = {
                "sustained_by": [name for name, rounds in by.items() if all(each["sustained"] for each in rounds)],
                "p99_to_kafka": board.ratio(what, "p99_us", NODE, BROKER),
                "p50_to_kafka": board.ratio(what, "p50_us", NODE, BROKER),
                "p99_to_echo": board.ratio(what, "p99_us", NODE, ECHO),
            }
    return {
        "pushes_per_second_to_kafka": board.ratio(CLOSED, "per_second", NODE, BROKER),
        "pushes_per_second_to_echo": board.ratio(CLOSED, "per_second", NODE, ECHO),
        "cpu_a_push_to_kafka": board.ratio(CLOSED, "cpu_us", NODE, BROKER),
        "latencies": latencies,
        "medians": board.medians(),
        "rounds": len(board.figures.get(CLOSED, {}).get(NODE, ())),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--connections", type=int, default=4_000)
    arguments.add_argument("--rates", type=int, nargs="+")
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--modules", type=Path)
    arguments.add_argument("--set", nargs="+", default=(), metavar="KEY=VALUE")
    arguments.add_argument("--within", type=float, default=230.0)
    chosen = arguments.parse_args()
    stop_in_order()
    deadline, board, encoded = Deadline(chosen.within), Board(), encoded_payload("S")
    ended = False
    try:
        with contextlib.ExitStack() as stack:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            kafka = stack.enter_context(broker(made))
            kafka.subscribe(interval_ms=100)
            options = ("push.log.retention.bytes=1073741824", f"workers={chosen.workers}", INSTANCES, *chosen.set)
            modules = chosen.modules and chosen.modules.resolve()
            node = Node(made, *options, config=SUBSCRIPTION, modules=modules, before=with_the_test_run())
            stack.enter_context(node)
            port, pid = stack.enter_context(echo_server())
            assert kafka.process is not None
            # Two on each connection, in turn: so many that hardly one pushes again within its interval of 100 ms.
            load = functools.partial(
                Load, encoded=encoded, connections=chosen.connections, instances=2 * chosen.connections
            )
            loads = [
                load(NODE, node.port, pids=listener_pids(node)),
                load(BROKER, kafka.port, pids=[kafka.process.pid]),
                load(ECHO, port, echo=True, pids=[pid]),
            ]
            ended = run(lambda: measure(loads, board, chosen, deadline))
    finally:
        tell({"kafka": VERSION, "connections": chosen.connections, "ended_by_itself": ended, **summary(board)})


if __name__ == "__main__":
    main()
