"""The OTLP exporter and its pipeline against a real gRPC server on loopback."""

import queue
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from structlog.testing import capture_logs
from support.ports import free_port
from support.programs.delivery import PATIENCE_MS
from support.receivers.otlp_receivers import GrpcAnswer as Handler
from support.receivers.otlp_receivers import GrpcReceiver as Receiver
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.exporter import Delivered, Refused, Retry, RetrySettings, TooLarge
from fleetgauge.exporters.labels import Labeller
from fleetgauge.exporters.otlp.exporter import OtlpExporter, otlp_exporter
from fleetgauge.push_log.log import Batch, Lag
from fleetgauge.telemetry.push_record import PushRecord

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000

RECORD = PushRecord(
    push_id="", received_at=1, receiver_node_id=7, cluster_id="c", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.0.0.1", client_source_port=1, principal="User:a",
    subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd", payload_bytes=1,
    schema_version=1, metrics=b"",
)  # fmt: skip


def push(number: int, name: str = "org.apache.kafka.producer.x") -> PushRecord:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.gauge.data_points.add(as_int=number)
    return RECORD._replace(push_id=f"{number:032x}", client_id=f"client-{number}", metrics=data.SerializeToString())


def batch_of(*records: PushRecord) -> Batch:
    size = sum(len(record.metrics) for record in records)
    return Batch(exporter="otlp", records=records, first_position="1", last_position="2", size_bytes=size)


def clients(request: bytes) -> list[str]:
    """The `client_id` label of each ResourceMetrics of a request."""
    return [
        attribute.value.string_value
        for found in MetricsData.FromString(request).resource_metrics
        for attribute in found.resource.attributes
        if attribute.key == "client_id"
    ]


class Log:
    """A log in memory that polls like the real one."""

    exporter = "otlp"

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[PushRecord | None] = queue.SimpleQueue()
        self.committed: list[str] = []
        self._time = SystemTime()

    def append(self, *records: PushRecord) -> None:
        for record in records:
            self.waiting.put(record)

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        records: list[PushRecord] = []
        while len(records) < max_records:
            try:
                record = self.waiting.get(timeout=max(0, deadline_ms - self._time.hi_res_clock_ms()) / 1_000)
            except queue.Empty:
                break
            if record is None:
                break
            records.append(record)
        return batch_of(*records) if records else None

    def owned(self, batch: Batch) -> Batch:
        return batch

    def commit(self, batch: Batch) -> int:
        self.committed += [record.push_id for record in batch.records]
        return 0

    def wakeup(self) -> None:
        self.waiting.put(None)

    def lag(self) -> Lag:
        return Lag(records=0, bytes=0, oldest_received_at=None)

    def close(self) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.stop()


@pytest.fixture
def exporter(receiver: Receiver) -> Iterator[OtlpExporter]:
    found = otlp_exporter("otlp", {"endpoint": f"http://127.0.0.1:{receiver.port}"})
    found.start()
    yield found
    found.close()


def test_what_arrives_is_the_labelled_pushes_byte_for_byte(receiver: Receiver, exporter: OtlpExporter) -> None:
    records = [push(number) for number in range(100)]
    assert exporter.export(batch_of(*records)) == Delivered()
    assert receiver.requests == [b"".join(Labeller().labelled(record) for record in records)]
    assert clients(receiver.requests[0]) == [f"client-{number}" for number in range(100)]


def test_a_batch_of_heartbeats_makes_no_call(receiver: Receiver, exporter: OtlpExporter) -> None:
    assert exporter.export(batch_of(RECORD, RECORD)) == Delivered()
    assert receiver.metadata == []


