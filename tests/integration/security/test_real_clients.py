"""Real clients on listeners with TLS and SASL: librdkafka in every combination, Java, and a load balancer in front."""

import contextlib
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.certificates import Authority, Certificate
from support.fleet.landing import landed
from support.ports import free_port
from support.programs.node import Node, credential_lines, run_cli
from support.waiting import wait_for

pytestmark = pytest.mark.integration

PASSWORD = "correct horse, battery = staple"
SUBSCRIPTION = '[client-metrics.everything]\nmetrics = "*"\ninterval.ms = 500\n'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.issue("server", "/CN=localhost")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, authority: Authority, server: Certificate) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("node")
    config = f"""
listener.security.protocol.map = "CLEAR:PLAINTEXT,TLS:SSL,MUTUAL:SSL,WORDS:SASL_PLAINTEXT,BOTH:SASL_SSL"
ssl.keystore.type = "PEM"
ssl.keystore.location = "{server.keystore}"
ssl.truststore.location = "{authority.certificate}"
listener.name.mutual.ssl.client.auth = "required"
listener.name.mutual.ssl.principal.mapping.rules = "RULE:^CN=(.*?),OU=Services,.*$/$1/,DEFAULT"
sasl.enabled.mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
{SUBSCRIPTION}
[exporters.landing]
type = "landing"
path = "{directory / "landing"}"
linger.ms = 500
{credential_lines("alice", PASSWORD)}{credential_lines("svc.orders@example.com", PASSWORD)}
"""
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("CLEAR", "TLS", "MUTUAL", "WORDS", "BOTH"))
    with Node(directory, f"listeners={listeners}", config=config) as running:
        yield running


