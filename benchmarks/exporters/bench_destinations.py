"""Pushes a second through each destination, next to OpenTelemetry's own SDK exporter and Collector, in one run.

    python benchmarks/exporters/bench_destinations.py [--seconds 3] [--without-kafka]

(needs Go, for the Collector; Java and Maven, for the broker; the dependency group `bench`; two cores)

Payloads: S, F and J of `bench_labels`. Each batch is as an exporter's defaults make it; every way gets the same pushes.
What delivers runs on core 0, what takes the deliveries on core 1:

- `otlp_grpc`, `otlp_http`, `landing`, `console` (into a file), `kafka_topic`: our exporters, from push records in
  memory to the destination's word that it has them. Labels are part of it.
- `sdk`: the SDK's `OTLPMetricExporter` over gRPC, one call a batch; its data objects are made beforehand, so that only
  encoding and sending count.
- `collector`: the Collector between a feeder (on core 1, raw bytes, four calls under way) and the receiver, with one
  processor (GOMAXPROCS=1) and its queue off, so that each answer comes from the receiver. It puts no labels on.

The receiver of all OTLP ways answers and reads nothing, so that it is nobody's limit. CPU is that of the process that
delivers, in us a push. Prints one JSON object; `ratio_sdk` and `ratio_collector` are pushes a second of `otlp_grpc`
divided by theirs.
"""

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager, redirect_stderr
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from support.brokers.kafka_broker import KafkaBroker
from support.receivers.otel_collector import OtelCollector

from benchmarks.exporters.bench_labels import RECORD, payload
from fleetgauge.exporters.exporter import Delivered, Exporter
from fleetgauge.exporters.labels import RECORD_LABELS
from fleetgauge.exporters.otlp.grpc_transport import EXPORT_METHOD
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushIds, PushRecord

CALLS_UNDER_WAY = 4
CLIENTS = 500


class Receiver(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs alone
    """Answers every export, whatever it holds."""

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]  # as above
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


class HttpReceiver(BaseHTTPRequestHandler):
    """The same over HTTP."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the name that http.server calls
        left = int(self.headers["content-length"])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def receive(pipe: Connection, core: int | None = 1) -> None:
    """The receivers, in a process of their own, on one core or any."""
    if core is not None:
        pin(core)
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 64 << 20)])
    server.add_generic_rpc_handlers((Receiver(),))
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    http = ThreadingHTTPServer(("127.0.0.1", 0), HttpReceiver)
    pipe.send((grpc_port, http.server_port))
    http.serve_forever()


def batches(metrics: bytes, exporter_batch: Any) -> list[Batch]:
    """Some batches as the pipeline would poll them, of many clients."""
    ids = PushIds(writer=1)
    count = min(exporter_batch.max_records, max(1, exporter_batch.max_bytes // len(metrics)))
    made = []
    for number in range(4):
        records = tuple(record(metrics, ids, index) for index in range(count))
        first = f"{1:020d}-{number * count + 1:010d}"
        last = f"{1:020d}-{(number + 1) * count:010d}"
        made.append(
            Batch(
                exporter="x", records=records, first_position=first, last_position=last, size_bytes=count * len(metrics)
            )
        )
    return made


def record(metrics: bytes, ids: PushIds, index: int) -> PushRecord:
    """A push of one of the clients."""
    now_us = time.time_ns() // 1_000
    client = index % CLIENTS
    return RECORD._replace(
        push_id=ids.next_id(now_us),
        received_at=now_us,
        client_id=f"orders-{client}",
        client_instance_id=f"Tm-1TLjmRReIm-FbmcC{client:03d}",
        metrics=metrics,
    )


def measure(
    deliver: Callable[[], int], size: int, seconds: float, cpu_s: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Calls `deliver`, which says how many pushes went, for so long."""
    deliver()  # connects
    pushes, cpu, started = 0, cpu_s(), time.perf_counter()
    while time.perf_counter() - started < seconds:
        pushes += deliver()
    took_s = time.perf_counter() - started
    return {
        "pushes_per_s": round(pushes / took_s),
        "mb_per_s": round(pushes * size / took_s / 1e6, 1),
        "cpu_us_per_push": round((cpu_s() - cpu) / pushes * 1e6, 2),
    }


def ours(exporter: Exporter, metrics: bytes, seconds: float) -> dict[str, float]:
    """One of our exporters."""
    made = batches(metrics, exporter.batch)
    ids = PushIds(writer=2)

    def deliver() -> int:
        batch = made[0]
        made.append(made.pop(0))
        outcome = exporter.export(batch)
        assert outcome == Delivered(), outcome
        return len(batch.records)

    def fresh() -> int:  # a landing zone has what it has: each batch is a new one
        batch = batches_of_new_ids(made[0], ids)
        outcome = exporter.export(batch)
        assert outcome == Delivered(), outcome
        return len(batch.records)

    exporter.start()
    try:
        return measure(fresh if "landing" in exporter.name else deliver, len(metrics), seconds)
    finally:
        exporter.close()


def batches_of_new_ids(batch: Batch, ids: PushIds) -> Batch:
    """The batch with other push ids; that costs about 1 us a push, which counts as the exporter's."""
    now_us = time.time_ns() // 1_000
    records = tuple(each._replace(push_id=ids.next_id(now_us)) for each in batch.records)
    return Batch(
        exporter="x",
        records=records,
        first_position=records[0].push_id,
        last_position=records[-1].push_id,
        size_bytes=batch.size_bytes,
    )