def test_a_broken_record_of_the_log_is_left_out_and_the_others_arrive(
    receiver: Receiver, exporter: OtlpExporter
) -> None:
    broken = push(2)._replace(metrics=b"\x0a\x7f")
    outcome = exporter.export(batch_of(push(1), broken, push(3)))
    assert isinstance(outcome, Delivered)
    assert [(record.push_id, record.reason) for record in outcome.refused] == [(broken.push_id, "malformed_payload")]
    assert clients(receiver.requests[0]) == ["client-1", "client-3"]


def test_a_request_above_the_bound_is_not_sent_but_cut(receiver: Receiver) -> None:
    exporter = otlp_exporter("otlp", {"endpoint": f"127.0.0.1:{receiver.port}", "max.request.bytes": 500})
    assert isinstance(exporter.export(batch_of(push(1), push(2))), TooLarge)
    assert receiver.metadata == []
    assert exporter.export(batch_of(push(1, name="m" * 600))) == Delivered()
    exporter.close()


def test_headers_compression_and_our_name_reach_the_server(receiver: Receiver) -> None:
    exporter = otlp_exporter(
        "otlp",
        {"endpoint": f"127.0.0.1:{receiver.port}", "compression": "gzip", "headers": {"Authorization": "Bearer x"}},
    )
    assert exporter.export(batch_of(push(1))) == Delivered()
    exporter.close()
    [metadata] = receiver.metadata
    assert metadata["authorization"] == "Bearer x"
    assert metadata["user-agent"].startswith("fleetgauge/")
    assert clients(receiver.requests[0]) == ["client-1"]


def test_partial_success_counts_what_the_server_rejected(receiver: Receiver, exporter: OtlpExporter) -> None:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = 3
    response.partial_success.error_message = "too old"
    receiver.answer = lambda request, context: response.SerializeToString()
    assert exporter.export(batch_of(push(1))) == Delivered(rejected=3, detail="too old")


def aborts(code: grpc.StatusCode, *, retry_after_s: int | None = None) -> Handler:
    def handler(request: bytes, context: grpc.ServicerContext) -> bytes:
        if retry_after_s is not None:
            packed = Any()
            info = RetryInfo()
            info.retry_delay.seconds = retry_after_s
            packed.Pack(info)
            details = Status(code=code.value[0], details=[packed]).SerializeToString()
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(code, "no")

    return handler


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (aborts(grpc.StatusCode.UNAVAILABLE), Retry(reason="unavailable", detail="no")),
        (aborts(grpc.StatusCode.UNAVAILABLE, retry_after_s=3), Retry(reason="unavailable", detail="no", after_ms=3000)),
        (
            aborts(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after_s=1),
            Retry(reason="resource_exhausted", detail="no", after_ms=1000),
        ),
        (aborts(grpc.StatusCode.RESOURCE_EXHAUSTED), TooLarge(reason="resource_exhausted", detail="no")),
        (aborts(grpc.StatusCode.INVALID_ARGUMENT), Refused(reason="invalid_argument", detail="no")),
    ],
)
def test_a_servers_status_becomes_an_outcome(
    receiver: Receiver, exporter: OtlpExporter, handler: Handler, expected: object
) -> None:
    receiver.answer = handler
    assert exporter.export(batch_of(push(1))) == expected


def test_a_server_without_the_metrics_service_keeps_the_pushes_waiting(exporter: OtlpExporter) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    wrong = otlp_exporter("otlp", {"endpoint": f"127.0.0.1:{port}"})
    outcome = wrong.export(batch_of(push(1)))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "unimplemented"
    wrong.close()
    server.stop(None).wait(PATIENCE_S)


def test_a_server_that_hangs_costs_one_timeout_and_the_next_call_gets_a_connection_of_its_own(
    receiver: Receiver,
) -> None:
    release = threading.Event()
    peers: list[str] = []

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        peers.append(context.peer())
        if len(peers) == 1:
            release.wait(PATIENCE_S)
        return b""

    receiver.answer = hang
    exporter = otlp_exporter("otlp", {"endpoint": f"127.0.0.1:{receiver.port}", "timeout.ms": 3_000})
    outcome = exporter.export(batch_of(push(1)))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "deadline_exceeded"
    assert exporter.export(batch_of(push(1))) == Delivered()
    assert len(set(peers)) == 2
    release.set()
    exporter.close()


