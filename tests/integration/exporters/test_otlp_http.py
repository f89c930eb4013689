"""OTLP over HTTP against a real HTTP server on loopback; the collector's own answers are in `test_otel_collector`."""

import gzip
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import grpc
import pytest
import zstandard
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from support.certificates import Authority
from support.payloads.payloads import metrics_data
from support.ports import free_port
from support.programs.push_log import push_record
from support.receivers.otlp_receivers import HttpAnswer as Answer
from support.receivers.otlp_receivers import HttpHandler as Handler
from support.receivers.otlp_receivers import HttpReceiver as Receiver
from support.waiting import PATIENCE_S, ticking, wait_for

from fleetgauge.exporters.exporter import Delivered, Refused, Retry, TooLarge
from fleetgauge.exporters.labels import Labeller
from fleetgauge.exporters.otlp.exporter import OtlpExporter, otlp_exporter
from fleetgauge.push_log.log import Batch

pytestmark = pytest.mark.integration

RECORDS = tuple(push_record(number, metrics_data()) for number in range(3))
BATCH = Batch(exporter="otlp", records=RECORDS, first_position="1", last_position="3", size_bytes=1)
EXPECTED = b"".join(Labeller().labelled(record) for record in RECORDS)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.stop()


def exporter_to(receiver: Receiver, scheme: str = "http", **values: object) -> OtlpExporter:
    keys = {"protocol": "http/protobuf", "endpoint": f"{scheme}://127.0.0.1:{receiver.server_port}"}
    return otlp_exporter("otlp", {**keys, **{key.replace("__", "."): value for key, value in values.items()}}, {})


def test_what_arrives_is_the_labelled_pushes_on_one_connection(receiver: Receiver) -> None:
    exporter = exporter_to(receiver, headers={"Authorization": "Bearer x"})
    assert exporter.export(BATCH) == Delivered()
    assert exporter.export(BATCH) == Delivered()
    exporter.close()
    path, headers, body = receiver.requests[0]
    assert (path, body) == ("/v1/metrics", EXPECTED)
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["authorization"] == "Bearer x"
    assert headers["user-agent"].startswith("fleetgauge/")
    assert len(set(receiver.peers)) == 1


@pytest.mark.parametrize(
    ("compression", "decompress"), [("gzip", gzip.decompress), ("zstd", zstandard.ZstdDecompressor().decompress)]
)
def test_a_request_is_compressed_as_its_header_says(
    receiver: Receiver, compression: str, decompress: Callable[[bytes], bytes]
) -> None:
    exporter = exporter_to(receiver, compression=compression)
    assert exporter.export(BATCH) == Delivered()
    exporter.close()
    [(_, headers, body)] = receiver.requests
    assert headers["content-encoding"] == compression
    assert decompress(body) == EXPECTED
    assert len(body) < len(EXPECTED)


def test_a_receiver_of_the_other_protocol_is_named_with_the_key_to_set(receiver: Receiver) -> None:
    by_grpc = exporter_to(receiver, protocol="grpc")
    outcome = by_grpc.export(BATCH)
    by_grpc.close()
    assert isinstance(outcome, Retry)
    assert 'set protocol = "http/protobuf"' in outcome.detail
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    by_http = exporter_to(receiver, endpoint=f"http://127.0.0.1:{port}")
    outcome = by_http.export(BATCH)
    by_http.close()
    server.stop(None)
    assert isinstance(outcome, Retry)
    assert 'set protocol = "grpc"' in outcome.detail


def rejecting(points: int) -> bytes:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = points
    response.partial_success.error_message = "too old"
    return response.SerializeToString()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda to: to.reply(200, rejecting(3)), Delivered(rejected=3, detail="too old")),
        (lambda to: to.reply(503, b"\x12\x04busy"), Retry(reason="http_503", detail="busy")),
        (lambda to: to.reply(429, Retry_After="2"), Retry(reason="http_429", after_ms=2_000)),
        (lambda to: to.reply(503, Retry_After="never"), Retry(reason="http_503")),
        (lambda to: to.reply(502, b"<html>"), Retry(reason="http_502", detail="<html>")),
        (lambda to: to.reply(413), TooLarge(reason="http_413")),
        (lambda to: to.reply(400, b"\x08\x03\x12\x03bad"), Refused(reason="http_400", detail="bad")),
        (
            lambda to: to.reply(401, b"no"),
            Retry(reason="http_401", detail="no (check the exporter's headers or client certificate)"),
        ),
        (
            lambda to: to.reply(302, Location="http://127.0.0.1:1/"),
            Retry(reason="http_302", detail="(check the endpoint: this is not the response of an OTLP receiver)"),
        ),
    ],
)
def test_a_servers_answer_becomes_an_outcome(receiver: Receiver, answer: Answer, expected: object) -> None:
    receiver.answer = answer
    exporter = exporter_to(receiver)
    assert exporter.export(BATCH) == expected
    exporter.close()


def test_a_date_to_come_back_at_is_waited_for(receiver: Receiver) -> None:
    receiver.answer = lambda to: to.reply(503, Retry_After=formatdate(time.time() + 100, usegmt=True))
    exporter = exporter_to(receiver)
    outcome = exporter.export(BATCH)
    exporter.close()
    assert isinstance(outcome, Retry)
    assert outcome.after_ms is not None
    assert 40_000 < outcome.after_ms <= 100_000


