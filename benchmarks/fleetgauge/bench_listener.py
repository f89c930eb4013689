"""Pushes per second of one listener process, as a ratio to an echo of the same frames in the same run.

    python benchmarks/fleetgauge/bench_listener.py [--seconds 4] [--rounds 3] [--cases S:2000:1 J:100:1] [--workers 2]

A real `fleetgauge serve` (validation, sensors and push log on, its exporter process delivering to the landing zone)
and an echo server on the same kind of loop and Protocol, one after the other, are driven by one generator process
over loopback. Payloads are those of MEASURED: S is 1.4 kB and 10 points (zstd 0.4 kB), F is 102 kB and 700 points, J
the same points as the Java client sends them, one ResourceMetrics for each metric (198 kB).
Closed loop: `connections` x `pipelined` requests are under way at any time. An instance may push every 100 ms, so there
are enough instances that none comes too early; answers other than NONE are counted and must be 0 for a valid figure.
With `--workers` a node of so many listener processes is compared to one of a single process instead of the echo, in
turn and in the same run. The generator is one process: it takes a core of its own, and where the machine has no more
cores than workers, they share theirs with it. `workers_share` says how evenly the connections fell on them.

Beside the rates stands the CPU time that the listener process and the echo took for each frame: the rate that one core
allows, whatever else (generator, exporter process, neighbours) took of the machine's cores meanwhile. The modules of
another checkout are measured by starting this in another directory with PYTHONPATH set to it.

Prints one JSON object: every figure of every round, the medians, their ratios, commit, Python and CPU.
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop
import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.node import Node
from support.raw_client import ZSTD, get_request, parse_get, push_request

ANSWER_BYTES = 16
"""A PushTelemetry response: size 4, correlation id 4, tags 1, throttle time 4, error code 2, tags 1."""
INSTANCES = 16_000
POINTS = {"S": 10, "F": 700, "J": 700}
JAVA_RESOURCE = ("client_rack", "group_id")


def payload(points: int, seed: int, *, by_metric: bool = False) -> bytes:
    """`points` points, each of a metric of its own, random values; one resource in librdkafka's layout, or, as the Java
    client writes it, one for every metric, which repeats the resource's attributes.
    """
    chosen = random.Random(seed)
    data = MetricsData()
    for index in range(points):
        if by_metric or not index:
            resource = data.resource_metrics.add()
            for key in JAVA_RESOURCE if by_metric else ():
                resource.resource.attributes.add(key=key).value.string_value = f"{key}-of-an-application"
            scope = resource.scope_metrics.add()
            scope.scope.name = "rdkafka#producer-1"
        metric = scope.metrics.add(
            name=f"org.apache.kafka.producer.node.request.latency.{('avg', 'max')[index % 2]}",
            description="The average request latency in ms for a node.",
        )
        point = metric.gauge.data_points.add(as_double=chosen.uniform(0, 50))
        point.start_time_unix_nano = 1_750_000_000_000_000_000
        point.time_unix_nano = 1_750_000_001_000_000_000
        point.attributes.add(key="node.id").value.int_value = index // 2
    return data.SerializeToString()


class Generator(asyncio.Protocol):
    """One connection that keeps `pipelined` of its frames under way."""

    def __init__(self, frames: list[bytes], pipelined: int, answer_bytes: int | None) -> None:
        self._frames = itertools.cycle(frames)
        self._frame_bytes = len(frames[0])
        self._pipelined = pipelined
        self._answer_bytes = answer_bytes or self._frame_bytes
        self._left_over = 0
        self._check = answer_bytes is not None
        self._buffer = b""
        self.answered = 0
        self.refused = 0
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def begin(self) -> None:
        self._send(self._pipelined)

    def data_received(self, data: bytes) -> None:
        if self._check:
            data = self._buffer + data if self._buffer else data
            number = len(data) // ANSWER_BYTES
            self._buffer = data[number * ANSWER_BYTES :]
            codes = data[13 : number * ANSWER_BYTES : ANSWER_BYTES] + data[14 : number * ANSWER_BYTES : ANSWER_BYTES]
            self.refused += sum(map(bool, codes)) if any(codes) else 0
        else:
            self._left_over += len(data)
            number, self._left_over = divmod(self._left_over, self._answer_bytes)
        self.answered += number
        if not self.stopped:
            self._send(number)

    def _send(self, number: int) -> None:
        if number == 1:
            self._transport.write(next(self._frames))  # type: ignore[attr-defined]
        elif number:
            self._transport.write(b"".join(itertools.islice(self._frames, number)))  # type: ignore[attr-defined]


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(data)


def serve_echo(ready: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, backlog=4096)
        ready.send(server.sockets[0].getsockname()[1])
        await asyncio.sleep(600)

    uvloop.run(run())


async def subscribe(
    port: int, per_connection: list[list[uuid.UUID]]
) -> tuple[dict[uuid.UUID, int], asyncio.StreamWriter]:
    """Subscription id of every instance, and the connection that asked: the node remembers them while it is open."""
    found: dict[uuid.UUID, int] = {}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for group in chunks(list(itertools.chain(*per_connection)), 50):
        writer.write(b"".join(get_request(0, instance) for instance in group))
        for instance in group:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            found[instance] = parse_get((await reader.readexactly(size))[5:]).subscription_id
    return found, writer


def chunks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


async def drive(
    port: int, encoded: bytes, connections: int, pipelined: int, seconds: float, *, echo: bool, pid: int | None = None
) -> dict[str, float]:
    """Closed loop for `seconds` after half a second of warm-up; `pid` is the process at the other end."""
    per_connection = chunks([uuid.uuid4() for _ in range(INSTANCES)], INSTANCES // connections)[:connections]
    ids: dict[uuid.UUID, int] = {}
    asker = None
    if not echo:
        ids, asker = await subscribe(port, per_connection)
    loop = asyncio.get_running_loop()
    protocols = []
    for group in per_connection:
        frames = [push_request(0, i, ids.get(i, 0), encoded, compression_type=ZSTD) for i in group]
        if echo:
            frames = frames[:1]
        _, protocol = await loop.create_connection(
            functools.partial(Generator, frames, pipelined, None if echo else ANSWER_BYTES), "127.0.0.1", port
        )
        protocols.append(protocol)
    await asyncio.sleep(0.2)  # an instance's Get and its first push may be at the same millisecond
    for protocol in protocols:
        protocol.begin()
    await asyncio.sleep(0.5)
    before, started = sum(p.answered for p in protocols), time.perf_counter()
    refused_before = sum(p.refused for p in protocols)
    cpu_before = cpu_seconds(pid)
    await asyncio.sleep(seconds)
    cpu = cpu_seconds(pid) - cpu_before
    answered, took = sum(p.answered for p in protocols) - before, time.perf_counter() - started
    refused = sum(p.refused for p in protocols) - refused_before
    for protocol in protocols:
        protocol.stopped = True
    await asyncio.sleep(0.2)
    for protocol in protocols:
        protocol._transport.abort()  # type: ignore[attr-defined]
    if asker is not None:
        asker.close()
    return {"per_second": answered / took, "refused": refused, "cpu_us": cpu / max(answered, 1) * 1e6}


def cpu_seconds(pid: int | None) -> float:
    """CPU time that a process has taken so far [s]."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(case: str, connections: int, pipelined: int, seconds: float, rounds: int) -> dict[str, Any]:
    encoded = zstandard.ZstdCompressor().compress(payload(POINTS[case], seed=1, by_metric=case == "J"))
    parent, child = multiprocessing.Pipe()
    echo = multiprocessing.get_context("spawn").Process(target=serve_echo, args=(child,))
    echo.start()
    echo_port = parent.recv()
    figures: dict[str, list[float]] = {"fleetgauge": [], "echo": []}
    cpu: dict[str, list[float]] = {"fleetgauge": [], "echo": []}
    refused = 0.0
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:  # its exporters may still finish
            config = '[client-metrics.bench]\nmetrics = "*"\ninterval.ms = 100\n'
            with Node(Path(directory), "push.log.retention.bytes=1073741824", config=config) as node:
                assert node.process is not None
                load = (encoded, connections, pipelined, seconds)
                for _ in range(rounds):
                    one = uvloop.run(drive(node.port, *load, echo=False, pid=node.process.pid))
                    other = uvloop.run(drive(echo_port, *load, echo=True, pid=echo.pid))
                    refused += one["refused"]
                    for name, found in (("fleetgauge", one), ("echo", other)):
                        figures[name].append(found["per_second"])
                        cpu[name].append(found["cpu_us"])
    finally:
        echo.terminate()
        echo.join()
    ratios = [ours / theirs for ours, theirs in zip(figures["fleetgauge"], figures["echo"], strict=True)]
    return {
        "case": case,
        "connections": connections,
        "pipelined": pipelined,
        "payload_bytes": len(encoded),
        "pushes_per_second": [round(figure) for figure in figures["fleetgauge"]],
        "echoes_per_second": [round(figure) for figure in figures["echo"]],
        "median_pushes_per_second": round(statistics.median(figures["fleetgauge"])),
        "median_ratio_to_echo": round(statistics.median(ratios), 3),
        "cpu_us_a_push": round(statistics.median(cpu["fleetgauge"]), 1),
        "cpu_us_an_echo": round(statistics.median(cpu["echo"]), 1),
        "median_cpu_of_an_echo_to_a_push": round(
            statistics.median(theirs / ours for ours, theirs in zip(cpu["fleetgauge"], cpu["echo"], strict=True)), 3
        ),
        "answers_other_than_NONE": int(refused),
    }


