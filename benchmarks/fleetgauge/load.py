"""Load for a listener, from one process over loopback: as fast as it answers, or so many pushes a second. The echo
beside it, and how a run begins, tells what it found so far, and ends.

Payloads are those of docs/reference/performance.md: S is 1.4 kB and 10 points (zstd 0.4 kB), F is 102 kB and 700
points, J the same points as the Java client sends them, one ResourceMetrics for each metric (198 kB).
"""

import asyncio
import collections
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import platform
import random
import signal
import statistics
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow.compute
import pyarrow.parquet
import uvloop
import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.clients.raw_client import ZSTD, get_request, parse_get, push_request
from support.programs.node import Node

ANSWER_BYTES = 16
"""A PushTelemetry response: size 4, correlation id 4, tags 1, throttle time 4, error code 2, tags 1."""
INSTANCES = 4_000
"""Of a target. Each may push every 100 ms: enough for 40,000 pushes a second."""
POINTS = {"S": 10, "F": 700, "J": 700}
RECORDED = Path(__file__).parents[2] / "tests/spark/recorded/broker/date=2026-11-21/hour=22/recorded-2.parquet"
JAVA_RESOURCE = ("client_rack", "group_id")
SUBSCRIPTION = '"telemetry.max.byte.rate.per.ip" = 0\n[client-metrics.bench]\nmetrics = "*"\ninterval.ms = 100\n'
SUSTAINED = 0.97
"""A rate is sustained when that part of it was sent, and that part of what was sent answered before the end."""
LAST_ANSWERS_WITHIN_S = 5.0

Figures = dict[str, float]


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


def payload_of(kind: str) -> bytes:
    """S, F or J, made by `payload`; or C, what a Java consumer pushed to a broker: 168 points (36 kB)."""
    if kind == "C":
        wanted = pyarrow.compute.field("client_id") == "java-4.4.0-consumer"
        pushes = pyarrow.parquet.read_table(RECORDED, columns=["metrics"], filters=wanted, partitioning=None)
        return max((bytes(metrics or b"") for metrics in pushes.column("metrics").to_pylist()), key=len)
    return payload(POINTS[kind], seed=1, by_metric=kind == "J")


def encoded_payload(kind: str) -> bytes:
    """S, F, J or C, compressed."""
    return zstandard.ZstdCompressor().compress(payload_of(kind))


def chunks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


class Peer(asyncio.Protocol):
    """One connection. In the closed loop every answer is followed by the next frame."""

    def __init__(self, frames: list[bytes], answer_bytes: int, *, checked: bool) -> None:
        self._frames = itertools.cycle(frames)
        self._answer_bytes = answer_bytes
        self._checked = checked
        self._buffer = b""
        self._received = 0
        self._sent: collections.deque[float] = collections.deque()
        self.latencies: list[float] | None = None
        self.goes_on = False
        self.under_way = 0
        self.answered = 0
        self.refused = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def send(self, number: int) -> None:
        self.under_way += number
        self.transport.write(next(self._frames) if number == 1 else b"".join(itertools.islice(self._frames, number)))

    def send_timed(self) -> None:
        self._sent.append(time.perf_counter())
        self.send(1)

    def data_received(self, data: bytes) -> None:
        number = self._count_checked(data) if self._checked else self._count(data)
        self.answered += number
        self.under_way -= number
        if self.goes_on:
            if number:
                self.send(number)
        elif self.latencies is not None:
            now = time.perf_counter()
            for _ in range(min(number, len(self._sent))):
                self.latencies.append(now - self._sent.popleft())

    def forget(self) -> None:
        """What was not answered in time is no longer waited for."""
        self._sent.clear()

    def _count(self, data: bytes) -> int:
        number, self._received = divmod(self._received + len(data), self._answer_bytes)
        return number

    def _count_checked(self, data: bytes) -> int:
        data = self._buffer + data if self._buffer else data
        number = len(data) // ANSWER_BYTES
        self._buffer = data[number * ANSWER_BYTES :]
        codes = data[13 : number * ANSWER_BYTES : ANSWER_BYTES] + data[14 : number * ANSWER_BYTES : ANSWER_BYTES]
        self.refused += sum(map(bool, codes)) if any(codes) else 0
        return number


