"""The HTTP port of a real node: health, readiness, its own troubles, and peers that are slow, many or malformed."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient, get_request
from support.http import HttpAnswer, address_of, get, get_at, raw, read_to_end, reset, responses_of, url_of
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

HTTP = "http.listeners=http://127.0.0.1:0"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("http"), HTTP) as running:
        yield running


@pytest.fixture(autouse=True)
def it_still_serves(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does to the shared node, it serves HTTP and a well-behaved client after it."""
    yield
    if "node" in request.fixturenames:
        node = request.getfixturevalue("node")
        wait_for(lambda: get(node, "/healthz").json(), "an answer", until=lambda found: found == {"status": "ok"})
        with RawClient(node.port) as client:
            assert client.push(client.get(), metrics_data()).error_code == 0


def test_a_node_that_serves_is_healthy_and_ready_and_says_where(node: Node) -> None:
    assert get(node, "/healthz").status == 200
    wait_for(
        lambda: get(node, "/readyz").json(),
        "it to be ready",
        until=lambda found: found == {"ready": True, "reasons": []},
    )
    assert set(get(node, "/").json()["endpoints"]) == {"/healthz", "/readyz", "/metrics", "/clients"}
    assert url_of(node) in run_cli("status", "--log-dirs", str(node.data)).stdout
    wait_for(node.output, "the address at the start", until=lambda said: f"http          {url_of(node)}" in said)


def test_no_answer_is_kept_by_caches_or_taken_for_another_type(node: Node) -> None:
    for path, status in (("/", 200), ("/clients", 200), ("/metrics", 200), ("/nowhere", 404), ("/clients?x=1", 400)):
        answer = get(node, path)
        assert answer.status == status
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/<script>", 404, "the paths are /healthz, /readyz, /metrics, /clients"),
        ("/clients/../metrics", 404, "nothing is served at this path"),
        ("/clients?<script>=1", 400, "parameters are instance_id"),
        ("/clients?state=<script>", 400, "states are ended"),
        ("/clients?state=live&state=late", 400, "at most once"),
        ("/clients?sort=<script>", 400, "sort has to be one of client_instance_id"),
        ("/clients?order=up", 400, "asc or desc"),
        ("/clients?format=xml", 400, "json or jsonl"),
        ("/clients?limit=0", 400, "between 1 and 5000"),
        ("/clients?limit=-1", 400, "limit is a number"),
        ("/clients?limit=99999999999999999999", 400, "limit is a number"),
        ("/clients?instance_id=<script>", 400, "22 characters"),
        ("/clients?after=<script>", 400, "cursor"),
        ("/clients?" + "&".join(f"a{i}=1" for i in range(50)), 400, ""),
        ("/healthz?x=1", 400, "no parameters"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_that_repeats_nothing(
    node: Node, path: str, status: int, says: str
) -> None:
    with raw(node) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = read_to_end(connection).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert says in answer
    assert "<script" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get"])
def test_it_only_reads(node: Node, method: str) -> None:
    answer = get(node, "/clients", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:9464", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
    ],
)
def test_a_page_elsewhere_cannot_have_a_browser_read_the_loopback_address(node: Node, host: str, status: int) -> None:
    assert get(node, "/clients", headers={"Host": host}).status == status


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, 400),
        (b"\r\n" * 20_000, 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n", 421),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 9_999, 413),
        (
            b"POST /clients HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + b"y" * 99,
            413,
        ),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (get_request(1, None), 400),
        (random.Random(4).randbytes(4_096) + b"\r\n\r\n", 400),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) and len(value) > 5 else None,
)
def test_garbage_is_answered_with_one_error_in_one_sentence(node: Node, request_bytes: bytes, status: int) -> None:
    with raw(node) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        [(found, body)] = responses_of(read_to_end(connection))
    assert found == status
    assert json.loads(body).keys() == {"error"}
    assert body.count(b"\n") == 3


def test_several_requests_are_served_on_one_connection_in_order(node: Node) -> None:
    with raw(node) as connection:
        one = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
        connection.sendall(
            one % (b"healthz", b"") + one % (b"nowhere", b"") + one % (b"readyz", b"Connection: close\r\n")
        )
        found = responses_of(read_to_end(connection))
    assert [status for status, _ in found] == [200, 404, 200]
    assert json.loads(found[0][1]) == {"status": "ok"}
    assert json.loads(found[2][1]) == {"ready": True, "reasons": []}