def test_closing_ends_a_call_that_hangs(receiver: Receiver, exporter: OtlpExporter) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        entered.set()
        release.wait(PATIENCE_S)
        return b""

    receiver.answer = hang
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(exporter.export(batch_of(push(1)))))
    thread.start()
    assert entered.wait(PATIENCE_S)
    exporter.close()
    thread.join(PATIENCE_S)
    release.set()
    assert isinstance(outcomes[0], Retry)
    assert isinstance(exporter.export(batch_of(push(1))), Retry)


@pytest.fixture
def log() -> Log:
    return Log()


def pipeline_to(port: int, log: Log, **values: object) -> Pipeline:
    keys = {"endpoint": f"http://127.0.0.1:{port}", "linger.ms": 20, **values}
    pipeline = Pipeline(log, otlp_exporter("otlp", keys), time=SystemTime())
    pipeline.start()
    return pipeline


def wait_for_tries(pipeline: Pipeline, number: int) -> None:
    wait_for(
        pipeline.stats,
        f"{number} tries at a server that is away",
        until=lambda stats: stats.retried.get("unavailable", 0) >= number,
    )


def wait_for_commits(log: Log, number: int) -> None:
    wait_for(lambda: len(log.committed), f"{number} commits", until=lambda count: count == number)


def test_pushes_that_came_before_the_server_and_during_its_absence_arrive(log: Log) -> None:
    port = free_port()
    assert RetrySettings().backoff_max_ms <= 3_000, "that is how long they wait once the server is there"
    pipeline = pipeline_to(port, log)
    log.append(*(push(number) for number in range(50)))
    wait_for_tries(pipeline, 4)
    assert "refused" in (pipeline.stats().last_error or "").lower()
    first = Receiver(port)
    wait_for_commits(log, 50)
    first.stop()
    log.append(*(push(number) for number in range(50, 80)))
    wait_for_tries(pipeline, 8)
    second = Receiver(port)
    wait_for_commits(log, 80)
    assert pipeline.stop(PATIENCE_MS)
    second.stop()
    arrived = [client for request in first.requests + second.requests for client in clients(request)]
    assert arrived == [f"client-{number}" for number in range(80)]


def test_a_message_above_the_servers_limit_is_cut_and_only_the_giant_is_given_up(receiver: Receiver, log: Log) -> None:
    giant = push(3, name="g" * (5 << 20))
    log.append(push(1), push(2, name="m" * (3 << 20)), giant, push(4, name="m" * (3 << 20)), push(5))
    pipeline = pipeline_to(receiver.port, log, **{"max.request.bytes": 100 << 20})
    wait_for_commits(log, 5)
    assert pipeline.stop(PATIENCE_MS)
    assert sorted(client for request in receiver.requests for client in clients(request)) == [
        "client-1", "client-2", "client-4", "client-5",
    ]  # fmt: skip
    assert pipeline.stats().refused == {"resource_exhausted": 1}


def test_a_push_that_the_server_will_not_have_is_left_out_and_the_rest_arrives_once(
    receiver: Receiver, log: Log
) -> None:
    def picky(request: bytes, context: grpc.ServicerContext) -> bytes:
        if b"poison" in request:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "poison")
        return b"\x0a\x00"

    receiver.answer = picky
    log.append(*(push(number, name="poison" if number in (5, 23) else "m") for number in range(40)))
    pipeline = pipeline_to(receiver.port, log)
    wait_for_commits(log, 40)
    assert pipeline.stop(PATIENCE_MS)
    arrived = [client for request in receiver.requests for client in clients(request)]
    assert arrived == [f"client-{number}" for number in range(40) if number not in (5, 23)]
    assert pipeline.stats().refused == {"invalid_argument": 2}
    assert pipeline.stats().delivered_records == 38


