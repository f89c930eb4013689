"""Settings of a cluster that cannot be used, and its refusals. With real brokers: tests/integration/telemetry."""

import contextlib
import gc
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from support.ports import free_ports
from support.proxies.trickling import KAFKA, trickling
from support.waiting import wait_for

from fleetgauge.cluster.connection import _Cause
from fleetgauge.cluster.errors import NotAuthorizedError, ResourceError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.cluster import Cluster, _refusal


@pytest.mark.parametrize(
    ("servers", "client", "words"),
    [
        ("", {}, "'' is not a list of bootstrap servers: use host:port"),
        ("broker-1", {}, "'broker-1' is not a list of bootstrap servers"),
        ("broker-1:9092,:1", {}, "is not a list of bootstrap servers"),
        ("b:1", {"linger.ms": "5"}, "linger.ms is not supported; use client.id, sasl.mechanism"),
        ("b:1", {"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER; supported are PLAIN, SCRAM"),
    ],
)
def test_settings_that_cannot_be_used_are_named(servers: str, client: dict[str, str], words: str) -> None:
    with pytest.raises(ResourceError) as raised:
        Cluster(ClusterSettings(bootstrap_servers=servers, client=client, timeout_ms=100))
    assert words in str(raised.value)


LEAVES_SOCKETS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""kafka-python leaves the sockets of connections that failed to the garbage collector."""


@pytest.fixture
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Has the sockets collected before the next test, which does not ignore the warning."""
    threads = threading.active_count()
    yield
    wait_for(threading.active_count, "the end of the client's threads", until=lambda count: count <= threads)
    caplog.get_records("call").clear()  # their exceptions know the frames that have the sockets
    gc.collect()


@pytest.mark.slow
@LEAVES_SOCKETS
@pytest.mark.usefixtures("collected")
def test_a_broker_whose_answer_has_no_end_is_given_up() -> None:
    with trickling(KAFKA) as server:
        with pytest.raises(ResourceError) as raised:
            Cluster(ClusterSettings(bootstrap_servers=server.address, timeout_ms=1_000))
        assert f"no broker at {server.address} answers" in str(raised.value)
        assert server.asked


@pytest.mark.slow
@LEAVES_SOCKETS
@pytest.mark.usefixtures("collected")
def test_an_address_that_no_broker_answers_at_is_named_with_the_reason() -> None:
    (port,) = free_ports(1)
    threads = threading.active_count()
    with pytest.raises(ResourceError) as raised:
        Cluster(ClusterSettings(bootstrap_servers=f"127.0.0.1:{port}", timeout_ms=2_000))
    assert f"no broker at 127.0.0.1:{port} answers" in str(raised.value)
    assert "ECONNREFUSED" in str(raised.value)
    assert threading.active_count() == threads


@contextmanager
def refusing_credentials() -> Iterator[str]:
    """The address of a broker whose refusal of a login arrives together with the end of the connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                peer, _ = server.accept()
                with peer, contextlib.suppress(OSError, struct.error):  # the client has gone
                    _refuse_login(peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def _refuse_login(peer: socket.socket) -> None:
    sasl_handshake, api_versions, sasl_authenticate = 17, 18, 36
    unsupported_version, sasl_authentication_failed = 35, 58
    while True:
        (size,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
        api, version, correlation_id = struct.unpack_from(">hhi", peer.recv(size, socket.MSG_WAITALL))
        if api == api_versions:
            ranges = struct.pack(">9h", api_versions, 0, 0, sasl_handshake, 0, 1, sasl_authenticate, 0, 0)
            answer = struct.pack(">hi", unsupported_version if version else 0, 3) + ranges
        elif api == sasl_handshake:
            answer = struct.pack(">hih", 0, 1, len(b"PLAIN")) + b"PLAIN"
        else:
            answer = struct.pack(">hh", sasl_authentication_failed, len(b"Invalid")) + b"Invalid" + struct.pack(">i", 0)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # until the end of the connection
        peer.sendall(struct.pack(">ii", 4 + len(answer), correlation_id) + answer)
        if api == sasl_authenticate:
            return


@pytest.mark.slow
@LEAVES_SOCKETS
@pytest.mark.usefixtures("collected")
def test_a_refusal_of_credentials_is_named_though_the_connection_ends_with_it() -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "wrong-secret",
    }
    with refusing_credentials() as address:
        with pytest.raises(ResourceError) as raised:
            Cluster(ClusterSettings(bootstrap_servers=address, client=client, timeout_ms=1_000))
        assert f"{address} refuses the credentials of --command-config" in str(raised.value)
        assert "Invalid" in str(raised.value)


def test_a_refusal_of_credentials_is_not_forgotten_for_what_another_broker_does() -> None:
    refusal = SaslAuthenticationFailedError("Invalid")
    cause = _Cause()
    log = logging.getLogger("kafka.net.manager")
    log.warning("%s", KafkaConnectionError("socket disconnected"))
    log.warning("%s", refusal)
    log.warning("%s", KafkaConnectionError("Handshake failed: [SSL: CERTIFICATE_VERIFY_FAILED]"))
    cause.close()
    assert cause.error is refusal


def test_a_refusal_has_kafkas_words_and_what_was_changed() -> None:
    error = _refusal("a", "[Error 42] InvalidRequestError: Invalid value 5 for interval.ms", ["b", "c"])
    assert str(error) == "the cluster refuses a: Invalid value 5 for interval.ms; changed were b, c"
    denied = _refusal("a", "[Error 31] ClusterAuthorizationFailedError: None", [])
    assert isinstance(denied, NotAuthorizedError)
    assert "needs ALTER_CONFIGS on the cluster" in str(denied)
    assert "--operation AlterConfigs" in str(denied)