def test_requests_that_come_in_single_bytes_or_behind_each_other_are_answered_alike(node: Node) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with raw(node) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in request:
            connection.sendall(bytes([each]))
        connection.sendall(request * 50 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = responses_of(read_to_end(connection))
    assert [(status, json.loads(body)) for status, body in found] == [(200, {"status": "ok"})] * 52


def test_a_head_request_gets_the_same_head_and_no_body(node: Node) -> None:
    for path in ("/healthz", "/clients", "/nowhere"):
        whole, head = get(node, path), get(node, path, method="HEAD")
        assert (head.status, head.body) == (whole.status, b"")
        assert head.headers["Content-Length"] == str(len(whole.body))


def test_connections_that_are_reset_leave_nothing_in_the_log(node: Node) -> None:
    """200 TCP checks made 200 tracebacks once, 16 MB of log in 10 s."""
    address = address_of(node)
    before = wait_for(node.log.read_text, "the last line of the start", until=lambda said: "look at it" in said)
    for request in (b"", b"GET /metrics HTTP/1.1\r\nHo", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        for _ in range(200):
            reset(address, request)
        assert get_at(*address, "/metrics").status == 200
    assert node.log.read_text() == before


def test_idle_connections_make_room_for_those_who_ask(node: Node) -> None:
    idle = [raw(node) for _ in range(300)]
    try:
        for path in ("/healthz", "/metrics", "/clients"):
            assert get(node, path).status == 200
        wait_for(
            lambda: sum(read_is_over(each) for each in idle),
            "the end of idle connections",
            until=lambda ended: ended >= 300 - 64,
        )
    finally:
        for each in idle:
            each.close()


def read_is_over(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_who_sends_its_request_by_drops_is_cut_off_and_keeps_nobody(node: Node) -> None:
    slow = [raw(node) for _ in range(100)]
    try:
        for each in slow:
            with contextlib.suppress(ConnectionError):
                each.sendall(b"GET /hea")
        wait_for(lambda: get(node, "/healthz"), "an answer to somebody else", until=is_ok, ignoring=(OSError,))
        wait_for(
            lambda: sum(not read_is_over(each) for each in slow),
            "the slow ones to be cut off",
            until=lambda left: left == 0,
        )
    finally:
        for each in slow:
            each.close()


def is_ok(answer: HttpAnswer) -> bool:
    return answer.status == 200


def test_who_does_not_read_keeps_neither_the_others_nor_the_pushes(tmp_path: Path) -> None:
    with Node(
        tmp_path, HTTP, "telemetry.client.instances.max=30000", "telemetry.max.new.instance.rate.per.ip=0"
    ) as node:
        slow = []
        with RawClient(node.port, client_id="x" * 500) as many, RawClient(node.port) as client:
            for _ in range(40):
                many.send(b"".join(get_request(index, None, f"{index}" + "x" * 600) for index in range(500)))
                for _ in range(500):
                    many.receive_frame()
            subscription = client.get()
            for _ in range(8):
                connection = raw(node)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                connection.sendall(b"GET /clients?format=jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n")
                slow.append(connection)
            assert client.push(subscription, metrics_data()).error_code == 0
            assert get(node, "/healthz").status == 200
            assert get(node, "/metrics").status == 200
            wait_for(lambda: get(node, "/clients"), "listings to be free again", until=is_ok)
        for connection in slow:
            connection.close()


def test_a_push_log_without_room_is_not_ready_and_says_why(tmp_path: Path) -> None:
    with Node(tmp_path, HTTP, f"push.log.min.free.bytes={1 << 60}") as node:
        answer = get(node, "/readyz")
        assert answer.status == 503
        (reason,) = answer.json()["reasons"]
        assert "push.log.min.free.bytes" in reason
        assert get(node, "/healthz").status == 200
        assert "fleetgauge_ready 0.0" in get(node, "/metrics").body.decode()
        assert "not ready" in run_cli("status", "--log-dirs", str(node.data)).stdout


def test_a_node_whose_loop_does_not_turn_is_not_healthy_until_it_does(tmp_path: Path) -> None:
    with Node(tmp_path, HTTP) as node:
        assert node.process is not None
        host, port = address_of(node)
        wait_for(lambda: get_at(host, port, "/healthz"), "a node that is healthy", until=is_ok)
        node.process.send_signal(signal.SIGSTOP)
        try:
            for path in ("/healthz", "/readyz"):
                answer = get_at(host, port, path)
                assert answer.status == 503
                assert "did not answer within" in answer.json()["reasons"][0]
            assert get_at(host, port, "/clients").status == 503
            assert get_at(host, port, "/metrics").status == 503
        finally:
            node.process.send_signal(signal.SIGCONT)
        wait_for(lambda: get_at(host, port, "/readyz"), "the node to be ready again", until=is_ok)


def test_the_http_process_is_started_again_when_it_dies(tmp_path: Path) -> None:
    with Node(tmp_path, HTTP) as node:
        address = address_of(node)
        status = node.wait_for(lambda s: s["http"]["pid"] is not None, what="the HTTP process")
        os.kill(status["http"]["pid"], signal.SIGKILL)
        assert get_at(*address, "/healthz").status == 200, "who asks meanwhile waits for it"
        node.wait_for(lambda s: s["http"]["restarts"] == 1 and s["http"]["pid"] is not None, what="its restart")
        assert address_of(node) == address
        assert node.stop() == 0, node.output()


def test_the_http_process_ends_with_a_node_that_is_killed(tmp_path: Path) -> None:
    with Node(tmp_path, HTTP) as node:
        address = address_of(node)
        assert get_at(*address, "/healthz").status == 200
        node.kill()
        wait_for(lambda: is_refused(address), "the port to be free")


def is_refused(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=PATIENCE_S):
            return False
    except ConnectionError:
        return True


def test_a_stopping_node_is_not_ready_and_open_connections_do_not_keep_it(tmp_path: Path) -> None:
    config = '[exporters.away]\ntype = "otlp"\nendpoint = "http://127.0.0.1:1"\n'
    with Node(tmp_path, HTTP, "shutdown.timeout.ms=15000", config=config) as node:
        address = address_of(node)
        wait_for(lambda: get_at(*address, "/readyz"), "the HTTP process", until=is_ok)
        with RawClient(node.port) as client:
            assert client.push(client.get(), metrics_data()).error_code == 0
        idle, half, reading = raw(node), raw(node), raw(node)
        half.sendall(b"GET /clients HTTP/1.1\r\nHo")
        reading.sendall(b"GET /clients HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert node.process is not None
        node.process.send_signal(signal.SIGTERM)
        said = {"ready": False, "reasons": ["the node is stopping"]}
        wait_for(
            lambda: get_at(*address, "/readyz"),
            "an answer of a node that is stopping",
            until=lambda answer: (answer.status, answer.json()) == (503, said),
        )
        assert node.process.wait(PATIENCE_S) == 0, node.output()
        for connection in (idle, half):
            assert read_to_end(connection) == b""
        assert b"200 OK" in read_to_end(reading)
        for connection in (idle, half, reading):
            connection.close()
        assert is_refused(address)
        assert "Traceback" not in node.output()


def test_a_port_that_is_taken_stops_the_start_only_where_it_is_configured(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        keys = (f"log.dirs={tmp_path / 'data'}", "listeners=PLAINTEXT://127.0.0.1:0")
        overrides = [f"--override={key}" for key in (*keys, f"http.listeners=http://127.0.0.1:{port}")]
        ended = subprocess.run(
            [sys.executable, "-m", "fleetgauge", "serve", *overrides],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 1
    assert f"http.listeners: http://127.0.0.1:{port} cannot be bound: Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_node_without_configuration_serves_its_clients_when_another_has_the_http_port(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        is_ours = False
        with contextlib.suppress(OSError):  # some other node of this machine has it already: as good
            stack.enter_context(socket.create_server(("127.0.0.1", 9465)))
            is_ours = True
        node = Node(tmp_path)
        node._overrides = tuple(each for each in node._overrides if not each.startswith("http."))
        with node, RawClient(node.port) as client:
            http = node.status()["http"]
            assert http["listeners"] == []
            assert "http://127.0.0.1:9465 cannot be bound" in http["off"]
            shown = run_cli("status", "--log-dirs", str(node.data)).stdout
            assert "off: http://127.0.0.1:9465 cannot be bound" in shown
            assert client.push(client.get(), metrics_data()).error_code == 0
            assert "raw" in run_cli("clients", "--log-dirs", str(node.data)).stdout
            stack.close()
            if is_ours:  # it is retried, and served once it is free
                wait_for(
                    lambda: node.status()["http"],
                    "the default port",
                    until=lambda http: http["listeners"] == ["http://127.0.0.1:9465"] and not http["off"],
                )
                assert get(node, "/healthz").status == 200
