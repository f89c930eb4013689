"""The console of a real node, and alone; and peers that are slow, many or hostile."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from support.clients.raw_client import RawClient
from support.fleet.report_tables import HOSTILE
from support.http import HttpAnswer, address_of, get, get_at, raw, read_to_end, responses_of
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.console.api.events import MAX_STREAMS

pytestmark = pytest.mark.integration

HTTP = "http.listeners=http://127.0.0.1:0"
NAMES = {"one", *HOSTILE} - {""}
TOKEN = "0123456789abcdef-token"
POST = b"POST /api/session HTTP/1.1\r\nHost: localhost\r\n"
STREAM = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("console")
    (directory / "token").write_text(f"{TOKEN}\n")
    config = f'"console.operate.token.file" = "{directory / "token"}"\n'
    with Node(directory, HTTP, config=config) as running:
        push(running, *NAMES)
        yield running


def push(node: Node, *client_ids: str) -> None:
    for client_id in client_ids:
        with RawClient(node.port, client_id=client_id) as client:
            assert client.push(client.get(), metrics_data()).error_code == 0


def wait_for_fleet(node: Node) -> None:
    """Until the fleet is loaded, and has read what was pushed at the start."""
    wait_for(lambda: get(node, "/api/overview"), "all clients", until=lambda answer: clients_of(answer) >= len(NAMES))


def clients_of(overview: HttpAnswer) -> int:
    """How many clients a fleet has; 0 while it is loaded."""
    return int(overview.json()["clients"]["total"]) if overview.status == 200 else 0


def change(node: Node, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any], str]:
    connection = HTTPConnection(*address_of(node), timeout=PATIENCE_S)
    given = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, None if body is None else json.dumps(body), given)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found, answer.headers.get("Set-Cookie", "")


def test_clients_that_push_are_on_the_console_under_the_names_they_chose(node: Node) -> None:
    wait_for_fleet(node)
    rows = get(node, "/api/clients", limit="1000").json()["clients"]
    shown = {row["client_id"] for row in rows}
    assert {name[:1000] for name in NAMES} <= {name[:1000] for name in shown}
    one = next(row for row in rows if row["client_id"] == "one")
    found = get(node, f"/api/clients/{one['client_instance_id']}").json()
    assert found["client"]["client_id"] == "one"
    assert get(node, "/api/clients/" + "A" * 22).status == 404


def test_a_browser_is_served_the_page_and_its_files(node: Node) -> None:
    page = get(node, "/", headers={"Accept": "text/html"})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert get(node, "/static/console.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert get(node, "/openapi.json").json()["openapi"].startswith("3.")


def test_a_page_elsewhere_cannot_have_a_browser_read_or_change_anything(node: Node) -> None:
    for path in ("/", "/api/overview", "/api/events", "/api/session", "/static/console.js", "/openapi.json"):
        assert get(node, path, headers={"Host": "evil.example"}).status == 421
    assert change(node, "POST", "/api/session", {"token": TOKEN}, Host="evil.example")[0] == 421
    assert change(node, "POST", "/api/session", {"token": TOKEN}, Origin="http://evil.example")[0] == 403


def test_the_bearer_of_the_token_has_a_session_of_this_browser(node: Node) -> None:
    session = operating(node)
    path = "/api/exporters/landing/dead-letters/drop"
    assert change(node, "POST", path, {}, Cookie=session["Cookie"])[0] == 403
    assert change(node, "POST", path, {}, **session)[0] in (404, 409), "there are no letters"
    assert TOKEN not in node.output()


def test_a_subscription_is_planned_made_and_deleted_from_the_page(node: Node) -> None:
    """On the node itself, over its Admin API; the next Get of a client has it."""
    session = operating(node)
    wanted = {"metrics": ["org.apache.kafka.producer."], "interval_ms": 10_000, "match": ["client_id=planned"]}
    with RawClient(node.port, client_id="planned") as client:
        before = client.get()
        listed = get(node, "/api/subscriptions").json()
        assert (listed["source"], listed["editable"]) == ("node", True)
        plan = change(node, "POST", "/api/subscriptions/plan", {"name": "mine", **wanted}, **session)[1]
        assert plan["changes"] == [{"name": "mine", "action": "add", "clients": 1}]
        assert (plan["touched"], plan["added"]["pushes_per_minute"] > 0) == (1, True)
        assert interval_ms(node) == before.push_interval_ms == 60_000, "a plan changes nothing"
        assert change(node, "PUT", "/api/subscriptions/mine", wanted, **session)[:2] == (
            200,
            {"name": "mine", "deleted": False},
        )
        assert interval_ms(node) == 10_000
        # The node may not know yet that a client of `interval_ms` has gone.
        wait_for(
            lambda: get(node, "/api/subscriptions").json()["subscriptions"],
            "the subscription of one client",
            until=lambda found: {"name": "mine", **wanted, "clients": 1, "until": None, "overdue": False} in found,
        )
        plan = change(node, "POST", "/api/subscriptions/plan", {"name": "mine", "delete": True}, **session)[1]
        assert plan["changes"] == [{"name": "mine", "action": "delete", "clients": 1}]
        assert change(node, "DELETE", "/api/subscriptions/mine", **session)[0] == 200
        assert change(node, "DELETE", "/api/subscriptions/mine", **session)[0] == 404
        assert interval_ms(node) == 60_000


def interval_ms(node: Node) -> int:
    """What a client that has just started is asked for: one that is known may not ask again so soon."""
    with RawClient(node.port, client_id="planned") as client:
        return client.get().push_interval_ms


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("mine", {"metrics": "x", "interval_ms": 1000, "match": []}, "lists of texts"),
        ("mine", {"metrics": [1], "interval_ms": 1000, "match": []}, "lists of texts"),
        ("mine", {"metrics": ["a."], "interval_ms": "1000", "match": []}, "interval_ms is a number"),
        ("mine", {"metrics": ["a."], "interval_ms": True, "match": []}, "interval_ms is a number"),
        ("mine", {"metrics": ["a."], "interval_ms": 1, "match": []}, "interval.ms"),
        ("mine", {"metrics": ["a."], "interval_ms": 1000, "match": ["nobody=x"]}, "matching pattern"),
        ("mine", {"metrics": ["a."], "interval_ms": 1000, "match": ["client_id=("]}, "matching pattern"),
        ("mine", {"metrics": [], "interval_ms": 300_000, "match": []}, "sets nothing"),
        ("mine", {"metrics": ["a."], "interval_ms": 1000, "match": [], "owner": "x"}, "an object with metrics"),
        ("x" * 300, {"metrics": ["a."], "interval_ms": 1000, "match": []}, ""),
    ],
)
def test_a_subscription_that_kafka_would_refuse_is_refused_in_a_sentence(
    node: Node, name: str, body: Any, says: str
) -> None:
    before = get(node, "/api/subscriptions").json()["subscriptions"]
    status, answer, _ = change(node, "PUT", f"/api/subscriptions/{name}", body, **operating(node))
    assert status in (400, 409)
    assert says in answer["error"]
    assert get(node, "/api/subscriptions").json()["subscriptions"] == before


def operating(node: Node) -> dict[str, str]:
    """Headers of a session that may change something."""
    cookie = change(node, "POST", "/api/session", {"token": TOKEN})[2].partition(";")[0]
    csrf = get(node, "/api/session", headers={"Cookie": cookie}).json()["csrf"]
    return {"Cookie": cookie, "X_CSRF_Token": csrf}


def test_an_open_page_hears_of_a_client_that_pushes(node: Node) -> None:
    wait_for_fleet(node)
    with raw(node) as stream:
        stream.sendall(STREAM)
        events = events_of(stream)
        before = next(events)["clients"]["total"]
        push(node, "another")
        # Clients of the tests before, of which the node itself told later, may come with it.
        assert any(event["clients"]["total"] > before for event in events)
        wait_for(
            lambda: get(node, "/api/clients", q="another").json(),
            "the client in the list",
            until=lambda found: found["total"] == 1,
        )


def events_of(stream: socket.socket) -> Iterator[dict[str, Any]]:
    """The overviews of a stream, as they come."""
    with stream.makefile("rb") as file:
        for line in file:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def test_open_pages_leave_room_for_scrapes(node: Node) -> None:
    wait_for_fleet(node)

    def served() -> int:
        """How many streams there are, when more are asked for."""
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(raw(node)) for _ in range(2 * MAX_STREAMS)]
            for each in streams:
                each.sendall(STREAM)
            heads = [each.recv(12) for each in streams]
            assert set(heads) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}
            assert heads.count(b"HTTP/1.1 200") <= MAX_STREAMS
            assert get(node, "/metrics").status == 200
        return heads.count(b"HTTP/1.1 200")

    # Once the streams of pages that were closed before have ended.
    wait_for(served, "as many streams as there may be", until=lambda count: count == MAX_STREAMS)
    wait_for(lambda: is_streamed(node), "the places of streams that ended")


def is_streamed(node: Node) -> bool:
    with raw(node) as stream:
        stream.sendall(STREAM)
        return stream.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (POST + b"Content-Length: 70000\r\n\r\n" + b"x" * 70_000, 413),
        (POST + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 99_999, 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n11170\r\n" + b"x" * 70_000, 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Content-Length: 9\r\n\r\n{", 400),
        (b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
        (POST + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 400),
    ],
    ids=lambda value: value[:64] if isinstance(value, bytes) else None,
)
def test_a_body_that_is_too_long_or_broken_gets_one_error(node: Node, request_bytes: bytes, status: int) -> None:
    with raw(node) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
        [(found, body)] = responses_of(read_to_end(connection))
    assert found == status
    assert json.loads(body).keys() == {"error"}


def test_bodies_that_do_not_come_hold_up_nobody_and_are_cut_off(node: Node) -> None:
    """More of them than there may be connections, and some that come byte by byte."""
    wait_for_fleet(node)
    head = b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        parked = [stack.enter_context(raw(node)) for _ in range(100)]
        for each in parked:
            with contextlib.suppress(ConnectionError):
                each.sendall(head)
        wait_for(
            lambda: get(node, "/metrics"),
            "an answer to a scrape",
            until=lambda answer: answer.status == 200,
            ignoring=(OSError,),
        )
        wait_for(
            lambda: sum(not is_over(each) for each in parked),
            "the end of those that send nothing",
            until=lambda left: left == 0,
        )


def is_over(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        connection.send(b"x")
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_the_node_runs_without_a_console_where_that_is_configured(tmp_path: Path) -> None:
    with Node(tmp_path, HTTP, "console.enabled=false") as node:
        assert get(node, "/healthz").status == 200
        assert get(node, "/api/overview").status == 404
        assert get(node, "/", headers={"Accept": "text/html"}).json().keys() == {"endpoints"}


def test_a_token_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("x")
    for name, says in (("missing", "No such file"), ("short", "fewer than 16 characters"), (".", "s a directory")):
        ended = serve(tmp_path, f"console.operate.token.file={tmp_path / name}")
        assert ended.returncode == 1
        assert "console.operate.token.file: " in ended.stderr
        assert says in ended.stderr
        assert "Traceback" not in ended.stderr


def serve(directory: Path, *overrides: str) -> "subprocess.CompletedProcess[str]":
    keys = (f"log.dirs={directory / 'data'}", "listeners=PLAINTEXT://127.0.0.1:0", HTTP, *overrides)
    command = [sys.executable, "-m", "fleetgauge", "serve", *(f"--override={key}" for key in keys)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_alone_it_shows_the_log_of_a_node_that_has_stopped(tmp_path: Path) -> None:
    with Node(tmp_path, "http.listeners=") as node:
        push(node, "left-behind")
        assert node.stop() == 0
    command = [sys.executable, "-m", "fleetgauge", "console", f"--override=log.dirs={node.data}", f"--override={HTTP}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as alone:
        try:
            assert alone.stdout is not None
            line = alone.stdout.readline()
            assert line.startswith("The console is at http://127.0.0.1:"), line
            port = int(line.split(" (")[0].rsplit(":", 1)[1])
            wait_for(
                lambda: get_at("127.0.0.1", port, "/api/overview"),
                "the client",
                until=lambda answer: clients_of(answer) == 1,
            )
            assert get_at("127.0.0.1", port, "/api/clients").json()["total"] == 1
            assert "runs alone" in get_at("127.0.0.1", port, "/api/exporters").json()["why_not"]
            assert get_at("127.0.0.1", port, "/healthz").json() == {"status": "ok"}
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stream:
                stream.sendall(STREAM)
                assert stream.recv(12) == b"HTTP/1.1 200"
                alone.send_signal(signal.SIGTERM)
                assert alone.wait(PATIENCE_S) == 0, "an open page holds up no stop"
            assert alone.stderr is not None
            assert "Traceback" not in alone.stderr.read()
        finally:
            alone.kill()


def test_alone_without_a_log_it_says_what_to_name(tmp_path: Path) -> None:
    ended = run_cli("console", "--override", f"log.dirs={tmp_path / 'nowhere'}", "--override", HTTP, check=False)
    assert ended.returncode == 1
    assert "there is no data directory" in ended.stderr
    assert "--bootstrap-server" in ended.stderr