class Load:
    """The connections to one target: a node, a broker, or the echo. They stay open between rounds.

    Args:
        name: in what is printed.
        port: of 127.0.0.1.
        encoded: the payload of each push.
        connections: how many.
        echo: it answers with what it gets.
        pids: the processes whose CPU time counts.
        instances: how many push in turn, over all connections.
    """

    def __init__(
        self,
        name: str,
        port: int,
        encoded: bytes,
        connections: int,
        *,
        echo: bool = False,
        pids: Iterable[int] = (),
        instances: int = INSTANCES,
    ) -> None:
        self._instances = instances
        self.name = name
        self._port = port
        self._encoded = encoded
        self._connections = connections
        self._echo = echo
        self._pids = tuple(pids)
        self._asker: asyncio.StreamWriter | None = None
        self._peers: list[Peer] = []

    async def open(self) -> None:
        groups = chunks([uuid.uuid4() for _ in range(self._instances)], self._instances // self._connections)
        ids = {} if self._echo else await self._subscribe(list(itertools.chain(*groups)))
        loop = asyncio.get_running_loop()
        for group in groups[: self._connections]:
            frames = [push_request(0, each, ids.get(each, 0), self._encoded, compression_type=ZSTD) for each in group]
            answer_bytes = len(frames[0]) if self._echo else ANSWER_BYTES
            made = functools.partial(Peer, frames, answer_bytes, checked=not self._echo)
            _, peer = await loop.create_connection(made, "127.0.0.1", self._port)
            self._peers.append(peer)
        await asyncio.sleep(0.2)  # an instance's Get and its first push may be at the same millisecond

    async def closed_loop(self, pipelined: int, seconds: float) -> Figures:
        """As fast as it answers, with so many under way on each connection."""
        for peer in self._peers:
            peer.goes_on = True
            peer.send(pipelined - peer.under_way)
        await asyncio.sleep(min(0.5, seconds / 2))
        answered, refused, cpu, started = (
            self._answered(),
            self._refused(),
            cpu_seconds(self._pids),
            time.perf_counter(),
        )
        await asyncio.sleep(seconds)
        number, took = self._answered() - answered, time.perf_counter() - started
        figures = {
            "per_second": number / took,
            "cpu_us": (cpu_seconds(self._pids) - cpu) / max(number, 1) * 1e6,
            "refused": self._refused() - refused,
        }
        await self._quiet()
        return figures

    async def open_loop(self, rate: int, seconds: float) -> Figures:
        """`rate` pushes a second, whatever it answers, round the connections; microseconds until the answer."""
        latencies: list[float] = []
        for peer in self._peers:
            peer.latencies = latencies
        turn = itertools.cycle(self._peers)
        started, sent, refused, cpu = time.perf_counter(), 0, self._refused(), cpu_seconds(self._pids)
        while (passed := time.perf_counter() - started) < seconds:
            for _ in range(min(int(passed * rate) - sent, rate // 10 + 1)):
                next(turn).send_timed()
                sent += 1
            await asyncio.sleep(0.0005)
        in_time = len(latencies)
        await self._quiet()  # the late ones are what the percentiles are about
        never = sum(peer.under_way for peer in self._peers)
        latencies.sort()
        for peer in self._peers:
            peer.latencies = None
            peer.forget()
        return {
            "p50_us": latencies[len(latencies) // 2] * 1e6 if latencies else float("inf"),
            "p99_us": latencies[len(latencies) * 99 // 100] * 1e6 if latencies else float("inf"),
            "per_second": in_time / seconds,
            "cpu_us": (cpu_seconds(self._pids) - cpu) / max(sent, 1) * 1e6,
            "sustained": not never and in_time >= SUSTAINED * sent and sent >= SUSTAINED * rate * seconds,
            "refused": self._refused() - refused,
        }

    def close(self) -> None:
        for peer in self._peers:
            peer.transport.abort()
        if self._asker is not None:
            self._asker.close()

    async def _subscribe(self, instances: list[uuid.UUID]) -> dict[uuid.UUID, int]:
        """Subscription id of every instance; the target remembers them while the connection that asked is open."""
        found: dict[uuid.UUID, int] = {}
        reader, self._asker = await asyncio.open_connection("127.0.0.1", self._port)
        for group in chunks(instances, 50):
            self._asker.write(b"".join(get_request(0, instance) for instance in group))
            for instance in group:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                found[instance] = parse_get((await reader.readexactly(size))[5:]).subscription_id
        return found

    async def _quiet(self) -> None:
        for peer in self._peers:
            peer.goes_on = False
        last = time.perf_counter() + LAST_ANSWERS_WITHIN_S
        while any(peer.under_way for peer in self._peers) and time.perf_counter() < last:
            await asyncio.sleep(0.02)

    def _answered(self) -> int:
        return sum(peer.answered for peer in self._peers)

    def _refused(self) -> int:
        return sum(peer.refused for peer in self._peers)


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that processes have taken so far [s]."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def listener_pids(node: Node) -> list[int]:
    """The process ids of a node's listeners: of its workers, or its own."""
    assert node.process is not None
    return [each["pid"] for each in node.status().get("workers", [])] or [node.process.pid]


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(data)


def _serve_echo(ready: Connection) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Echo, "127.0.0.1", 0, backlog=4096)
        ready.send(server.sockets[0].getsockname()[1])
        parent_is_gone = asyncio.Event()
        loop.add_reader(ready.fileno(), parent_is_gone.set)
        await parent_is_gone.wait()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(run())


@contextlib.contextmanager
def echo_server() -> Iterator[tuple[int, int]]:
    """Port and process id of an echo on a loop and a Protocol like the node's; it ends with this process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve_echo, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        assert process.pid is not None
        yield ours.recv(), process.pid
    finally:
        process.terminate()
        process.join()


class Deadline:
    """When a run is to be over, so that what it started is stopped and what it found is told."""

    def __init__(self, within_s: float) -> None:
        self._ends = time.monotonic() + within_s

    def allows(self, seconds: float) -> bool:
        return time.monotonic() + seconds < self._ends


class Board:
    """Tells every figure when it is there, and all of them in the end.

    Attributes:
        figures: by what was measured (`closed`, `500/s`), then by target, a figure of each round.
    """

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, list[Figures]]] = {}
        self._started = time.monotonic()

    def add(self, what: str, target: str, found: Figures, *, warm_up: bool = False) -> None:
        told = "  ".join(f"{name} {value:,.0f}" for name, value in found.items() if name != "sustained")
        late = "" if found.get("sustained", True) else "  not sustained"
        passed = time.monotonic() - self._started
        print(
            f"{passed:5.0f} s  {what:>14}  {target:<12} {told}{late}{'  (warm-up)' if warm_up else ''}", file=sys.stderr
        )
        if not warm_up:
            self.figures.setdefault(what, {}).setdefault(target, []).append(found)

    def medians(self) -> dict[str, dict[str, Figures]]:
        return {
            what: {
                name: {key: _middle(each[key] for each in rounds) for key in rounds[0]} for name, rounds in by.items()
            }
            for what, by in self.figures.items()
        }

    def ratio(self, what: str, figure: str, one: str, other: str) -> float | None:
        """The median of one's figure to the other's in the same round; None where either is missing."""
        by = self.figures.get(what, {})
        pairs = list(zip(by.get(one, ()), by.get(other, ()), strict=False))
        return round(statistics.median(a[figure] / b[figure] for a, b in pairs), 3) if pairs else None


def _middle(values: Iterator[float]) -> float:
    return round(statistics.median(values), 1)


def run(measure: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Runs to the end, or to SIGTERM, SIGHUP or SIGINT; True for the end. Either way the callers' blocks are left."""

    async def until_stopped() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await measure()

    try:
        uvloop.run(until_stopped())
    except asyncio.CancelledError:
        return False
    return True


def stop_in_order() -> None:
    """From now on a signal that ends this process leaves its blocks, and so stops what it started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def tell(result: dict[str, Any]) -> None:
    """Prints the JSON object, with the commit and the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine, "load_after": os.getloadavg()}, indent=2))