def test_a_connection_that_the_server_closed_meanwhile_costs_no_try(receiver: Receiver) -> None:
    def once(to: Handler) -> None:
        to.reply(200, b"\x0a\x00")
        to.close_connection = True  # without a word about it in the answer

    receiver.answer = once
    exporter = exporter_to(receiver)
    for number in range(1, 4):
        assert exporter.export(BATCH) == Delivered()
        wait_for_ends(receiver, number)
    exporter.close()
    assert len(set(receiver.peers)) == 3


def wait_for_ends(receiver: Receiver, number: int) -> None:
    wait_for(lambda: receiver.closed, "the server's end of the connection", until=lambda closed: closed == number)


def hangs(to: Handler) -> None:
    threading.Event().wait(PATIENCE_S)


def drips(to: Handler) -> None:
    """A byte of a header every 50 ms: no single read ever times out."""
    to.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    for _ in ticking(PATIENCE_S):
        to.wfile.write(b"x")


@pytest.mark.parametrize("answer", [hangs, drips])
def test_a_server_that_does_not_come_to_an_end_costs_one_timeout(receiver: Receiver, answer: Answer) -> None:
    receiver.answer = answer
    exporter = exporter_to(receiver, timeout__ms=5_000)
    outcome = exporter.export(BATCH)
    assert outcome == Retry(reason="deadline_exceeded", detail="no response within 5000 ms")
    receiver.answer = lambda to: to.reply(200)
    assert exporter.export(BATCH) == Delivered()
    exporter.close()


def test_an_endless_answer_is_cut_off(receiver: Receiver) -> None:
    receiver.answer = lambda to: to.reply(400, b"x" * (10 << 20))
    exporter = exporter_to(receiver)
    outcome = exporter.export(BATCH)
    assert isinstance(outcome, Refused)
    assert len(outcome.detail) == 500
    receiver.answer = lambda to: to.reply(200)
    assert exporter.export(BATCH) == Delivered()
    exporter.close()


@pytest.mark.parametrize("garbage", [b"", b"HELO\r\n\r\n", b"HTTP/1.1 999\r\n", b"\x15\x03\x01\x00\x02\x02\x50"])
def test_a_peer_that_speaks_something_else_is_tried_again(receiver: Receiver, garbage: bytes) -> None:
    def speak(to: Handler) -> None:
        to.wfile.write(garbage)
        to.close_connection = True

    receiver.answer = speak
    exporter = exporter_to(receiver)
    outcome = exporter.export(BATCH)
    exporter.close()
    assert isinstance(outcome, Retry)
    assert outcome.reason in ("unavailable", "http_999")


def test_a_connection_that_is_reset_says_what_to_check(receiver: Receiver) -> None:
    """A gRPC receiver, or one that requires TLS, may do so before its answer is read."""

    def reset(to: Handler) -> None:
        to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        to.connection.close()
        to.close_connection = True

    receiver.answer = reset
    exporter = exporter_to(receiver)
    outcome = exporter.export(BATCH)
    exporter.close()
    assert isinstance(outcome, Retry)
    assert outcome.reason == "unavailable"
    assert "check protocol, the port, and whether the endpoint should begin with https://" in outcome.detail


def test_nobody_there_is_said_in_words() -> None:
    port = free_port()
    exporter = otlp_exporter("otlp", {"protocol": "http/protobuf", "endpoint": f"http://127.0.0.1:{port}"}, {})
    outcome = exporter.export(BATCH)
    assert isinstance(outcome, Retry)
    assert outcome.reason == "unavailable"
    assert "refused" in outcome.detail


def test_closing_ends_a_request_that_hangs(receiver: Receiver) -> None:
    entered = threading.Event()

    def hang(to: Handler) -> None:
        entered.set()
        threading.Event().wait(PATIENCE_S)

    receiver.answer = hang
    exporter = exporter_to(receiver)
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(exporter.export(BATCH)))
    thread.start()
    assert entered.wait(PATIENCE_S)
    exporter.close()
    thread.join(PATIENCE_S)
    assert outcomes == [Retry(reason="cancelled", detail="the exporter is closed")]
    assert exporter.export(BATCH) == outcomes[0]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def test_mutual_tls_delivers_and_wrong_certificates_are_told_in_words(authority: Authority, tmp_path: Path) -> None:
    server, client = authority.issue("server", "/CN=localhost"), authority.issue("client", "/CN=fleetgauge")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = Receiver(context)
    ca = {"tls.ca.file": str(authority.certificate)}
    ours = {"tls.cert.file": str(client.certificate), "tls.key.file": str(client.key)}
    for values, expected in (
        ({**ca, **ours}, None),
        (ca, "the receiver does not accept our certificate: check tls.cert.file"),
        (ours, "the receiver's certificate is not trusted, or not for this host: check tls.ca.file"),
    ):
        exporter = exporter_to(receiver, "https", **values)
        exporter.start()
        outcome = exporter.export(BATCH)
        exporter.close()
        if expected is None:
            assert outcome == Delivered()
        else:
            assert isinstance(outcome, Retry)
            assert (outcome.reason, outcome.detail[: len(expected)]) == ("tls", expected)
    assert len(receiver.requests) == 1
    receiver.stop()


def test_https_to_a_server_without_tls_says_so(receiver: Receiver) -> None:
    exporter = exporter_to(receiver, "https")
    outcome = exporter.export(BATCH)
    exporter.close()
    assert isinstance(outcome, Retry)
    assert outcome.detail.startswith("the receiver has no TLS: check whether the endpoint should begin with http://")