def test_a_stop_flushes_what_is_in_the_log(receiver: Receiver, log: Log) -> None:
    pipeline = pipeline_to(receiver.port, log, **{"linger.ms": HOUR_MS, "batch.max.records": 10})
    log.append(*(push(number) for number in range(25)))
    assert pipeline.stop(PATIENCE_MS)  # much less than what a batch may wait to be filled
    assert len(log.committed) == 25


def test_a_stop_does_not_wait_for_a_batch_to_fill(receiver: Receiver, log: Log) -> None:
    pipeline = pipeline_to(receiver.port, log, **{"linger.ms": HOUR_MS})
    log.append(push(1))
    wait_for(log.waiting.empty, "a batch that waits to be filled")
    assert pipeline.stop(PATIENCE_MS)
    assert clients(receiver.requests[0]) == ["client-1"]
    assert len(log.committed) == 1


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was told to end may take its time on a busy machine."""
    monkeypatch.setattr(Pipeline, "close_grace_s", PATIENCE_S)


@pytest.mark.usefixtures("_patient")
def test_a_stop_does_not_wait_for_a_server_that_is_away_longer_than_asked(log: Log) -> None:
    """It would wait for the next try, which is hours away."""
    pipeline = pipeline_to(free_port(), log, **{"retry.backoff.ms": HOUR_MS, "retry.backoff.max.ms": HOUR_MS})
    log.append(push(1))
    wait_for_tries(pipeline, 1)
    assert pipeline.stop(300), "an end that was waited for would not have come"
    assert log.committed == []


@pytest.mark.usefixtures("_patient")
def test_a_stop_does_not_wait_for_a_server_that_hangs(receiver: Receiver, log: Log) -> None:
    """It answers after the stop alone."""
    entered, release = threading.Event(), threading.Event()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        entered.set()
        release.wait(PATIENCE_S)
        return b""

    receiver.answer = hang
    log.append(push(1))
    pipeline = pipeline_to(receiver.port, log, **{"timeout.ms": HOUR_MS})
    assert entered.wait(PATIENCE_S)
    assert pipeline.stop(300), "an answer that was waited for would not have come"
    release.set()
    assert log.committed == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", str(key), "-out", str(cert)],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate of this test, and it is not installed")
    return cert, key


def test_mutual_tls_delivers_and_a_client_without_a_certificate_waits(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), cert.read_bytes())], root_certificates=cert.read_bytes(), require_client_auth=True
    )
    receiver = Receiver(credentials=credentials)
    keys = {"endpoint": f"https://127.0.0.1:{receiver.port}", "tls.ca.file": str(cert), "timeout.ms": 30_000}
    trusted = otlp_exporter("otlp", {**keys, "tls.cert.file": str(cert), "tls.key.file": str(key)})
    uncertified = otlp_exporter("otlp", keys)
    assert trusted.export(batch_of(push(1))) == Delivered()
    outcome = uncertified.export(batch_of(push(2)))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "unavailable"
    assert [clients(request) for request in receiver.requests] == [["client-1"]]
    trusted.close()
    uncertified.close()
    receiver.stop()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_receiver_that_is_not_there_at_the_start_is_in_the_log_before_the_first_push(log: Log, protocol: str) -> None:
    port = free_port()
    with capture_logs() as logs:
        pipeline = pipeline_to(port, log, protocol=protocol)
        wait_for(pipeline.stats, "a receiver that is missed", until=lambda stats: stats.last_error is not None)
        assert pipeline.stop(PATIENCE_MS)
    [said] = [entry for entry in logs if entry["event"] == "delivery.destination_unreachable"]
    assert said["destination"].startswith(f"http://127.0.0.1:{port}")
    assert said["detail"] == f"cannot connect to 127.0.0.1:{port}: Connection refused"