def pushed_by(node: Node, listener: str, client_id: str, *, through: str = "", **settings: str) -> dict[str, Any]:
    """Runs a producer until a push of it has landed; the push's record."""
    producer = Producer(
        {
            "bootstrap.servers": through or f"127.0.0.1:{node.port_of(listener)}",
            "client.id": client_id,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )

    def pushes() -> list[dict[str, Any]]:
        producer.poll(0.2)
        return [record for record in landed(node.directory / "landing") if record["client_id"] == client_id]

    try:
        return wait_for(pushes, f"a push of {client_id} in the landing zone")[0]
    finally:
        producer.close()


def closed(node: Node, listener: str) -> dict[str, int]:
    (found,) = (each for each in node.status()["connections"] if each["listener"] == listener)
    return dict(found["closed"])


def refusal(**settings: str) -> str:
    """What a client that is not let in says first about why."""
    said: list[str] = []
    producer = Producer(
        {
            "log_level": 0,
            "error_cb": lambda error: said.append(str(error)),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    try:
        wait_for(lambda: producer.poll(0.1) >= 0 and said, "the client's words")
    finally:
        producer.close()
    return said[0]


def has(part: str) -> Callable[[Container[str]], bool]:
    return lambda found: part in found


def trust(authority: Authority) -> dict[str, str]:
    return {"ssl_ca_location": str(authority.certificate)}


def test_a_client_over_tls_pushes_as_nobody_in_particular(node: Node, authority: Authority) -> None:
    record = pushed_by(node, "TLS", "over-tls", security_protocol="ssl", **trust(authority))
    assert (record["listener"], record["principal"]) == ("TLS", "User:ANONYMOUS")


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        ("/C=DE/O=Example, Inc/OU=Orders/CN=orders", "User:CN=orders,OU=Orders,O=Example\\, Inc,C=DE"),
        ("/O=Example/OU=Services/CN=billing", "User:billing"),
    ],
)
def test_a_clients_certificate_is_its_principal(node: Node, authority: Authority, subject: str, principal: str) -> None:
    name = principal.split(",")[0].rsplit("=", 1)[-1].replace("User:", "")
    mine = authority.issue(name, subject)
    record = pushed_by(
        node,
        "MUTUAL",
        f"mutual-{name}",
        security_protocol="ssl",
        ssl_certificate_location=str(mine.certificate),
        ssl_key_location=str(mine.key),
        **trust(authority),
    )
    assert record["principal"] == principal


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("listener", "user"), [("WORDS", "alice"), ("BOTH", "svc.orders@example.com")])
def test_a_sasl_client_pushes_under_its_own_name(
    node: Node, authority: Authority, listener: str, user: str, mechanism: str
) -> None:
    settings = {
        "security_protocol": "sasl_plaintext" if listener == "WORDS" else "sasl_ssl",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }
    client_id = f"{listener}-{mechanism}".lower()
    record = pushed_by(node, listener, client_id, **settings, **(trust(authority) if listener == "BOTH" else {}))
    assert (record["principal"], record["listener"]) == (f"User:{user}", listener)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_password_and_an_unknown_user_are_told_so_in_kafkas_words(
    node: Node, mechanism: str, user: str, password: str
) -> None:
    before = closed(node, "WORDS").get("sasl_authentication_failed", 0)
    said = refusal(
        bootstrap_servers=f"127.0.0.1:{node.port_of('WORDS')}",
        security_protocol="sasl_plaintext",
        sasl_mechanism=mechanism,
        sasl_username=user,
        sasl_password=password,
    )
    words = (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert words in said
    wait_for(
        lambda: closed(node, "WORDS").get("sasl_authentication_failed", 0),
        "the end to be counted",
        until=lambda number: number > before,
    )


def test_a_client_without_tls_or_without_a_certificate_is_closed_and_counted(node: Node, authority: Authority) -> None:
    over_tls = {"security_protocol": "ssl", **trust(authority)}
    for listener, settings, reason, logged in (
        ("TLS", {}, "no_tls", "it looks like a plaintext Kafka request"),
        ("MUTUAL", over_tls, "tls_handshake_failed", "the client sent no certificate"),
        ("CLEAR", over_tls, "frame_too_large", "it looks like TLS"),
    ):
        refusal(bootstrap_servers=f"127.0.0.1:{node.port_of(listener)}", **settings)
        wait_for(partial(closed, node, listener), "the end to be counted", until=has(reason))
        wait_for(node.log.read_text, "its reason in the log", until=has(logged))


def test_a_listener_without_sasl_answers_a_sasl_client_as_kafka_does(node: Node) -> None:
    said = refusal(
        bootstrap_servers=f"127.0.0.1:{node.port_of('CLEAR')}",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password=PASSWORD,
    )
    assert "Request not valid in current SASL state" in said


def test_no_password_is_at_rest_and_none_is_shown(node: Node) -> None:
    listeners = "listeners=WORDS://127.0.0.1:0,MUTUAL://127.0.0.1:0"
    shown = run_cli("config", "--config", str(node.config_file), "--override", listeners).stdout
    assert "[hidden]" in shown
    for text in (shown, node.output(), node.config_file.read_text()):
        assert PASSWORD not in text
    assert "stored_key" not in shown


class Forwarder:
    """A load balancer: forwards every connection, with a header before the client's first byte."""

    def __init__(self, port: int, header: bytes) -> None:
        self._target = port
        self._header = header
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Forwarder":
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as node, contextlib.suppress(OSError):
            node.sendall(self._header)
            while True:
                ready, _, _ = select.select([client, node], [], [])
                for one in ready:
                    data = one.recv(65_536)
                    if not data:
                        return
                    (node if one is client else client).sendall(data)


V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H4s4sHH", 12, bytes([203, 0, 113, 9]), bytes(4), 40_000, 9092)


@pytest.mark.parametrize("header", [b"PROXY TCP4 203.0.113.9 10.0.0.1 40000 9092\r\n", V2], ids=["v1", "v2"])
def test_a_real_client_behind_a_load_balancer_has_its_own_address(
    tmp_path: Path, authority: Authority, server: Certificate, header: bytes
) -> None:
    config = f"""
listener.security.protocol.map = "EXTERNAL:SASL_SSL"
ssl.keystore.location = "{server.keystore}"
proxy.protocol.enable = true
proxy.protocol.trusted.addresses = "127.0.0.0/8"
{SUBSCRIPTION}
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
linger.ms = 500
{credential_lines("alice", PASSWORD)}
"""
    port = free_port()
    with Forwarder(port, header) as forwarder:
        advertised = f"advertised.listeners=EXTERNAL://127.0.0.1:{forwarder.port}"
        node = Node(tmp_path, f"listeners=EXTERNAL://127.0.0.1:{port}", advertised, config=config)
        with node:
            record = pushed_by(
                node,
                "EXTERNAL",
                "far-away",
                through=f"127.0.0.1:{forwarder.port}",
                security_protocol="sasl_ssl",
                sasl_mechanism="SCRAM-SHA-512",
                sasl_username="alice",
                sasl_password=PASSWORD,
                **trust(authority),
            )
    assert (record["client_source_address"], record["client_source_port"]) == ("203.0.113.9", 40_000)
    assert record["principal"] == "User:alice"


def test_sighup_takes_new_certificates_and_users_and_refuses_bad_ones_whole(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first", "First CA"), Authority(tmp_path / "second", "Second CA")
    keystore = tmp_path / "server.pem"
    keystore.write_text(first.issue("server", "/CN=localhost").keystore.read_text())
    base = f"""
listener.security.protocol.map = "EXTERNAL:SASL_SSL"
ssl.keystore.location = "{keystore}"
{SUBSCRIPTION}
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
linger.ms = 500
"""
    sasl = {"security_protocol": "sasl_ssl", "sasl_mechanism": "SCRAM-SHA-256", "sasl_password": PASSWORD}
    with Node(tmp_path, "listeners=EXTERNAL://127.0.0.1:0", config=base + credential_lines("alice", PASSWORD)) as node:
        assert node.process is not None
        pushed_by(node, "EXTERNAL", "before", **sasl, sasl_username="alice", **trust(first))
        keystore.write_text(second.issue("server", "/CN=localhost").keystore.read_text())
        node.reread(base + credential_lines("bob", PASSWORD))
        record = pushed_by(node, "EXTERNAL", "after", **sasl, sasl_username="bob", **trust(second))
        assert record["principal"] == "User:bob"
        keystore.write_text("nonsense")
        node.process.send_signal(signal.SIGHUP)
        refused = "must hold a private key and its certificate in PEM form"
        wait_for(node.log.read_text, "the refusal in the log", until=lambda text: refused in text)
        pushed_by(node, "EXTERNAL", "still", **sasl, sasl_username="bob", **trust(second))
