"""What a gateway costs: small requests a second of a core, added latency, memory, and Kafka's own producer test.

    python benchmarks/gateway/bench_passing.py [--pairs 1000] [--seconds 3] [--rounds 3] [--records 200000]
        [--offered 0 100] [--peers kroxylicious haproxy] [--attackers 1 4] [--attack-only]

The gateway is `fleetgauge gateway` as its own process. Small requests: 16 connections send Heartbeats of 60 B, each
when the last one is answered, through the gateway to an echo in this process; a core's rate is requests by the CPU time
of the gateway's process. Added latency: one connection sends Produce requests of 60 B and of 16 kB, a millisecond after
each answer, to an echo that waits for the whole request, directly and through the gateway in turns. Memory: growth of
its RSS by idle connections, each of which has asked once, by their number; and growth of its largest RSS by ten Produce
requests of 100 MB. Producer test: `kafka-producer-perf-test` (1 kB records, acks=all) to a real broker, directly and
through the gateway, alternated, at each of the rates `--offered` (MB/s; 0 for as fast as it can); `--records 0` leaves
it out. Attack: as many connections as `--attackers` send FindCoordinator with 99,000 keys to a real broker, each when
the last one is answered, while one connection sends Produce requests as above; directly
and through the gateway, alternated. Of the proxies, the CPU time and the largest resident memory so far are measured.

Kroxylicious does the same work in the same run: one virtual cluster, no filters, a JVM with a heap of 512 MiB that has
done each job once before it is measured, which is too little for its compiler in the producer test: its CPU time falls
from the first of the rates to the last. It decodes each Produce request, and holds it as a whole: those of 100 MB are
not given to it. Where HAProxy is installed, it does small requests, idle pairs and the producer test, as one thread
that passes bytes without reading them. `--peers` without a name leaves both out.

Prints one JSON object with medians of the rounds.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import kafka_jars
from support.brokers.kroxylicious import Kroxylicious
from support.gateway.gateway import GatewayBefore, make_topic
from support.ports import free_port, free_ports
from support.rss import rss_bytes

VERSION = "4.3.1"
CONNECTIONS = 16
LARGE_REQUESTS = 10
NO_ROWS = "gateway.traffic.interval.ms=0"
"""Where memory is measured: what writes them is loaded, and writes, at other times."""
PEERS = [*(["haproxy"] if shutil.which("haproxy") else []), "kroxylicious"]
_HEARTBEAT = (
    struct.pack(">hhih", 12, 4, 7, 6) + b"client\0" + b"\x06group" + b"\0\0\0\1" + b"\x13member-of-a-group-" + b"\0\0"
)
REQUEST = struct.pack(">i", len(_HEARTBEAT)) + _HEARTBEAT
RESPONSE = struct.pack(">iiBihB", 12, 7, 0, 0, 0, 0)
CORRELATION_ID = slice(8, 12)
"""Of a request, with its size before it. Kroxylicious gives requests ids of its own."""


_PARTITION = struct.pack(">ihqqq", 0, 0, 5, -1, 0) + b"\1\0\0"
_PRODUCED = b"\0\x02\x05perf\x02" + _PARTITION + b"\0" + struct.pack(">iB", 0, 0)
PRODUCED = struct.pack(">ii", 4 + len(_PRODUCED), 7) + _PRODUCED
WARM_UP = 50
KEYS = 99_000
"""Of a FindCoordinator request, which has 1.2 MB."""
COMPILED = 2_000
"""Round trips before those that are measured, after which a JVM has compiled what they need."""


def produce(batch: int) -> bytes:
    """A Produce request (version 9) with acks=1 and one batch of zeros, of this size."""
    head = struct.pack(">hhihbbhi", 0, 9, 7, 0, 0, 0, 1, 1_000)
    topic = b"\x02\x05perf\x02" + struct.pack(">i", 0) + varint(batch + 1) + bytes(batch) + b"\0\0"
    body = head + topic + b"\0"
    return struct.pack(">i", len(body)) + body


def varint(value: int) -> bytes:
    """An unsigned varint."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


