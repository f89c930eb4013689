"""An outage of the destination and a `kill -9` in the middle of it: a node beside the OpenTelemetry Collector.

    python benchmarks/exporters/bench_outage.py [--outage 60] [--rate 60] [--without-kill]

(needs Go, for the Collector)

Every peer takes so many pushes a second, each of them noted as acknowledged, refused or unanswered, and forwards them
by OTLP over gRPC to a receiver of its own. After 5 s all receivers are gone for `--outage` seconds; in the middle every
peer is killed with SIGKILL and started again. 5 s after the receivers' return the pushing ends, and what is still on
its way has a minute. Then what was acknowledged is compared with what arrived.

- `fleetgauge`: `fleetgauge serve` with its defaults and one `otlp` exporter.
- `collector`: the Collector with its default sending queue, in memory.
- `collector_storage`: the same with the queue in `file_storage`, and its default size of 1,000 requests.
- `collector_storage_large`: the same with a queue of 100,000 requests.

Prints one JSON object, with what was lost (acknowledged, never arrived), what arrived more than once, how long after
the receivers' return the last of the backlog was there, and the most memory that the peer took.
"""

import argparse
import json
import multiprocessing
import platform
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from concurrent import futures
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.clients.raw_client import RawClient
from support.programs.node import Node
from support.receivers.otel_collector import OtelCollector
from support.rss import rss_bytes

from fleetgauge.exporters.otlp.grpc_transport import EXPORT_METHOD

BEFORE_S: Final = 5.0
AFTER_S: Final = 5.0
DRAINED_WITHIN_S: Final = 60.0
ANSWER_WITHIN_S: Final = 5.0
PORT_WITHIN_S: Final = 10.0
SUBSCRIPTION: Final = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 100\n'


def payload(number: int) -> bytes:
    """One gauge whose value says which push it is."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="org.apache.kafka.bench.number")
    metric.gauge.data_points.add(as_int=number)
    return data.SerializeToString()


class Receiver(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs alone
    """Counts the pushes that arrive, by number."""

    def __init__(self) -> None:
        self.arrived: Counter[int] = Counter()
        self.last_s = 0.0

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]  # as above
        return grpc.unary_unary_rpc_method_handler(self._take)

    def _take(self, request: bytes, _context: grpc.ServicerContext) -> bytes:
        for resource in ExportMetricsServiceRequest.FromString(request).resource_metrics:
            for scope in resource.scope_metrics:
                self.arrived.update(int(metric.gauge.data_points[0].as_int) for metric in scope.metrics)
        self.last_s = time.monotonic()
        return b""


def receive(pipe: Connection) -> None:
    """A receiver in a process of its own: obeys `up`, `down` and `report`."""
    receiver, server, port = Receiver(), None, 0
    while True:
        command = pipe.recv()
        if command == "up":
            server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 64 << 20)])
            server.add_generic_rpc_handlers((receiver,))
            port = bind(server, port)
            server.start()
            pipe.send(port)
        elif command == "down" and server is not None:
            server.stop(0).wait()
            pipe.send(port)
        else:
            pipe.send((dict(receiver.arrived), receiver.last_s))


def bind(server: grpc.Server, port: int) -> int:
    """The port, which may be taken for a moment by a connection that just ended."""
    deadline = time.monotonic() + PORT_WITHIN_S
    while True:
        try:
            return server.add_insecure_port(f"127.0.0.1:{port}")
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Destination:
    """The process of a receiver."""

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
        self._process.start()
        self.port = self.say("up")

    def say(self, command: str) -> Any:
        self._pipe.send(command)
        return self._pipe.recv()

    def close(self) -> None:
        self._process.kill()
        self._process.join()


class Peer(ABC):
    """What takes pushes and forwards them; `take` is called from one thread, and `kill` from another."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def take(self, number: int) -> bool:
        """Whether the push was acknowledged; raises `OSError` or `grpc.RpcError` where no answer came."""

    @abstractmethod
    def pids(self) -> tuple[int, ...]: ...


class FleetgaugePeer(Peer):
    """A node with one OTLP exporter; every push is of a client of its own."""

    def __init__(self, directory: Path, destination: Destination) -> None:
        exporter = f'[exporters.otlp]\ntype = "otlp"\nendpoint = "http://127.0.0.1:{destination.port}"\n'
        self._node = Node(directory, config=SUBSCRIPTION + exporter)
        self._port = 0
        self._client: RawClient | None = None

    def start(self) -> None:
        self._node.start(self._port)
        self._port = self._node.port

    def kill(self) -> None:
        self._node.kill()

    def take(self, number: int) -> bool:
        try:
            if self._client is None:
                self._client = RawClient(self._port, timeout_s=ANSWER_WITHIN_S)
            subscription = self._client.get(uuid.uuid4())  # a client of its own for every push
            return self._client.push(subscription, payload(number)).error_code == 0
        except OSError:
            if self._client is not None:
                self._client.close()
            self._client = None
            raise

    def pids(self) -> tuple[int, ...]:
        assert self._node.process is not None
        pid = self._node.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return (pid, *map(int, children))


