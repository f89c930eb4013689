"""Who may use the HTTP ports: logins, roles, TLS, client certificates, guesses; with a server of each test's own."""

import asyncio
import base64
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs
from support.certificates import Authority
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.http.access import MAX_FAILURES, Access, AccessSettings
from fleetgauge.http.connection import USER, HttpSettings
from fleetgauge.http.server import HttpServer
from fleetgauge.http.users import token_hash
from fleetgauge.wire.sasl.credentials import ScramCredential, ScramMechanism
from fleetgauge.wire.tls.server import ClientAuth, TlsSettings

pytestmark = pytest.mark.integration

PASSWORD = "correct horse battery staple"
TOKEN = "0123456789abcdef0123"
CHALLENGE = 'Basic realm="Fleetgauge", charset="UTF-8", Bearer realm="Fleetgauge"'


def users_file(path: Path, password: str = PASSWORD, *, more: str = "") -> Path:
    credential = ScramCredential.make(ScramMechanism.SCRAM_SHA_512, password, iterations=4096)
    whole = path.with_suffix(".new")  # and not the file itself, which may be read half
    whole.write_text(
        f'[prometheus]\nrole = "read"\nscram-sha-512 = "{credential}"\n\n'
        f'[deploy]\nrole = "operate"\ntoken-sha-256 = "{token_hash(TOKEN)}"\n\n{more}'
    )
    return whole.replace(path)


async def _who(request: Request) -> PlainTextResponse:
    user = request.scope.get(USER)
    return PlainTextResponse("nobody" if user is None else f"{user.name} {user.role}")


async def _whence(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.client.host if request.client else "")


@contextmanager
def serving(
    settings: AccessSettings, *, bound: socket.socket | None = None, **bounds: Any
) -> Iterator[tuple[str, int]]:
    """A server that answers with the user and the role of each request."""
    bound = bound or socket.create_server(("127.0.0.1", 0))
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    routes = [Route("/", _who, methods=["GET", "POST"]), Route("/healthz", _who), Route("/whence", _whence)]
    app = Starlette(routes=routes)

    async def serve() -> None:
        bounded = HttpSettings(open_paths=frozenset({"/healthz"}), body_prefix="/", **bounds)
        server = HttpServer([(bound, settings.tls is not None)], app, bounded, Access(settings))
        await server.start()
        await ended.wait()
        await server.stop(0.5)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    address = bound.getsockname()
    thread.start()
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(PATIENCE_S)
        loop.close()
        assert not thread.is_alive()


def ask(
    address: tuple[str, int], authorization: str = "", *, path: str = "/", tls: ssl.SSLContext | None = None
) -> tuple[int, str, Any]:
    """Status, text and headers of an answer."""
    connection = (
        HTTPConnection(*address, timeout=PATIENCE_S)
        if tls is None
        else HTTPSConnection(*address, timeout=PATIENCE_S, context=tls)
    )
    try:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "found"),
    [
        (basic("prometheus", PASSWORD), (200, "prometheus read")),
        (f"Bearer {TOKEN}", (200, "deploy operate")),
        (f"bearer  {TOKEN}", (200, "deploy operate")),
        ("", (401, "")),
        (basic("prometheus", PASSWORD + "x"), (401, "")),
        (basic("prometheus", ""), (401, "")),
        (basic("deploy", TOKEN), (401, "")),
        (basic("nobody", PASSWORD), (401, "")),
        ("Basic !!!", (401, "")),
        ("Basic " + base64.b64encode(b"\xff\xfe:x").decode(), (401, "")),
        ("Bearer " + "x" * 8000, (401, "")),
        (f"Bearer {token_hash(TOKEN)}", (401, "")),
        ("Digest username=prometheus", (401, "")),
    ],
)
def test_only_users_get_an_answer_and_the_rest_a_challenge(
    tmp_path: Path, authorization: str, found: tuple[int, str]
) -> None:
    with serving(AccessSettings(users_file=users_file(tmp_path / "users.toml"))) as address:
        status, text, headers = ask(address, authorization)
        assert status == found[0]
        if status == 200:
            assert text == found[1]
        else:
            assert headers["WWW-Authenticate"] == CHALLENGE
            assert list(json.loads(text)) == ["error"]
            assert PASSWORD not in text
            assert TOKEN not in text
        assert ask(address, path="/healthz")[:2] == (200, "nobody")


def test_without_users_all_may_read_and_the_operators_token_may_more() -> None:
    with serving(AccessSettings(operator_token=TOKEN)) as address:
        assert ask(address)[:2] == (200, " read")
        assert ask(address, basic("of", "a proxy"))[:2] == (200, " read")
        assert ask(address, f"Bearer {TOKEN}")[:2] == (200, "operator operate")
        assert ask(address, "Bearer wrong")[0] == 401


def test_guesses_are_slowed_counted_and_logged_and_hold_up_no_known_user(tmp_path: Path) -> None:
    with capture_logs() as logs, serving(AccessSettings(users_file=users_file(tmp_path / "users.toml"))) as address:
        known = basic("prometheus", PASSWORD)
        assert ask(address, known)[0] == 200
        with ThreadPoolExecutor(8) as pool:
            guesses = [
                basic("prometheus\x1b[31m" if n % 2 else "prometheus", f"guess {n}") for n in range(3 * MAX_FAILURES)
            ]
            statuses = list(pool.map(lambda each: ask(address, each)[0], guesses))
            assert set(statuses) <= {401, 429, 503}
            assert statuses.count(401) <= MAX_FAILURES
        assert ask(address, basic("prometheus", "another guess"))[0] == 429
        assert ask(address, "Bearer wrong")[0] == 429
        assert ask(address, known)[0] == 200
        assert ask(address, f"Bearer {TOKEN}")[0] == 200
    lines = [each for each in logs if each["event"] == "http.authentication_failed"]
    assert lines
    assert len(lines) < 10
    assert {each["user"] for each in lines} <= {"prometheus", "(none that exists)"}
    assert "guess" not in str(logs)