def sdk(port: int, metrics: bytes, seconds: float, batch: Any) -> dict[str, float]:
    """OpenTelemetry's exporter for Python, with data objects made beforehand."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult
    from opentelemetry.sdk.metrics.export import MetricsData as SdkData

    exporter = OTLPMetricExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True)
    [records, *_] = [each.records for each in batches(metrics, batch)]
    data = SdkData(resource_metrics=[each for push in records for each in sdk_resources(push)])

    def deliver() -> int:
        assert exporter.export(data) is MetricExportResult.SUCCESS
        return len(records)

    try:
        return measure(deliver, len(metrics), seconds)
    finally:
        exporter.shutdown()


def sdk_resources(push: PushRecord) -> list[Any]:
    """A push as the SDK's data objects, with the labels; gauges of one point each, as the payloads are."""
    from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    labels = {label: str(getattr(push, field)) for label, field in RECORD_LABELS.items()}
    made = []
    for found in MetricsData.FromString(push.metrics).resource_metrics:
        own = {each.key: each.value.string_value for each in found.resource.attributes}
        metrics = []
        for metric in found.scope_metrics[0].metrics:
            [point] = metric.gauge.data_points
            attributes = {each.key: each.value.string_value for each in point.attributes}
            value = NumberDataPoint(attributes, 0, point.time_unix_nano, point.as_double)
            metrics.append(Metric(metric.name, "", "", Gauge([value])))
        made.append(
            ResourceMetrics(Resource({**own, **labels}), [ScopeMetrics(InstrumentationScope(""), metrics, "")], "")
        )
    return made


def collector(port: int, metrics: bytes, seconds: float, batch: Any, directory: Path) -> dict[str, float]:
    """The Collector, which forwards what a feeder sends it."""
    exporter = {
        "otlp_grpc": {
            "endpoint": f"127.0.0.1:{port}",
            "tls": {"insecure": True},
            "sending_queue": {"enabled": False},
            "retry_on_failure": {"enabled": False},
        }
    }
    [first, *_] = batches(metrics, batch)
    request = b"".join(each.metrics for each in first.records)
    pin(0)
    os.environ["GOMAXPROCS"] = "1"
    with OtelCollector(directory, receiver={"grpc": {"max_recv_msg_size_mib": 64}}, exporter=exporter) as forwarder:
        forwarder.start()
        del os.environ["GOMAXPROCS"]
        pin(1)
        pid = forwarder.process.pid if forwarder.process is not None else 0
        with grpc.insecure_channel(f"127.0.0.1:{forwarder.grpc_port}") as channel:
            call = channel.unary_unary(EXPORT_METHOD, lambda data: data, lambda data: data)
            under_way = [call.future(request) for _ in range(CALLS_UNDER_WAY)]

            def deliver() -> int:
                under_way.pop(0).result()
                under_way.append(call.future(request))
                return len(first.records)

            found = measure(deliver, len(metrics), seconds, lambda: process_cpu_s(pid))
            for each in under_way:
                each.result()
    pin(0)
    return found


def pin(core: int) -> None:
    """Keeps this process, and what it starts from now on, on a core."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def process_cpu_s(pid: int) -> float:
    """User and system time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def broker_on_core_1(directory: Path) -> Iterator[str]:
    """A real Kafka broker's address."""
    pin(1)
    with KafkaBroker(directory, "4.3.1", heap="512m", jvm=()) as broker:
        pin(0)
        yield broker.bootstrap


def run(arguments: argparse.Namespace, directory: Path, stack: ExitStack) -> dict[str, Any]:
    """Every way with every payload."""
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receive, args=(other,), daemon=True)
    process.start()
    stack.callback(process.kill)
    grpc_port, http_port = pipe.recv()
    pin(0)
    keys: dict[str, dict[str, Any]] = {
        "otlp_grpc": {"type": "otlp", "endpoint": f"http://127.0.0.1:{grpc_port}"},
        "otlp_http": {"type": "otlp", "protocol": "http/protobuf", "endpoint": f"http://127.0.0.1:{http_port}"},
        "landing": {"type": "landing", "path": str(directory / "landing")},
        "console": {"type": "console"},
    }
    if not arguments.without_kafka and shutil.which("mvn"):
        bootstrap = stack.enter_context(broker_on_core_1(directory / "broker"))
        keys["kafka_topic"] = {"type": "kafka_topic", "bootstrap.servers": bootstrap, "topic": "bench"}
    results: dict[str, Any] = {}
    for name, points, per_metric in (("S", 10, False), ("F", 700, False), ("J", 700, True)):
        metrics = payload(points, a_resource_per_metric=per_metric)
        found: dict[str, Any] = {"bytes": len(metrics)}
        for way, values in keys.items():
            with (directory / "stderr").open("w") as lines, redirect_stderr(lines):
                found[way] = ours(build_exporter(way, values), metrics, arguments.seconds)
        batch = build_exporter("otlp_grpc", keys["otlp_grpc"]).batch
        found["sdk"] = sdk(grpc_port, metrics, arguments.seconds, batch)
        found["collector"] = collector(grpc_port, metrics, arguments.seconds, batch, directory / f"collector-{name}")
        rate = found["otlp_grpc"]["pushes_per_s"]
        for peer in ("sdk", "collector"):
            found[f"ratio_{peer}"] = round(rate / found[peer]["pushes_per_s"], 1)
        results[name] = found
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each way and payload")
    parser.add_argument("--without-kafka", action="store_true", help="no broker")
    arguments = parser.parse_args()
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.exporter.otlp.proto.grpc") is None:
        sys.exit("OpenTelemetry's exporter is missing: pip install --group bench")
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        results = run(arguments, Path(directory), stack)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    about = {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "cpu": platform.processor() or platform.machine(),
        "seconds": arguments.seconds,
    }
    print(json.dumps({**about, "destinations": results}, indent=1))


if __name__ == "__main__":
    main()