class QueueingCollector(OtelCollector):
    """A Collector that forwards by its `otlp_grpc` exporter, with a queue that may be kept in files."""

    def __init__(self, directory: Path, port: int, *, stored: bool, queue_size: int | None) -> None:
        storage = {"storage": "file_storage"} if stored else {}
        size = {} if queue_size is None else {"queue_size": queue_size}
        exporter = {
            "endpoint": f"127.0.0.1:{port}",
            "tls": {"insecure": True},
            "sending_queue": {"enabled": True, **size, **storage},
        }
        super().__init__(directory, exporter={"otlp_grpc": exporter})
        self._stored = stored

    def _config(self) -> dict[str, Any]:
        config = super()._config()
        if self._stored:
            files = self.directory / "queue"
            files.mkdir(exist_ok=True)
            config["extensions"] = {"file_storage": {"directory": str(files)}}
            config["service"]["extensions"] = ["file_storage"]
        return config


class CollectorPeer(Peer):
    """A Collector; every push is a call of its own."""

    def __init__(self, directory: Path, destination: Destination, **queue: Any) -> None:
        self._collector = QueueingCollector(directory, destination.port, **queue)
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{self._collector.grpc_port}",
            options=[("grpc.max_reconnect_backoff_ms", 500), ("grpc.use_local_subchannel_pool", 1)],
        )
        self._export = self._channel.unary_unary(EXPORT_METHOD, lambda data: data, lambda data: data)

    def start(self) -> None:
        self._collector.start()

    def kill(self) -> None:
        self._collector.kill()

    def take(self, number: int) -> bool:
        try:
            self._export(payload(number), timeout=ANSWER_WITHIN_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and "queue" not in (error.details() or ""):
                raise
            return False
        return True

    def pids(self) -> tuple[int, ...]:
        assert self._collector.process is not None
        return (self._collector.process.pid,)


class Run(threading.Thread):
    """Pushes to one peer at a rate, and notes the answers and the peer's memory."""

    def __init__(self, peer: Peer, destination: Destination, rate: float) -> None:
        super().__init__(daemon=True)
        self.peer = peer
        self.destination = destination
        self._period_s = 1 / rate
        self._ended = threading.Event()
        self._offered = self._refused = self._unanswered = 0
        self._acknowledged: set[int] = set()
        self._peak_bytes = 0

    def run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            number, self._offered = self._offered, self._offered + 1
            try:
                if self.peer.take(number):
                    self._acknowledged.add(number)
                else:
                    self._refused += 1
            except (OSError, grpc.RpcError):
                self._unanswered += 1
            with suppress(OSError, AssertionError):
                self._peak_bytes = max(self._peak_bytes, sum(map(rss_bytes, self.peer.pids())))
            due += self._period_s
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        self._ended.set()
        self.join()

    def missing(self) -> int:
        """Acknowledged pushes that have not arrived."""
        arrived, _ = self.destination.say("report")
        return len(self._acknowledged - arrived.keys())

    def result(self, back_s: float) -> dict[str, float]:
        arrived, last_s = self.destination.say("report")
        return {
            "offered": self._offered,
            "acknowledged": len(self._acknowledged),
            "refused": self._refused,
            "unanswered": self._unanswered,
            "lost": len(self._acknowledged - arrived.keys()),
            "arrived_more_than_once": sum(count > 1 for count in arrived.values()),
            "last_arrived_s_after_the_return": round(last_s - back_s, 1),
            "peak_MiB": round(self._peak_bytes / (1 << 20)),
        }


def measure(directory: Path, outage_s: float, rate: float, *, with_kill: bool) -> dict[str, dict[str, float]]:
    """Every peer at the same time, with the same outage."""
    with ExitStack() as stack:
        destinations = {name: Destination() for name in ("fleetgauge", *COLLECTORS)}
        for destination in destinations.values():
            stack.callback(destination.close)
        peers: dict[str, Peer] = {"fleetgauge": FleetgaugePeer(directory, destinations["fleetgauge"])}
        for name, queue in COLLECTORS.items():
            peers[name] = CollectorPeer(directory / name, destinations[name], **queue)
        for peer in peers.values():
            stack.callback(peer.kill)
            peer.start()
        runs = {name: Run(peer, destinations[name], rate) for name, peer in peers.items()}
        for run in runs.values():
            run.start()
        time.sleep(BEFORE_S)
        each(destinations, "down")
        time.sleep(outage_s / 2)
        if with_kill:
            for peer in peers.values():
                peer.kill()
                peer.start()
        time.sleep(outage_s / 2)
        each(destinations, "up")
        back_s = time.monotonic()
        time.sleep(AFTER_S)
        for run in runs.values():
            run.end()
        deadline = time.monotonic() + DRAINED_WITHIN_S
        while any(run.missing() for run in runs.values()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return {name: run.result(back_s) for name, run in runs.items()}


COLLECTORS: Final[dict[str, dict[str, Any]]] = {
    "collector": {"stored": False, "queue_size": None},
    "collector_storage": {"stored": True, "queue_size": None},
    "collector_storage_large": {"stored": True, "queue_size": 100_000},
}


def each(destinations: dict[str, Destination], command: str) -> None:
    for destination in destinations.values():
        destination.say(command)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--outage", type=float, default=60.0, help="seconds")
    arguments.add_argument("--rate", type=float, default=60.0, help="pushes a second to each peer")
    arguments.add_argument("--without-kill", action="store_true")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as made:
        results = measure(Path(made), chosen.outage, chosen.rate, with_kill=not chosen.without_kill)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    about = {"outage_s": chosen.outage, "rate": chosen.rate, "killed": not chosen.without_kill}
    print(
        json.dumps({**about, "results": results, "commit": commit.stdout.strip(), "python": platform.python_version()})
    )


if __name__ == "__main__":
    main()
