"""OTLP over TLS with files that are wrong, and put right while the exporter runs; in both protocols."""

import shutil
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import grpc
import pytest
from support.certificates import Authority, Certificate
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record
from support.receivers.otlp_receivers import GrpcReceiver, HttpHandler, HttpReceiver
from support.waiting import PATIENCE_S

from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.otlp.endpoint import PROTOCOLS
from fleetgauge.exporters.otlp.exporter import OtlpExporter, otlp_exporter
from fleetgauge.push_log.log import Batch

pytestmark = pytest.mark.integration

BATCH = Batch(
    exporter="otlp", records=(push_record(1, metrics_data()),), first_position="1", last_position="1", size_bytes=1
)

Exporting = Callable[..., AbstractContextManager[OtlpExporter]]
Receiving = Callable[..., GrpcReceiver | HttpReceiver]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), is_strict=False)


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), "Another CA")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.issue("server", "/CN=localhost")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def exporting(protocol: str) -> Exporting:
    @contextmanager
    def to(port: int, **files: Path) -> Iterator[OtlpExporter]:
        keys = {f"tls.{name}.file": str(path) for name, path in files.items()}
        exporter = otlp_exporter("otlp", {"protocol": protocol, "endpoint": f"https://127.0.0.1:{port}", **keys}, {})
        exporter.start()
        yield exporter
        exporter.close()

    return to


@pytest.fixture
def receiving(protocol: str) -> Iterator[Receiving]:
    """Starts a receiver with a certificate, that wants one of `clients` where that is given."""
    started: list[GrpcReceiver | HttpReceiver] = []

    def receive(own: Certificate, clients: Authority | None = None) -> GrpcReceiver | HttpReceiver:
        if protocol == "grpc":
            pair = (own.key.read_bytes(), own.certificate.read_bytes())
            trusted = None if clients is None else clients.certificate.read_bytes()
            credentials = grpc.ssl_server_credentials([pair], trusted, require_client_auth=clients is not None)
            started.append(GrpcReceiver(credentials=credentials))
        else:
            context = ssl.create_default_context(
                ssl.Purpose.CLIENT_AUTH, cafile=None if clients is None else clients.certificate
            )
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # of Python 3.13: what is tried is the exporter
            context.load_cert_chain(own.certificate, own.key)
            context.verify_mode = ssl.CERT_NONE if clients is None else ssl.CERT_REQUIRED
            started.append(HttpReceiver(context))
        return started[-1]

    yield receive
    for each in started:
        each.stop()


def retried(exporter: OtlpExporter) -> Retry:
    outcome = exporter.export(BATCH)
    assert isinstance(outcome, Retry)
    return outcome


def test_an_authority_that_was_renewed_is_trusted_at_the_next_try(
    authority: Authority, other_ca: Authority, server: Certificate, exporting: Exporting, receiving: Receiving,
    tmp_path: Path,
) -> None:  # fmt: skip
    ca = tmp_path / "ca.pem"
    shutil.copy(other_ca.certificate, ca)
    with exporting(receiving(server).port, ca=ca) as exporter:
        assert retried(exporter).reason == "tls"
        shutil.copy(authority.certificate, ca)
        assert exporter.export(BATCH) == Delivered()


def test_a_certificate_of_ours_that_was_renewed_is_shown_at_the_next_try(
    authority: Authority, other_ca: Authority, server: Certificate, exporting: Exporting, receiving: Receiving,
    tmp_path: Path,
) -> None:  # fmt: skip
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def renew(issuer: Authority) -> None:
        pair = issuer.issue("fleetgauge", "/CN=fleetgauge")
        shutil.copy(pair.certificate, cert)
        shutil.copy(pair.key, key)

    renew(other_ca)
    with exporting(receiving(server, authority).port, ca=authority.certificate, cert=cert, key=key) as exporter:
        assert "check tls.cert.file" in retried(exporter).detail
        renew(authority)
        assert exporter.export(BATCH) == Delivered()


def refused_peers(receiver: GrpcReceiver | HttpReceiver) -> list[object]:
    """Has it refuse our credentials; whom it refused."""
    peers: list[object] = []

    def over_grpc(request: bytes, context: grpc.ServicerContext) -> bytes:
        peers.append(context.peer())
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    def over_http(handler: HttpHandler) -> None:
        peers.append(handler.client_address)
        handler.reply(401)

    if isinstance(receiver, GrpcReceiver):
        receiver.answer = over_grpc
    else:
        receiver.answer = over_http
    return peers


def test_credentials_that_a_receiver_refuses_come_as_they_are_then_over_another_connection(
    authority: Authority, server: Certificate, exporting: Exporting, receiving: Receiving
) -> None:
    receiver = receiving(server)
    peers = refused_peers(receiver)
    with exporting(receiver.port, ca=authority.certificate) as exporter:
        assert "client certificate" in retried(exporter).detail
        retried(exporter)
    assert len(set(peers)) == 2


@pytest.mark.parametrize(("names", "days"), [("DNS:elsewhere.example.com", 30), ("IP:127.0.0.1", -1)])
def test_a_receiver_whose_certificate_is_of_another_host_or_has_expired_costs_no_push(
    names: str, days: int, authority: Authority, exporting: Exporting, receiving: Receiving
) -> None:
    wrong = authority.issue("wrong", "/CN=localhost", names=names, days=days)
    with exporting(receiving(wrong).port, ca=authority.certificate) as exporter:
        outcome = retried(exporter)
    advice = "the receiver's certificate is not trusted, or not for this host: check tls.ca.file and the endpoint"
    assert (outcome.reason, outcome.detail[: len(advice)]) == ("tls", advice)


@pytest.mark.parametrize("resets", [False, True])
def test_a_peer_that_ends_the_handshake_is_told_in_words(resets: bool, exporting: Exporting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def end() -> None:
            peer, _ = listening.accept()
            peer.recv(1 if resets else 65_536)
            if resets:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        with exporting(listening.getsockname()[1]) as exporter:
            outcome = retried(exporter)
        thread.join(PATIENCE_S)
    assert outcome.reason == "unavailable"
    assert "check tls.cert.file, tls.key.file" in outcome.detail
