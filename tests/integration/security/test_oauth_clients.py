"""SASL OAUTHBEARER with real clients, bad tokens by hand, and endpoints of keys that hang and lie."""

import contextlib
import gzip
import json
import select
import socket
import struct
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer
from support.brokers.kafka_jars import kafka_jars
from support.clients.java_clients import java_program
from support.clients.raw_client import RawClient
from support.clients.raw_sasl import authenticate, handshake, is_served
from support.fleet.landing import landed
from support.programs.node import Node
from support.tokens import AUDIENCE, ISSUER, Issuer, initial_response, jwks, jwks_file, unsigned
from support.waiting import PATIENCE_S, follow, ticking, unfollow, wait_for

from fleetgauge.wire.oauth.jwks import Jwks, JwksSettings
from fleetgauge.wire.sasl.oauthbearer import KeysUnavailableError

pytestmark = pytest.mark.integration

INVALID = b'{"status":"invalid_token"}'
JAVAS_TOKEN_S, LIBRDKAFKAS_TOKEN_S = 20, 15
"""Java renews its session in the last 5 to 15 hundredths of this time, with the next push; librdkafka in the last
fifth."""
GOOD, NEXT = Issuer("good"), Issuer("next", "ES256")


class Endpoint(BaseHTTPRequestHandler):
    """Answers with the keys, or as `act` says."""

    act: ClassVar[Callable[["Endpoint"], None] | None] = None
    keys: ClassVar[bytes] = jwks(GOOD)
    asked: ClassVar[int] = 0
    ended: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        type(self).asked += 1
        if (act := type(self).act) is not None:
            act(self)
        else:
            self.reply(type(self).keys)

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def hang(_: Endpoint) -> None:
    Endpoint.ended.wait(PATIENCE_S)


def trickle(handler: Endpoint) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not Endpoint.ended.wait(0.2):
            handler.wfile.write(b" ")


def trickle_head(handler: Endpoint) -> None:
    with contextlib.suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Head: ")
        while not Endpoint.ended.wait(0.1):
            handler.wfile.write(b"x")


def pour(handler: Endpoint) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not Endpoint.ended.is_set():
            handler.wfile.write(b" " * 65536)


@pytest.fixture
def endpoint() -> Iterator[str]:
    Endpoint.act, Endpoint.keys, Endpoint.asked, Endpoint.ended = None, jwks(GOOD), 0, threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/keys"
    Endpoint.ended.set()
    server.shutdown()
    server.server_close()


