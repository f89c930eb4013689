"""A node beside a real Kafka broker whose reporter labels each push: pushes per second, and latency at a fixed rate.

    python benchmarks/fleetgauge/bench_against_kafka.py [--seconds 4] [--rounds 3] [--rate 10000]

Both are driven by the same generator over loopback, one after the other, in an order that changes, with S of MEASURED
(1.4 kB, 10 points, zstd) on 2,000 connections: first as fast as they answer, then at `rate` pushes a second, whatever
they answer. The node validates, counts and logs each push before it answers (its exporter process delivers to the
landing zone meanwhile); the broker parses, labels and serialises it, as every receiver must, and keeps nothing. An echo
on a loop like the node's is the measure of the generator itself. Prints one JSON object with every figure, medians and
the ratios of each round.
"""

import argparse
import asyncio
import collections
import functools
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import uvloop
import zstandard

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.kafka_broker import KafkaBroker
from support.kafka_jars import kafka_jars
from support.node import Node
from support.raw_client import ZSTD, push_request

from benchmarks.fleetgauge.bench_listener import ANSWER_BYTES, INSTANCES, chunks, drive, payload, serve_echo, subscribe

VERSION = "4.3.1"
CONNECTIONS = 2_000
LAST_ANSWERS_WITHIN_S = 10.0
NODE, BROKER, ECHO = "fleetgauge", "kafka", "echo"


class Timed(asyncio.Protocol):
    """One connection: notes when each frame left, and how long its answer took."""

    def __init__(self, frames: list[bytes], answer_bytes: int, latencies: list[float]) -> None:
        self._frames = itertools.cycle(frames)
        self._answer_bytes = answer_bytes
        self._latencies = latencies
        self._sent: collections.deque[float] = collections.deque()
        self._received = 0

    @property
    def waits(self) -> bool:
        return bool(self._sent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        self._sent.append(time.perf_counter())
        self.transport.write(next(self._frames))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        number, self._received = divmod(self._received + len(data), self._answer_bytes)
        now = time.perf_counter()
        for _ in range(number):
            self._latencies.append(now - self._sent.popleft())


async def at_a_rate(port: int, encoded: bytes, rate: int, seconds: float, *, echo: bool) -> dict[str, float]:
    """Open loop: `rate` frames a second, round the connections."""
    per_connection = chunks([uuid.uuid4() for _ in range(INSTANCES)], INSTANCES // CONNECTIONS)
    ids, asker = ({}, None) if echo else await subscribe(port, per_connection)
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    protocols = []
    for group in per_connection:
        frames = [push_request(0, each, ids.get(each, 0), encoded, compression_type=ZSTD) for each in group]
        answer_bytes = len(frames[0]) if echo else ANSWER_BYTES
        _, protocol = await loop.create_connection(
            functools.partial(Timed, frames, answer_bytes, latencies), "127.0.0.1", port
        )
        protocols.append(protocol)
    turn = itertools.cycle(protocols)
    started = time.perf_counter()
    sent = 0
    while (passed := time.perf_counter() - started) < seconds + 0.5:
        for _ in range(int(passed * rate) - sent):
            next(turn).send()
            sent += 1
        if passed < 0.5:
            latencies.clear()  # the warm-up
        await asyncio.sleep(0.0005)
    last = time.perf_counter() + LAST_ANSWERS_WITHIN_S  # the late ones are what the percentiles are about
    while any(protocol.waits for protocol in protocols) and time.perf_counter() < last:
        await asyncio.sleep(0.05)
    for protocol in protocols:
        protocol.transport.abort()  # type: ignore[attr-defined]
    if asker is not None:
        asker.close()
    if not latencies:
        raise SystemExit(f"nothing was answered in {seconds} s: the machine is too busy for {rate} pushes a second")
    latencies.sort()
    return {"p50_us": latencies[len(latencies) // 2] * 1e6, "p99_us": latencies[len(latencies) * 99 // 100] * 1e6}


def broker(directory: Path) -> KafkaBroker:
    classes = directory / "classes"
    source = Path(__file__).parent / "LabellingReporter.java"
    command = ["javac", "-Xlint:none", "-nowarn", "-cp", f"{kafka_jars(VERSION)}/*", "-d", str(classes), str(source)]
    subprocess.run(command, check=True)
    properties = {"metric.reporters": "LabellingReporter", "socket.listen.backlog.size": "4096"}
    return KafkaBroker(directory / "kafka", VERSION, jars=[classes], properties=properties, heap="1g", jvm=())


def measure(seconds: float, rounds: int, rate: int) -> dict[str, Any]:
    encoded = zstandard.ZstdCompressor().compress(payload(10, seed=1))
    parent, child = multiprocessing.Pipe()
    echo = multiprocessing.get_context("spawn").Process(target=serve_echo, args=(child,))
    echo.start()
    figures: dict[str, list[dict[str, float]]] = {NODE: [], BROKER: [], ECHO: []}
    refused: collections.Counter[str] = collections.Counter()
    config = '[client-metrics.bench]\nmetrics = "*"\ninterval.ms = 100\n'
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made, broker(Path(made)) as kafka:
            kafka.subscribe(interval_ms=100)
            with Node(Path(made), "push.log.retention.bytes=1073741824", config=config) as node:
                ports = {NODE: node.port, BROKER: kafka.port, ECHO: parent.recv()}
                for number in range(-1, rounds):  # the first one is the warm-up
                    for name in ports if number % 2 else reversed(ports):
                        is_echo = name == ECHO
                        full = uvloop.run(drive(ports[name], encoded, CONNECTIONS, 1, seconds, echo=is_echo))
                        fixed = uvloop.run(at_a_rate(ports[name], encoded, rate, seconds, echo=is_echo))
                        refused[name] += int(full["refused"])
                        if number >= 0:
                            figures[name].append({"per_second": full["per_second"], **fixed})
    finally:
        echo.terminate()
        echo.join()

    def ratio(figure: str, one: str, other: str) -> float:
        pairs = zip(figures[one], figures[other], strict=True)
        return round(statistics.median(a[figure] / b[figure] for a, b in pairs), 3)

    return {
        "kafka": VERSION,
        "connections": CONNECTIONS,
        "rate": rate,
        "answers_other_than_NONE": dict(refused),
        "figures": {
            name: [{k: round(v) for k, v in each.items()} for each in found] for name, found in figures.items()
        },
        "pushes_per_second_to_kafka": ratio("per_second", NODE, BROKER),
        "pushes_per_second_to_echo": ratio("per_second", NODE, ECHO),
        "p99_to_kafka": ratio("p99_us", NODE, BROKER),
        "p99_to_echo": ratio("p99_us", NODE, ECHO),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=4.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--rate", type=int, default=10_000)
    chosen = arguments.parse_args()
    result = measure(chosen.seconds, chosen.rounds, chosen.rate)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine, "load_after": os.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