class Echo(asyncio.Protocol):
    """The broker: answers the one request of `REQUEST`'s size that a connection sends at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(RESPONSE[:4] + data[CORRELATION_ID] + RESPONSE[8:])


class Client(asyncio.Protocol):
    """Sends the next request when the last one is answered, while `is_on`."""

    def __init__(self) -> None:
        self.answers = 0
        self.is_on = True
        self.answered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self.answers += len(data) // len(RESPONSE)
        if not self.answered.done():
            self.answered.set_result(None)
        if self.is_on:
            self.transport.write(REQUEST)


class WholeRequests(asyncio.Protocol):
    """A broker that answers each request of `size` bytes when it is there as a whole."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._correlation_id = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._taken:
            self._correlation_id = data[CORRELATION_ID]
        self._taken += len(data)
        if self._taken >= self._size:
            self._taken -= self._size
            self._transport.write(PRODUCED[:4] + self._correlation_id + PRODUCED[8:])


async def round_trips(port: int, request: bytes, count: int) -> list[float]:
    """How long each answer took [ms]; the first few are left out."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took = []
    for _ in range(count + WARM_UP):
        await asyncio.sleep(0.001)
        started = time.perf_counter()
        writer.write(request)
        await reader.readexactly(len(PRODUCED))
        took.append((time.perf_counter() - started) * 1e3)
    writer.close()
    return took[WARM_UP:]


async def latency(directory: Path, batch: int, rounds: int, has_kroxylicious: bool) -> dict[str, float]:
    """Median and 99th percentile of round trips of a Produce with a batch of this size [ms]."""
    request = produce(batch)
    server = await asyncio.get_running_loop().create_server(lambda: WholeRequests(len(request)), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ways = {"direct": port}
    with ExitStack() as running:
        ways["gateway"] = running.enter_context(GatewayBefore(directory, port, NO_ROWS)).port
        if has_kroxylicious:
            ways["kroxylicious"] = running.enter_context(kroxylicious(directory, port)).port
        found: dict[str, list[float]] = {way: [] for way in ways}
        for at in ways.values():
            await round_trips(at, request, COMPILED)
        for number in range(2 * rounds):
            for way in list(ways)[:: 1 if number % 2 else -1]:
                found[way] += await round_trips(ways[way], request, 500)
    server.close()
    return {
        f"{way}_round_trip_{name}_ms_of_{batch}_bytes": each[int(len(each) * share)]
        for way, all_of_it in found.items()
        for each in [sorted(all_of_it)]
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def cpu_s(pid: int) -> float:
    """User and system time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def small_requests(port: int, pid: int, seconds: float) -> dict[str, float]:
    """Requests a second, and by CPU second of the gateway."""
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    for client in clients:
        await client.answered
    before, cpu, started = sum(each.answers for each in clients), cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    answers, took = sum(each.answers for each in clients) - before, time.perf_counter() - started
    used = cpu_s(pid) - cpu
    for client in clients:
        client.is_on = False
        client.transport.close()
    return {"a_second": answers / took, "a_cpu_second": answers / used}


async def idle_pairs(port: int, pid: int, pairs: int) -> float:
    """Resident memory of one idle pair [B]."""
    loop = asyncio.get_running_loop()
    before = rss_bytes(pid)
    clients = []
    for _ in range(pairs):
        _, client = await loop.create_connection(Client, "127.0.0.1", port)
        client.is_on = False
        clients.append(client)
        await client.answered
    after = rss_bytes(pid)
    for client in clients:
        client.transport.close()
    return (after - before) / pairs


class Sink(asyncio.Protocol):
    """A broker that answers nothing, and counts."""

    taken = 0

    def data_received(self, data: bytes) -> None:
        Sink.taken += len(data)