def config(url: str) -> str:
    return f"""
listener.security.protocol.map = "WORDS:SASL_PLAINTEXT"
sasl.enabled.mechanisms = "OAUTHBEARER"
sasl.oauthbearer.jwks.endpoint.url = "{url}"
sasl.oauthbearer.expected.audience = "{AUDIENCE}"
sasl.oauthbearer.expected.issuer = "{ISSUER}"
sasl.oauthbearer.clock.skew.seconds = 1
connection.failed.authentication.delay.ms = 0
[client-metrics.everything]
metrics = "*"
interval.ms = 500
[exporters.landing]
type = "landing"
linger.ms = 500
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("node")
    url = jwks_file(directory / "jwks.json", GOOD)
    with Node(directory, "listeners=WORDS://127.0.0.1:0", config=config(url)) as running:
        yield running


def kept(node: Node) -> int:
    """How many more sessions were renewed than ended with their token: a busy machine may be late with a renewal, and
    its client then begins another session."""
    found = node.status()["connections"][0]
    return int(found["successful_reauthentications"]) - int(found["closed"].get("session_expired", 0))


def is_enough(pushes_and_kept: tuple[int, int]) -> bool:
    pushes, kept_sessions = pushes_and_kept
    return pushes > 0 and kept_sessions > 1


def closed(node: Node, reason: str) -> int:
    return int(node.status()["connections"][0]["closed"].get(reason, 0))


def log_in(node: Node, message: bytes) -> tuple[RawClient, int, bytes]:
    """A connection, and the error code and the token of the answer to an initial response."""
    client = RawClient(node.port)
    try:
        client.send(handshake("OAUTHBEARER"))
        client.receive_frame()
        client.send(authenticate(message))
        frame = client.receive_frame()
    except BaseException:
        client.close()
        raise
    code, length = struct.unpack_from(">hh", frame, 4)
    at = 8 + max(length, 0)
    (size,) = struct.unpack_from(">i", frame, at)
    return client, int(code), frame[at + 4 : at + 4 + size] if not code else frame[8:at]


def test_librdkafka_pushes_as_its_tokens_user_and_renews_its_session(node: Node) -> None:
    tokens: list[str] = []

    def fetch(_: str) -> tuple[str, float]:
        tokens.append(GOOD.token(user="orders", lasts_s=LIBRDKAFKAS_TOKEN_S))
        return tokens[-1], time.time() + LIBRDKAFKAS_TOKEN_S

    before = kept(node)
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "client.id": "by-token",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": fetch,
        }
    )

    def pushes_and_kept() -> tuple[int, int]:
        producer.poll(0.2)
        pushes = [each for each in landed(node.data / "landing") if each["client_id"] == "by-token"]
        return len(pushes), kept(node) - before

    wait_for(pushes_and_kept, "a push, and a session renewed twice", until=is_enough)
    producer.close()
    assert {each["principal"] for each in landed(node.data / "landing") if each["client_id"] == "by-token"} == {
        "User:orders"
    }
    assert len(tokens) > 1
    assert tokens[0] not in node.output()


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_java_pushes_as_its_tokens_user_and_renews_its_session(node: Node, tmp_path: Path, version: str) -> None:
    before = kept(node)
    with (
        java(node, tmp_path, version, GOOD.token(user=f"java-{version}", lasts_s=JAVAS_TOKEN_S)) as (process, file),
        renewed(file, f"java-{version}"),
    ):
        assert process.stdout is not None
        assert len(process.stdout.readline().strip()) == 22, (tmp_path / "client.log").read_text()[-3000:]

        def pushes_and_kept() -> tuple[int, int]:
            pushes = [each for each in landed(node.data / "landing") if each["principal"] == f"User:java-{version}"]
            return len(pushes), kept(node) - before

        wait_for(pushes_and_kept, "a push, and a session renewed twice", until=is_enough)


def test_java_with_a_strangers_token_is_told_in_the_words_of_rfc_7628(tmp_path: Path) -> None:
    url = jwks_file(tmp_path / "jwks.json", GOOD)
    # A node of its own: failures are logged once a minute.
    with Node(tmp_path, "listeners=WORDS://127.0.0.1:0", config=config(url)) as node:
        with java(node, tmp_path, "4.3.1", Issuer("good").token()) as (process, _):
            assert process.stdout is not None
            assert "invalid_token" in process.stdout.readline()
        assert "InvalidSignature" in node.output()


@contextlib.contextmanager
def renewed(file: Path, user: str) -> Iterator[None]:
    """Has a new token in the file each second: the first login of a JVM may come late."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(1.0):
            file.with_suffix(".next").write_text(GOOD.token(user=user, lasts_s=JAVAS_TOKEN_S))
            file.with_suffix(".next").replace(file)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextlib.contextmanager
