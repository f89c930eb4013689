"""What a push costs inside the listener process, without sockets, by stage, beside the least that it could cost.

    python benchmarks/fleetgauge/bench_push_path.py [--rounds 15] [--batch 16] [--payload S] [--against DIRECTORY]

The real channel, codec, manager, sensors, push log and responses; only the transport and the loop are stand-ins, which
count bytes and keep calls. `--batch` connections have a push each in every iteration of the loop, of 2,000 connections
with 8 instances each, so that a commit takes so many rows. Beside it, with the same frames in the same slices of time,
the floor: decompress (zstd), `MetricsData.FromString` and one row in a commit of as many, and nothing else. S, F, J
and C are the payloads of docs/reference/performance.md: J has one ResourceMetrics for each metric, as the Java client
writes it.

Every figure is process CPU time [us a push], the median of rounds that take turns; `stages` are measured apart, each by
itself. `--against` runs the same in a process of its own on another checkout, turn by turn with this one.
Prints one JSON object.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path += [str(Path(__file__).parents[2] / "tests"), str(Path(__file__).parents[2])]  # behind PYTHONPATH: `--against`
from support.accepted import accepted
from support.clients.raw_client import ZSTD, get_request, parse_get, push_request

from benchmarks.fleetgauge.load import encoded_payload

CONNECTIONS: Final = 8_000
INSTANCES_EACH: Final = 2
PUSHES: Final = {"S": 8_000, "F": 1_000, "J": 200, "C": 500}
"""A round has so many."""


class Loop:
    """Keeps what the channels and the log want called, and calls it once an iteration."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._calls.append((call, arguments))

    def call_later(self, _delay: float, _call: Callable[..., Any], *_arguments: Any) -> Any:
        return self

    def cancel(self) -> None:
        pass

    def turn(self) -> None:
        while self._calls:
            calls, self._calls = self._calls, []
            for call, arguments in calls:
                call(*arguments)


