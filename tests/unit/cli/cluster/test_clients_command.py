"""`fleetgauge clients`: its table, and one row for each client of several exports."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.programs.push_log import push_record
from support.proxies.trickling import BODY, ERROR, HEAD, TLS, trickling
from support.waiting import wait_for

from fleetgauge.cli.cluster.client_rows import RequestError, _latest, _Page, _print, _Url
from fleetgauge.node.status.clients_page import PageRequest, as_object
from fleetgauge.node.status.node_socket import NotRunningError
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClient
from fleetgauge.telemetry.instances.inventory import ClientRow
from fleetgauge.terminal.table import wide_console


def of_topic(**fields: object) -> ClientRow:
    record = push_record(0, receiver_node_id=7)
    return SeenClient(2, 0, record).row(0)._replace(**fields)  # type: ignore[arg-type]


def table(row: ClientRow, *coverages: dict[str, object], shown: tuple[str, ...] = ()) -> list[list[str]]:
    """The cells of the heading and of the row."""
    out = io.StringIO()
    _print(wide_console(out), _Page([as_object(row)], 1, list(coverages)), shown, is_filtered=False)
    lines = out.getvalue().splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in (lines[0], lines[2])]


def test_clients_of_a_topic_are_shown_with_their_broker_and_partition() -> None:
    coverage: dict[str, object] = {"topic": "pushes", "partitions": [2], "read_up_to": None}
    headings, cells = table(of_topic(), coverage)
    found = dict(zip(headings, cells, strict=True))
    assert (found["broker"], found["partition"]) == ("7", "2")
    assert "subscription" not in found


def test_clients_of_a_node_are_shown_with_their_subscriptions() -> None:
    of_node = of_topic(subscriptions=("all", "java"), broker=None, partition=None)
    headings, cells = table(of_node)
    found = dict(zip(headings, cells, strict=True))
    assert found["subscription"] == "all, java"
    assert not {"broker", "partition"} & found.keys()


def test_a_chosen_column_that_these_clients_do_not_have_is_empty() -> None:
    assert table(of_topic(), shown=("client id", "subscription"))[1] == ["client-0", "-"]


def test_two_senders_of_one_id_are_two_rows_of_several_exports() -> None:
    rows = [of_topic(), of_topic(client_id="b"), of_topic(client_source_address="10.0.0.2")]
    assert list(_latest([*rows, *rows])) == rows


def test_a_client_that_two_exports_know_is_one_row_as_last_seen_with_its_software() -> None:
    unnamed = of_topic(client_software_name="unknown", client_software_version="unknown", last_seen_at=1 << 60)
    for rows in ([of_topic(), unnamed], [unnamed, of_topic()]):
        (found,) = _latest(rows)
        assert ClientRow(*found).last_seen_at == 1 << 60
        assert ClientRow(*found).client_software_name == "librdkafka"


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b'{"clients": "x"}', b'{"clients": [{}], "total": 1}', b"[" * 100_000]
)
def test_what_another_server_answers_is_one_sentence(answer: bytes) -> None:
    with server_of(answer) as url:
        with pytest.raises(RequestError, match=f"{url} does not answer as fleetgauge serve and export do"):
            _Url(url).page({}, PageRequest())
        if answer:
            with pytest.raises(RequestError, match="does not answer as"):
                list(_Url(url).rows({}))


def test_an_answer_that_is_too_long_says_what_shortens_it() -> None:
    with server_of(b" " * 1_001) as url, pytest.raises(RequestError, match=r"more than 1000 B; .* --client-id"):
        list(_Url(url, most_bytes=1_000).rows({}))


@pytest.mark.parametrize(
    ("scheme", "opening"), [("http", HEAD), ("http", BODY), ("http", ERROR), ("https", TLS)], ids=str
)
def test_an_answer_that_has_no_end_ends_with_its_connection_at_one_deadline(scheme: str, opening: bytes) -> None:
    with trickling(opening) as server:
        node = _Url(f"{scheme}://{server.address}", within_s=0.5)
        for ask in (lambda: node.page({}, PageRequest()), lambda: list(node.rows({}))):
            with pytest.raises(NotRunningError, match=r"no whole answer within 0.5 s; is it an HTTP listener"):
                ask()
        # Of a request that was given up before it was sent the server knows nothing.
        wait_for(lambda: server.asked == server.ended, "the end of the connections")


@contextmanager
def server_of(answer: bytes) -> Iterator[str]:
    """The URL of a server that answers each request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