REREAD, NOT_REREAD = "http.files_reread", "http.files_not_reread"


def events_of(address: tuple[str, int], logs: Sequence[MutableMapping[str, Any]]) -> Callable[[], list[str]]:
    """Reads what was logged, after a request: files are looked at when one comes."""

    def read() -> list[str]:
        ask(address)
        return [each["event"] for each in logs]

    return read


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = users_file(tmp_path / "users.toml")
    with capture_logs() as logs, serving(AccessSettings(users_file=path)) as address:
        assert ask(address, basic("prometheus", PASSWORD))[0] == 200
        (tmp_path / "broken").write_text("[broken")
        (tmp_path / "broken").replace(path)
        wait_for(events_of(address, logs), "the file to be refused", until=lambda found: NOT_REREAD in found)
        assert ask(address, basic("prometheus", PASSWORD))[0] == 200
        users_file(path, "a new password")
        wait_for(events_of(address, logs), "the new file", until=lambda found: REREAD in found)
        assert ask(address, basic("prometheus", PASSWORD))[0] == 401
        assert ask(address, basic("prometheus", "a new password"))[0] == 200


def test_a_file_that_never_ends_to_open_is_refused_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = users_file(tmp_path / "users.toml")
    with capture_logs() as logs, serving(AccessSettings(users_file=path)) as address:
        assert ask(address, basic("prometheus", PASSWORD))[0] == 200
        path.unlink()
        os.mkfifo(path)
        wait_for(events_of(address, logs), "the file to be refused", until=lambda found: NOT_REREAD in found)
        assert f"{path} is not a regular file" in str(logs)
        path.unlink()
        users_file(path, "a new password")
        wait_for(events_of(address, logs), "the new file", until=lambda found: REREAD in found)
        assert ask(address, basic("prometheus", "a new password"))[0] == 200


def test_tls_with_client_certificates_and_their_renewal(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server, other = authority.issue("server", "/CN=localhost"), authority.issue("other", "/CN=localhost/O=New")
    scraper, stranger = authority.issue("scraper", "/CN=scraper/O=Ops"), authority.issue("stranger", "/CN=stranger")
    store = tmp_path / "server.pem"
    store.write_text(server.keystore.read_text())
    tls = TlsSettings(
        keystore_location=str(store),
        truststore_location=str(authority.certificate),
        client_auth=ClientAuth.REQUESTED,
    )
    users = users_file(tmp_path / "users.toml", more='[ops]\nrole = "operate"\ncertificate = "O=Ops,CN=scraper"\n')

    def client(certificate: Any = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        return context

    def served() -> Any:
        with (
            socket.create_connection(address, timeout=PATIENCE_S) as plain,
            client().wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            return secure.getpeercert()["subject"]  # type: ignore[index]

    with serving(AccessSettings(users_file=users, tls=tls)) as address:
        assert ask(address, tls=client(scraper))[:2] == (200, "ops operate")
        assert ask(address, tls=client(stranger))[0] == 401
        assert ask(address, tls=client())[0] == 401
        assert ask(address, basic("prometheus", PASSWORD), tls=client())[:2] == (200, "prometheus read")
        before = served()
        store.write_text(other.keystore.read_text())
        wait_for(served, "the new certificate", until=lambda subject: subject != before)
        assert ask(address, tls=client(scraper))[:2] == (200, "ops operate")


def test_peers_that_begin_tls_and_say_no_more_keep_no_one_out(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    tls = TlsSettings(keystore_location=str(authority.issue("server", "/CN=localhost").keystore))
    client = ssl.create_default_context(cafile=str(authority.certificate))
    settings = AccessSettings(users_file=users_file(tmp_path / "users.toml"), tls=tls)
    with serving(settings, max_connections=4, request_within_s=10 * PATIENCE_S) as address:
        slow = socket.create_connection(address, timeout=PATIENCE_S)
        silent = [
            socket.create_connection(address, timeout=PATIENCE_S, source_address=("127.0.0.2", 0)) for _ in range(20)
        ]
        assert ask(address, f"Bearer {TOKEN}", tls=client)[0] == 200
        with client.wrap_socket(slow, server_hostname="localhost") as of_another_address:
            of_another_address.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert of_another_address.recv(12) == b"HTTP/1.1 401"
        wait_for(
            lambda: sum(_has_ended(each) for each in silent), "the end of most peers", until=lambda ended: ended >= 16
        )
        for each in silent:
            each.close()
        with socket.create_connection(address, timeout=PATIENCE_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert plain.recv(100) == b""


def _has_ended(peer: socket.socket) -> bool:
    peer.settimeout(0.01)
    try:
        return peer.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
def test_ipv4_clients_of_a_dual_stack_address_count_one_by_one(tmp_path: Path) -> None:
    settings = AccessSettings(users_file=users_file(tmp_path / "users.toml"))
    bound = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with serving(settings, bound=bound) as address, capture_logs() as logs:
        node = "127.0.0.1", address[1]
        assert ask(node, f"Bearer {TOKEN}", path="/whence")[:2] == (200, "127.0.0.1")
        assert ask(node, "Bearer of-another-service")[0] == 401
    assert [each["client"] for each in logs if each["event"] == "http.authentication_failed"] == ["127.0.0.1"]