async def large_requests(port: int, pid: int) -> dict[str, float]:
    """By how much ten requests of 100 MB raise the largest resident memory, after one of 1 MB [B], and MB by CPU
    second.
    """
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = struct.pack(">hhihbbhii", 0, 9, 7, 0, 0, 0, 0, 1_000, 0)  # acks=0
    chunk = bytes(1_000_000)
    before = sent = 0
    cpu = cpu_s(pid)
    for chunks in (1, *[100] * LARGE_REQUESTS):
        writer.write(struct.pack(">i", len(head) + chunks * len(chunk)) + head)
        for _ in range(chunks):
            writer.write(chunk)
            await writer.drain()
        sent += chunks * len(chunk)
        while Sink.taken < sent:
            await asyncio.sleep(0.01)
        before = before or largest_rss_bytes(pid)
    writer.close()
    return {
        "large_requests_bytes": largest_rss_bytes(pid) - before,
        "large_requests_mb_a_cpu_second": sent / 1e6 / (cpu_s(pid) - cpu),
    }


def largest_rss_bytes(pid: int) -> int:
    """The largest resident memory of a process so far [B]."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a proxy listens, and its process id."""

    port: int
    pid: int


@contextmanager
def proxy(command: list[str], port: int, log: Path) -> Iterator[Proxy]:
    """A proxy from when it listens."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"{command[0]} does not listen: {log.read_text()}"
                time.sleep(0.05)
            yield Proxy(port, process.pid)
        finally:
            process.terminate()


@contextmanager
def haproxy(directory: Path, broker_port: int, port: int = 0) -> Iterator[Proxy]:
    """HAProxy before a broker, as one thread."""
    port = port or free_port()
    configuration = directory / "haproxy.cfg"
    configuration.write_text(
        "global\n nbthread 1\n maxconn 2000\ndefaults\n mode tcp\n timeout connect 10s\n timeout client 1h\n"
        f" timeout server 1h\nlisten kafka\n bind 127.0.0.1:{port}\n server broker 127.0.0.1:{broker_port}\n"
    )
    with proxy(["haproxy", "-db", "-f", str(configuration)], port, directory / "haproxy.log") as running:
        yield running


@contextmanager
def kroxylicious(directory: Path, broker_port: int) -> Iterator[Proxy]:
    """Kroxylicious before a broker, which it reaches by a port of its own after the first Metadata."""
    with Kroxylicious(directory, broker_port, options=["-Xmx512m"]) as running:
        yield Proxy(running.port, running.pid)


async def echoed(
    directory: Path, port: int, pairs: int, seconds: float, rounds: int, peers: list[str]
) -> dict[str, float]:
    """Small requests and idle pairs before an echo, through each proxy."""
    figures: dict[str, float] = {}
    with ExitStack() as running:
        gateway = running.enter_context(GatewayBefore(directory / "echo", port, NO_ROWS))
        assert gateway.process is not None
        ways = {"gateway": Proxy(gateway.port, gateway.process.pid)}
        if "haproxy" in peers:
            ways["haproxy"] = running.enter_context(haproxy(directory, port))
        if "kroxylicious" in peers:
            ways["kroxylicious"] = running.enter_context(kroxylicious(directory, port))
        for way in ways.values():
            await small_requests(way.port, way.pid, seconds)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                found[name].append(await small_requests(way.port, way.pid, seconds))
        for name, runs in found.items():
            for key in runs[0]:
                figures[f"{name}_small_requests_{key}"] = statistics.median(each[key] for each in runs)
        for name, way in ways.items():
            figures[f"{name}_idle_pair_bytes"] = await idle_pairs(way.port, way.pid, pairs)
            figures[f"{name}_rss_after_idle_pairs_bytes"] = largest_rss_bytes(way.pid)
    return figures


def scripted(directory: Path, pairs: int, seconds: float, rounds: int, peers: list[str]) -> dict[str, float]:
    """The measures with the echo."""
    figures: dict[str, float] = {}

    async def measure() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "127.0.0.1", 0, backlog=1024)
        sink = await loop.create_server(Sink, "127.0.0.1", 0)
        port, sink_port = (each.sockets[0].getsockname()[1] for each in (server, sink))
        figures.update(await echoed(directory, port, pairs, seconds, rounds, peers))
        for batch in (23, 16_000):
            figures.update(await latency(directory / f"batch-{batch}", batch, rounds, "kroxylicious" in peers))
        with GatewayBefore(directory / "sink", sink_port, NO_ROWS) as gateway:
            assert gateway.process is not None
            figures.update(await large_requests(gateway.port, gateway.process.pid))
        server.close()
        sink.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure())
    return figures


def produced(bootstrap: str, records: int, offered_mb_s: float) -> dict[str, float]:
    """One run of Kafka's producer test: MB/s, mean, p50 and p99 latency [ms]."""
    throughput = round(offered_mb_s * 1_000) or -1
    printed = subprocess.run(
        [
            *("java", "-Xmx256m", "-cp", f"{kafka_jars(VERSION)}/*", "org.apache.kafka.tools.ProducerPerformance"),
            *("--topic", "perf", "--num-records", str(records), "--record-size", "1000"),
            *("--throughput", str(throughput)),
            *("--producer-props", f"bootstrap.servers={bootstrap}", "acks=all", "enable.metrics.push=false"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout.splitlines()[-1]
    found = re.search(r"([\d.]+) records/sec .* ([\d.]+) ms avg latency.* (\d+) ms 50th,.* (\d+) ms 99th", printed)
    assert found is not None, printed
    records_s, *latencies = map(float, found.groups())
    return dict(zip(("mb_s", "mean_ms", "p50_ms", "p99_ms"), (records_s / 1_000, *latencies), strict=True))


def producer_test(
    directory: Path, records: int, rounds: int, offered: list[float], peers: list[str]
) -> dict[str, float]:
    """Medians of runs, directly and through each proxy."""
    figures: dict[str, float] = {}
    own_port, proxied_port = free_ports(2)
    broker = KafkaBroker(directory / "kafka", VERSION, heap="1g", jvm=())
    advertise(broker, proxied_port, own_port)
    with broker, GatewayBefore(directory / "gateway", broker.port) as gateway, ExitStack() as running:
        make_topic(broker, gateway.bootstrap, "perf", 3)
        assert gateway.process is not None
        proxies = {"gateway": Proxy(gateway.port, gateway.process.pid)}
        if "haproxy" in peers:
            proxies["haproxy"] = running.enter_context(haproxy(directory, proxied_port, own_port))
        if "kroxylicious" in peers:
            proxies["kroxylicious"] = running.enter_context(kroxylicious(directory, broker.port))
        ways = {"direct": Proxy(broker.port, 0), **proxies}
        for way in ways.values():
            produced(f"127.0.0.1:{way.port}", records, 0)
        for rate in offered:
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
            for number in range(rounds):
                for name in list(ways)[:: 1 if number % 2 else -1]:
                    runs[name].append(_measured_run(ways[name], records, rate))
            for name, found in runs.items():
                for key in found[0]:
                    figure = f"{name}_{key}_at_{rate:.0f}" if rate else f"{name}_{key}"
                    figures[figure] = statistics.median(each[key] for each in found)
        for name, way in proxies.items():
            figures[f"{name}_rss_after_producers_bytes"] = largest_rss_bytes(way.pid)
    return figures


def _measured_run(way: Proxy, records: int, offered_mb_s: float) -> dict[str, float]:
    """A run of the producer test, and MB by CPU second of the proxy, if one is in the way."""
    before = cpu_s(way.pid) if way.pid else 0.0
    run = produced(f"127.0.0.1:{way.port}", records, offered_mb_s)
    if way.pid:
        run["cpu_s"] = cpu_s(way.pid) - before
        run["mb_a_cpu_second"] = records / 1_000 / run["cpu_s"]
    return run


def advertise(broker: KafkaBroker, behind: int, advertised: int) -> None:
    """Gives a broker that has not started a second listener, on the port `behind`, which names the port of a proxy."""
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port},"
        f"PROXIED://127.0.0.1:{behind}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port},PROXIED://127.0.0.1:{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
    }
    with (broker.directory / "server.properties").open("a") as properties:  # the last value of a key counts
        properties.writelines(f"{key}={value}\n" for key, value in listeners.items())


def find_coordinators() -> bytes:
    """A FindCoordinator request (version 4) of many groups."""
    keys = b"".join(b"\x0cgroup-%05d" % number for number in range(KEYS))
    body = struct.pack(">hhih", 10, 4, 7, -1) + b"\0" + b"\0" + varint(KEYS + 1) + keys + b"\0"
    return struct.pack(">i", len(body)) + body


def read_response(connection: socket.socket, buffer: bytearray) -> int:
    """Reads a response; returns its size, 0 at the end of the connection."""
    head = connection.recv(4, socket.MSG_WAITALL)
    left = size = struct.unpack(">i", head)[0] if len(head) == 4 else 0
    while left:
        read = connection.recv_into(buffer, min(left, len(buffer)))
        if not read:
            return 0
        left -= read
    return size


@contextmanager
def attack(port: int, attackers: int) -> Iterator[None]:
    """Requests with many keys on as many connections, which are answered once before this begins."""
    request = find_coordinators()
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(attackers)]
    are_on = threading.Barrier(attackers + 1)

    def ask(connection: socket.socket) -> None:
        buffer = bytearray(1 << 18)
        is_first = True
        with suppress(OSError):
            connection.sendall(request)
            while read_response(connection, buffer):
                if is_first:
                    are_on.wait()
                is_first = False
                connection.sendall(request)

    threads = [threading.Thread(target=ask, args=(each,)) for each in connections]
    for thread in threads:
        thread.start()
    are_on.wait(120)
    try:
        yield
    finally:
        for connection in connections:
            connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for connection in connections:
            connection.close()