class Transport:
    """Counts what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def is_reading(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass


class Listener:
    """Everything of a node that a push passes, over a log in `directory`."""

    def __init__(self, directory: Path, encoded: bytes) -> None:
        from fleetgauge.base.clock import SystemTime
        from fleetgauge.node.authorizer.settings import AuthorizationSettings
        from fleetgauge.node.listener.apis.admin import AdminApis
        from fleetgauge.node.listener.apis.cluster import ClusterApis
        from fleetgauge.node.listener.apis.subscriptions import SubscriptionsHandler
        from fleetgauge.node.listener.dispatcher import RequestDispatcher
        from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
        from fleetgauge.node.listener.push import PushHandler
        from fleetgauge.node.listener.request_quota import RequestQuota
        from fleetgauge.node.state.authorization import Authorization
        from fleetgauge.push_log.embedded.settings import PushLogSettings
        from fleetgauge.push_log.embedded.writer import SqlitePushLogWriter
        from fleetgauge.push_log.loop_commit import LoopCommit
        from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
        from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager
        from fleetgauge.quotas.identities import Identities
        from fleetgauge.quotas.metrics.metrics import Metrics
        from fleetgauge.telemetry.manager import ClientMetricsManager
        from fleetgauge.telemetry.push_record import PushIds
        from fleetgauge.telemetry.settings import ClientMetricsSettings
        from fleetgauge.wire.api_table import ApiTable
        from fleetgauge.wire.channels.tcp_channel import TcpChannel
        from fleetgauge.wire.context.listener_context import ListenerContext
        from fleetgauge.wire.context.listener_counters import ListenerCounters
        from fleetgauge.wire.context.listener_settings import ListenerSettings

        clock, metrics, table = SystemTime(), Metrics(time=SystemTime()), ApiTable()
        self._loop = Loop()
        loop = cast(asyncio.AbstractEventLoop, self._loop)
        self.manager = ClientMetricsManager(
            ClientMetricsSettings(),
            node_id=1,
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            metrics=metrics,
            push_ids=PushIds(),
        )
        self.manager.subscriptions.update("bench", {"metrics": "*", "interval.ms": "100"})
        self._writer = SqlitePushLogWriter(PushLogSettings(dir=directory, min_free_bytes=0), clock)
        log = LoopCommit(self._writer, loop, clock)
        manager = ClientRequestQuotaManager(ClientQuotaManagerConfig(), metrics, clock)
        quota = RequestQuota(manager, Identities(), table, clock)
        authorization = Authorization(AuthorizationSettings(), clock)
        self.pushes = PushHandler(self.manager, log, authorization, clock, quota, plugin_export_timeout_ms=1_000)
        misdirected = MisdirectedClients(clock)
        cluster = ClusterApis(1, "c", lambda _: ("h", 1), authorization, misdirected)
        subscriptions = SubscriptionsHandler(self.manager, authorization, clock)
        admin = AdminApis(cast(Any, None), {}, authorization, (), quota, clock)
        handler = RequestDispatcher(
            table, cluster, subscriptions, self.pushes, admin, self.manager.instances, misdirected, quota, clock
        )
        context = ListenerContext(
            listener_name="PLAINTEXT",
            handler=handler,
            api_table=table,
            settings=ListenerSettings(),
            time=clock,
            loop=loop,
            counters=ListenerCounters(),
        )
        self.frames: list[list[bytes]] = []
        self.channels = []
        self.transports = []
        for number in range(CONNECTIONS):
            channel = TcpChannel(accepted(context, client=("127.0.0.1", 10_000 + number), index=number))
            transport: Any = Transport()
            channel.connection_made(transport)
            frames = []
            for _ in range(INSTANCES_EACH):
                instance = uuid.uuid4()
                channel.data_received(get_request(7, instance, "billing-service-producer"))
                answer = parse_get(transport.written.pop()[9:])
                frames.append(
                    push_request(
                        8,
                        instance,
                        answer.subscription_id,
                        encoded,
                        compression_type=ZSTD,
                        client_id="billing-service-producer",
                    )
                )
            self.frames.append(frames)
            self.channels.append(channel)
            self.transports.append(transport)

    def run(self, batches: Iterator[list[tuple[int, int]]]) -> None:
        channels, frames, loop = self.channels, self.frames, self._loop
        for batch in batches:
            for connection, instance in batch:
                channels[connection].data_received(frames[connection][instance])
            loop.turn()

    def answered(self) -> int:
        """How many were answered NONE since the last call; any other answer is an error."""
        answers = [answer for transport in self.transports for answer in transport.written]
        for transport in self.transports:
            transport.written.clear()
        assert set(self.pushes.answers) <= {"NONE"}, self.pushes.answers
        return len(answers)

    def close(self) -> None:
        self._writer.close()


class Floor:
    """Decompress, parse, one row in a commit."""

    def __init__(self, directory: Path, encoded: bytes) -> None:
        import apsw

        from fleetgauge.push_log.embedded.segment import INSERT

        self._connection = apsw.Connection(str(directory / "floor.sqlite"))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        columns = INSERT.count("?")
        self._connection.execute(
            f"CREATE TABLE pushes (row INTEGER PRIMARY KEY{', c' + ', c'.join(map(str, range(columns - 1)))})"
        )
        self._insert = INSERT
        context = ["0" * 32, 1_750_000_000_000_000, 1, "MkU3OEVBNTcwNTJENDM2Qg", "PLAINTEXT", "A" * 22]
        context += ["billing-service-producer", "unknown", "unknown", "127.0.0.1", 10_000, "User:ANONYMOUS"]
        context += [1_234_567_890, 100, False, "zstd", len(encoded), 1]
        self._context = context
        self._encoded = encoded
        self._row = 0
        self._decompress = zstandard.ZstdDecompressor().decompress

    def run(self, batches: Iterator[list[tuple[int, int]]]) -> None:
        execute, insert, context, encoded = self._connection.execute, self._insert, self._context, self._encoded
        cursor = self._connection.cursor()
        for batch in batches:
            rows = []
            for _ in batch:
                metrics = self._decompress(encoded)
                MetricsData.FromString(metrics)
                self._row += 1
                rows.append((self._row, *context, encoded, "zstd", len(metrics), self._row))
            execute("BEGIN IMMEDIATE")
            cursor.executemany(insert, rows)
            execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Stages:
    """The parts of the way that can be run by themselves."""

    def __init__(self, frames: list[list[bytes]], encoded: bytes) -> None:
        from fleetgauge.telemetry.codecs import CompressionType, decompressors
        from fleetgauge.telemetry.validate import validate_metrics
        from fleetgauge.wire.api_table import ApiTable
        from fleetgauge.wire.messages.codec import parse_request
        from fleetgauge.wire.messages.frames import FrameDecoder

        decoder = FrameDecoder(1 << 24)
        table = ApiTable()
        decompress = decompressors(1 << 24)[CompressionType.ZSTD]
        metrics = decompress(encoded)
        chosen = [frame for group in frames for frame in group[:1]]
        cut = [frame[4:] for frame in chosen]
        self._runs: dict[str, tuple[Callable[..., Any], list[bytes]]] = {
            "frame": (decoder.receive, chosen),
            "parse request": (lambda frame: parse_request(frame, table), cut),
            "decompress": (decompress, [encoded]),
            "validate": (validate_metrics, [metrics]),
        }

    def run(self, name: str, pushes: int) -> float:
        call, items = self._runs[name]
        started = time.process_time()
        for item in itertools.islice(itertools.cycle(items), pushes):
            call(item)
        return (time.process_time() - started) / pushes * 1e6

    def all(self, pushes: int) -> dict[str, float]:
        return {name: self.run(name, pushes) for name in self._runs}


def batches(start: int, pushes: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """Connection and instance of each push; no instance comes twice before all others came."""
    numbers = itertools.islice(itertools.count(start), pushes)
    places = ((number % CONNECTIONS, number // CONNECTIONS % INSTANCES_EACH) for number in numbers)
    while batch := list(itertools.islice(places, size)):
        yield batch


def work(kind: str, size: int) -> None:
    """Measures one round for each line of the input."""
    from fleetgauge.node.logs import configure_logging

    configure_logging("warning", "human")  # on standard error; standard output has the figures
    encoded = encoded_payload(kind)
    pushes = PUSHES[kind]
    with tempfile.TemporaryDirectory() as made:
        floor = Floor(Path(made), encoded)
        listener = Listener(Path(made) / "log", encoded)
        stages = Stages(listener.frames, encoded)
        time.sleep(0.2)  # an instance's Get and its first push may be at the same millisecond
        gc.collect()
        gc.freeze()
        at = 0
        print("ready", flush=True)
        for _ in sys.stdin:
            took = {"push": 0.0, "floor": 0.0}
            for _ in range(4):  # turn by turn, so that a change of the machine's speed meets both
                took["push"] += timed(listener.run, at, pushes // 4, size)
                took["floor"] += timed(floor.run, at, pushes // 4, size)
                at += pushes // 4
            answered = listener.answered()
            assert answered == pushes, answered
            figures = {name: seconds / pushes * 1e6 for name, seconds in took.items()}
            print(json.dumps({**figures, "stages": stages.all(pushes)}), flush=True)
        listener.close()
        floor.close()


def timed(run: Callable[[Iterator[list[tuple[int, int]]]], None], start: int, pushes: int, size: int) -> float:
    """CPU time of this process [s]."""
    ways = list(batches(start, pushes, size))
    started = time.process_time()
    run(iter(ways))
    return time.process_time() - started


class Worker:
    """This file, or the copy of it in the checkout `directory`, in a process of its own on that checkout."""

    def __init__(self, directory: Path, kind: str, size: int) -> None:
        here = Path(__file__).resolve()
        file = directory / here.relative_to(here.parents[2])
        command = [
            sys.executable,
            str(file if file.exists() else here),
            "--work",
            "--payload",
            kind,
            "--batch",
            str(size),
        ]
        environment = {**os.environ, "PYTHONPATH": str(directory)}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()
        self.rounds: list[dict[str, Any]] = []

    def round(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.rounds.append(json.loads(self._line()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def figures(self) -> dict[str, Any]:
        rounds = self.rounds
        found: dict[str, Any] = {name: middle(each[name] for each in rounds) for name in ("push", "floor")}
        found["push_to_floor"] = middle(each["push"] / each["floor"] for each in rounds)
        found["stages"] = {name: middle(each["stages"][name] for each in rounds) for name in rounds[0]["stages"]}
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker ended"
        return line


def middle(values: Iterator[float]) -> float:
    return round(statistics.median(values), 2)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--payload", choices=sorted(PUSHES), default="S")
    arguments.add_argument("--against", type=Path)
    arguments.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.work:
        work(chosen.payload, chosen.batch)
        return
    here = Path(__file__).resolve().parents[2]
    directories = {"here": here, **({"against": chosen.against.resolve()} if chosen.against else {})}
    workers = {name: Worker(directory, chosen.payload, chosen.batch) for name, directory in directories.items()}
    for number in range(chosen.rounds + 1):
        for name in workers if number % 2 else reversed(workers):
            workers[name].round()
    result: dict[str, Any] = {"unit": "us of CPU a push", "payload": chosen.payload, "batch": chosen.batch}
    for name, worker in workers.items():
        worker.close()
        del worker.rounds[0]  # the warm-up
        result[name] = worker.figures()
    if chosen.against:
        pairs = zip(workers["here"].rounds, workers["against"].rounds, strict=True)
        result["push_here_to_against"] = middle(one["push"] / other["push"] for one, other in pairs)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = {"commit": commit.stdout.strip(), "python": platform.python_version(), "cpus": os.cpu_count()}
    print(json.dumps({**result, **machine}, indent=2))


if __name__ == "__main__":
    main()