def java(node: Node, directory: Path, version: str, token: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    file = directory / "token.jwt"
    file.write_text(token)
    (directory / "client.properties").write_text(
        f"bootstrap.servers=127.0.0.1:{node.port}\nclient.id=java-{version}\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    command = java_program(version, "LonelyProducer", kafka_jars(version))
    command[1:1] = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"]
    written = directory / "client.log"
    with written.open("wb") as log:
        process = subprocess.Popen(
            [*command, str(directory / "client.properties")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    watchdog = threading.Timer(2 * PATIENCE_S, process.kill)
    watchdog.start()
    follow(written)
    try:
        yield process, file
    finally:
        unfollow(written)
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("make", "code", "answer"),
    [
        (lambda: initial_response(GOOD.token()), 0, b""),
        (lambda: initial_response(GOOD.token(), authzid="orders"), 0, b""),
        (lambda: initial_response(GOOD.token(), authzid="billing"), 0, INVALID),
        (lambda: initial_response(unsigned(GOOD.token())), 0, INVALID),
        (lambda: initial_response(GOOD.token(exp=time.time() - 100)), 0, INVALID),
        (lambda: initial_response("a.b.c"), 0, INVALID),
        (lambda: b"n,,\x01auth=Basic abc\x01\x01", 58, b"invalid credentials with SASL mechanism OAUTHBEARER"),
        (lambda: b"", 58, b"invalid credentials"),
        (lambda: b"\x01", 58, b"invalid credentials"),
        (lambda: initial_response("a" * 20_000), 58, b"invalid credentials"),
    ],
)
def test_a_token_is_answered_as_rfc_7628_wants(node: Node, make: Callable[[], bytes], code: int, answer: bytes) -> None:
    client, found, text = log_in(node, make())
    with client:
        assert found == code
        assert answer in text
        if answer == INVALID:
            assert not text.removeprefix(INVALID)
            client.send(authenticate(b"\x01", 3))
            frame = client.receive_frame()
            assert struct.unpack_from(">h", frame, 4) == (58,)
            assert json.loads(frame[8 : 8 + len(INVALID)]) == {"status": "invalid_token"}
        elif not code:
            assert is_served(client)


def test_a_token_of_a_megabyte_ends_its_connection_and_disturbs_nobody(node: Node) -> None:
    before = closed(node, "frame_too_large")
    with pytest.raises((OSError, EOFError)):
        log_in(node, initial_response("a" * (1 << 20)))
    wait_for(partial(closed, node, "frame_too_large"), "the end to be counted", until=lambda number: number > before)
    client, code, _ = log_in(node, initial_response(GOOD.token()))
    with client:
        assert code == 0


def test_a_session_ends_with_its_token(node: Node) -> None:
    before = closed(node, "session_expired")
    client, code, _ = log_in(node, initial_response(GOOD.token(lasts_s=5)))

    def has_ended() -> bool:
        try:
            return not is_served(client)
        except (OSError, EOFError):
            return True

    with client:
        assert code == 0
        assert is_served(client)
        wait_for(has_ended, "the end of the session")
    wait_for(partial(closed, node, "session_expired"), "the end to be counted", until=lambda number: number > before)


@pytest.mark.parametrize(
    "act",
    [
        hang,
        trickle,
        pour,
        lambda each: each.reply(gzip.compress(bytes(64 << 20)), Content_Encoding="gzip"),
        lambda each: each.reply(json.dumps({"keys": json.loads(jwks(GOOD))["keys"] * 10_000}).encode()),
        lambda each: each.reply(json.dumps({"keys": [{}] * 10_000}).encode()),
        lambda each: each.reply(b"<html>sign in</html>"),
        lambda each: each.reply(b"", 302, Location="http://127.0.0.1:1/"),
        lambda each: each.reply(jwks(NEXT), 500),
        lambda each: each.reply(b'{"keys": [{"kty": "oct", "kid": "good", "k": "YWJj"}]}'),
        lambda each: each.connection.close(),
    ],
)
def test_an_endpoint_that_hangs_or_lies_gives_no_keys_until_it_gives_them(
    endpoint: str, act: Callable[[Endpoint], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetgauge.wire.oauth.jwks.FETCH_WITHIN_S", 0.5)
    Endpoint.act = act
    keys = Jwks(JwksSettings(url=endpoint, retry_backoff_max_ms=200))
    wait_for(lambda: Endpoint.asked, "a request at the endpoint")
    for _ in range(3):
        with pytest.raises(KeysUnavailableError):
            keys.find("good", "RS256")
    Endpoint.act = None
    Endpoint.ended.set()
    wait_for(lambda: _found(keys), "the keys")


@pytest.mark.parametrize("act", [hang, trickle, trickle_head])
def test_an_answer_that_has_no_end_keeps_no_later_reading_from_its_turn(
    endpoint: str, act: Callable[[Endpoint], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetgauge.wire.oauth.jwks.FETCH_WITHIN_S", 0.5)
    Endpoint.act = act
    keys = Jwks(JwksSettings(url=endpoint, retry_backoff_max_ms=200))
    wait_for(lambda: Endpoint.asked, "a request at the endpoint")
    Endpoint.act = None  # the first answer goes on
    wait_for(lambda: _found(keys), "the keys")


@pytest.mark.parametrize("is_trickled", [False, True])
def test_a_tls_handshake_that_has_no_end_keeps_no_later_reading_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_trickled: bool
) -> None:
    monkeypatch.setattr("fleetgauge.wire.oauth.jwks.FETCH_WITHIN_S", 3.0)
    ended = threading.Event()

    def stall(peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            assert peer.recv(65_536).startswith(b"\x16\x03"), "a ClientHello"
            if is_trickled:
                peer.sendall(b"\x16\x03\x03\x40\x00\x02\x00\xff\xfc")  # begins a ServerHello of 64 KiB
                while not select.select([peer], [], [], 0.1)[0]:
                    peer.sendall(b"\0")
            peer.recv(1)
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        keys = Jwks(JwksSettings(url=f"https://127.0.0.1:{server.getsockname()[1]}/keys", retry_backoff_max_ms=200))
        first, _ = server.accept()
        with first:
            threading.Thread(target=stall, args=(first,), daemon=True).start()
            second, _ = server.accept()
            second.close()
            assert ended.wait(PATIENCE_S)
    # Keys are read for as long as the process lives: these shall not be asked of the server that is gone, and log it.
    keys._settings = JwksSettings(url=jwks_file(tmp_path / "jwks.json", GOOD))
    wait_for(lambda: _found(keys), "the keys")


def test_an_answer_that_expands_without_bound_is_not_decompressed_as_a_whole(
    endpoint: str,
) -> None:
    bomb = gzip.compress(bytes(256 << 20))
    Endpoint.act = lambda each: each.reply(bomb, Content_Encoding="gzip")
    tracemalloc.start()
    try:
        keys = Jwks(JwksSettings(url=endpoint))
        wait_for(lambda: Endpoint.asked, "a second request at the endpoint", until=lambda asked: asked >= 2)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    Endpoint.act = None
    wait_for(lambda: _found(keys), "the keys")


def _found(keys: Jwks) -> bool:
    with contextlib.suppress(KeysUnavailableError):
        return len(keys.find("good", "RS256")) == 1
    return False


def test_while_the_endpoint_hangs_clients_are_put_off_and_the_node_serves(tmp_path: Path, endpoint: str) -> None:
    Endpoint.act = hang
    with Node(tmp_path, "listeners=WORDS://127.0.0.1:0", config=config(endpoint)) as node:
        for _ in range(3):
            with pytest.raises((OSError, EOFError)):  # no answer: every error code would be fatal to the client
                log_in(node, initial_response(GOOD.token()))
        status = node.wait_for(
            lambda s: s["connections"][0]["closed"].get("token_keys_unavailable") == 3, what="three closed connections"
        )
        assert status["connections"][0]["failed_authentications"] == 0
        Endpoint.act = None
        Endpoint.ended.set()
        wait_for(lambda: _is_let_in(node, GOOD), "a login")


def test_keys_that_the_issuer_has_replaced_are_read_when_a_token_names_one(tmp_path: Path, endpoint: str) -> None:
    with Node(tmp_path, "listeners=WORDS://127.0.0.1:0", config=config(endpoint)) as node:
        wait_for(lambda: _is_let_in(node, GOOD), "a login")
        Endpoint.keys = jwks(NEXT)
        wait_for(lambda: _is_let_in(node, NEXT), "a login by the new key")
        asked = Endpoint.asked
        # In less than the ten seconds after which an unknown key may have the keys read again.
        for number, _ in zip(range(50), ticking(9.0, every_s=0.0), strict=False):
            assert not _is_let_in(node, Issuer(f"made-up-{number}", "ES256"))
        assert Endpoint.asked <= asked + 2
        assert not _is_let_in(node, GOOD)


def _is_let_in(node: Node, issuer: Issuer) -> bool:
    try:
        client, code, text = log_in(node, initial_response(issuer.token()))
    except (OSError, EOFError):
        return False
    with client:
        return code == 0 and text == b""