def honest(port: int, seconds: float) -> list[float]:
    """Round trips of Produce requests [ms]."""
    request, buffer, took = produce(23), bytearray(1 << 12), []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(0.001)
            started = time.perf_counter()
            connection.sendall(request)
            read_response(connection, buffer)
            took.append((time.perf_counter() - started) * 1e3)
    return took


def attacked(directory: Path, seconds: float, rounds: int, attackers: list[int]) -> dict[str, float]:
    """Median and 99th percentile of Produce beside the attack [ms], and the load of the machine."""
    figures: dict[str, float] = {}
    broker = KafkaBroker(directory / "attacked", VERSION, heap="1g", jvm=())
    with broker, GatewayBefore(directory / "attacked-gateway", broker.port) as gateway:
        make_topic(broker, gateway.bootstrap, "perf", 1)
        ways = {"direct": broker.port, "gateway": gateway.port}
        for count in attackers:
            found: dict[str, list[float]] = {way: [] for way in ways}
            for number in range(2 * rounds):
                for way in list(ways)[:: 1 if number % 2 else -1]:
                    with attack(ways[way], count):
                        found[way] += honest(ways[way], seconds)
            for way, took in found.items():
                took.sort()
                for name, share in (("p50", 0.5), ("p99", 0.99)):
                    figures[f"{way}_produce_{name}_ms_beside_{count}_attackers"] = took[int(len(took) * share)]
        figures["load_average"] = os.getloadavg()[0]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--offered", type=float, nargs="*", default=[0.0, 100.0])
    parser.add_argument("--peers", nargs="*", choices=["haproxy", "kroxylicious"], default=PEERS)
    parser.add_argument("--attackers", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--attack-only", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        figures: dict[str, float] = {}
        if options.attackers:
            figures |= attacked(directory, options.seconds, options.rounds, options.attackers)
        if not options.attack_only:
            figures |= scripted(directory, options.pairs, options.seconds, options.rounds, options.peers)
        if options.records and not options.attack_only:
            figures |= producer_test(directory, options.records, options.rounds, options.offered, options.peers)
    print(json.dumps({"python": platform.python_version(), **{key: round(each, 3) for key, each in figures.items()}}))


if __name__ == "__main__":
    main()