def measure_workers(
    case: str, connections: int, pipelined: int, seconds: float, rounds: int, workers: int
) -> dict[str, Any]:
    encoded = zstandard.ZstdCompressor().compress(payload(POINTS[case], seed=1, by_metric=case == "J"))
    figures: dict[int, list[float]] = {1: [], workers: []}
    refused = 0.0
    config = '[client-metrics.bench]\nmetrics = "*"\ninterval.ms = 100\n'
    options = ("push.log.retention.bytes=1073741824", "telemetry.client.instances.max=65536")
    with contextlib.ExitStack() as stack:
        nodes = {}
        for number in figures:
            directory = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            nodes[number] = stack.enter_context(Node(Path(directory), f"workers={number}", *options, config=config))
        for _ in range(rounds):
            for number, node in nodes.items():
                one = uvloop.run(drive(node.port, encoded, connections, pipelined, seconds, echo=False))
                figures[number].append(one["per_second"])
                refused += one["refused"]
        share = [worker["logged"] for worker in nodes[workers].status()["workers"]]
    ratios = [many / single for single, many in zip(figures[1], figures[workers], strict=True)]
    return {
        "case": case,
        "connections": connections,
        "pipelined": pipelined,
        "payload_bytes": len(encoded),
        "pushes_per_second_of_1_worker": [round(figure) for figure in figures[1]],
        f"pushes_per_second_of_{workers}_workers": [round(figure) for figure in figures[workers]],
        "workers_share": [round(logged / sum(share), 2) for logged in share],
        "median_ratio_to_1_worker": round(statistics.median(ratios), 2),
        "answers_other_than_NONE": int(refused),
    }


def split(case: str) -> list[str]:
    """Payload, connections and frames under way on each, as in `S:2000:1`."""
    return case.split(":")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=4.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cases", nargs="+", default=["S:100:1", "S:2000:1", "S:100:8", "F:100:1", "J:100:1"])
    arguments.add_argument("--workers", type=int, default=1)
    chosen = arguments.parse_args()
    cases = [(kind, int(connections), int(pipelined)) for kind, connections, pipelined in map(split, chosen.cases)]
    if chosen.workers > 1:
        results = [measure_workers(*case, chosen.seconds, chosen.rounds, chosen.workers) for case in cases]
    else:
        results = [measure(*case, chosen.seconds, chosen.rounds) for case in cases]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(
        json.dumps(
            {
                "results": results,
                "commit": commit.stdout.strip(),
                "python": platform.python_version(),
                "cpus": os.cpu_count(),
                "machine": platform.machine(),
                "load_before": os.getloadavg(),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
