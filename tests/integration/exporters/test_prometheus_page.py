"""The page of client series over real sockets, as its scrapers and everybody else may ask for it."""

import contextlib
import gzip
import itertools
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs
from support.http import read_to_end, reset, responses_of
from support.payloads.client_series import REQUESTS_ON_PAGE, Samples, counter, export, gauge, push, started
from support.payloads.strange_metrics import KINDS, LABELS, NAMES, UNITS, VALUES, strange_metric
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.labels import LabelSettings
from fleetgauge.exporters.prometheus import page_server
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.names import Kind
from fleetgauge.exporters.prometheus.page import OPENMETRICS, TEXT
from fleetgauge.exporters.prometheus.page_server import PageError, PageServer
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.http.access import AccessSettings
from fleetgauge.http.connection import HttpSettings
from fleetgauge.telemetry.push_record import PushRecord

pytestmark = pytest.mark.integration

RECORDED = Path(__file__).parents[2] / "spark" / "recorded"
_TCP_ESTABLISHED = 1
KNOWN_FINDINGS = (
    'non-histogram and non-summary metrics should not have "_count" suffix',
    "metric names should not contain abbreviated units",
)
"""What promtool says of Kafka's own names: `connection-count` is a gauge, `io-time-ns` has its unit in it."""


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[PrometheusExporter]:
    settings = PrometheusSettings(listen=Address(port=0), state_file=tmp_path / "state.db")
    found = started(settings, SystemTime())
    yield found
    found.close()


def address_of(exporter: PrometheusExporter) -> tuple[str, int]:
    assert exporter._server is not None
    return exporter._server.address.host, exporter._server.address.port


def scrape(
    exporter: PrometheusExporter, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(*address_of(exporter), timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def raw(exporter: PrometheusExporter, request: bytes) -> bytes:
    """What a bare connection gets."""
    with socket.create_connection(address_of(exporter), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return read_to_end(connection)


def fill(exporter: PrometheusExporter, clients: int, series: int) -> None:
    points = [gauge(number, name="app.gauge", n=str(number)) for number in range(series)]
    export(exporter, *(push(n, *points, client_instance_id=f"{n:022}") for n in range(clients)))


def test_the_page_comes_in_the_form_that_is_asked_for(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)))
    prometheus = (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    )
    cases = ((prometheus, OPENMETRICS), ("text/plain", TEXT), ("", TEXT), ("*/*", TEXT), ("nonsense;q=x", TEXT))
    for accept, content_type in cases:
        response, body = scrape(exporter, Accept=accept)
        assert (response.status, response.headers["Content-Type"]) == (200, content_type)
        assert Samples(body.decode(), content_type).one(REQUESTS_ON_PAGE) == 5


def test_a_large_page_is_the_same_with_and_without_gzip_and_for_old_clients(exporter: PrometheusExporter) -> None:
    fill(exporter, clients=60, series=100)
    _, plain = scrape(exporter)
    response, zipped = scrape(exporter, Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(zipped) < len(plain) / 5
    assert gzip.decompress(zipped) == plain
    old = raw(exporter, b"GET /metrics HTTP/1.0\r\n\r\n")
    assert old.partition(b"\r\n\r\n")[2] == plain
    response, nothing = scrape(exporter, method="HEAD")
    assert (response.status, nothing) == (200, b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01 hello \r\n\r\n", 400),
        (b"GET /" + b"a" * 17_000, 431),
        (b"GET /metrics HTTP/1.1\r\nx: " + b"x" * 17_000, 431),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_anything_else_is_answered_with_one_sentence(
    exporter: PrometheusExporter, request_bytes: bytes, status: int
) -> None:
    [(found, body)] = responses_of(raw(exporter, request_bytes))
    assert found == status
    assert json.loads(body).keys() == {"error"}


def test_scrapes_come_one_after_the_other_on_a_connection_that_stays_open(exporter: PrometheusExporter) -> None:
    export(exporter, push(1, counter(5)))
    connection = HTTPConnection(*address_of(exporter), timeout=PATIENCE_S)
    for _ in range(3):
        connection.request("GET", "/metrics")
        assert b"request_total" in connection.getresponse().read()
        assert connection.sock is not None
    connection.close()


def test_silent_connections_keep_no_scraper_from_the_page(exporter: PrometheusExporter) -> None:
    """More of them than there may be connections, before and after their first bytes."""
    export(exporter, push(1, counter(5)))
    for first_bytes in (b"", b"GET /metrics HTTP/1.1\r\nHost: loc"):
        with contextlib.ExitStack() as stack:
            for _ in range(3 * page_server.SETTINGS.max_connections):
                silent = stack.enter_context(socket.create_connection(address_of(exporter), timeout=PATIENCE_S))
                with contextlib.suppress(ConnectionError):
                    silent.sendall(first_bytes)
            for _ in range(5):
                assert b"request_total" in scrape(exporter)[1]


def test_a_connection_that_sends_no_request_or_only_a_part_of_one_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter = started_with(monkeypatch, HttpSettings(idle_s=0.5, request_within_s=0.5))
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(address_of(exporter), timeout=PATIENCE_S)) for _ in range(8)
        ]
        for connection in silent[4:]:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost")
        assert [read_to_end(connection) for connection in silent] == [b""] * 8
    exporter.close()


def test_a_reader_that_does_not_read_is_cut_off_and_holds_up_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a page that is larger than what the system's buffers take."""
    exporter = started_with(monkeypatch, HttpSettings(read_within_s=5.0), large=True)
    with socket.create_connection(address_of(exporter), timeout=PATIENCE_S) as lazy:
        lazy.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = scrape(exporter)[1]
        assert b"app_gauge" in page
        wait_for(lambda: is_over(lazy), "the reader to be cut off")
        assert 0 < len(read_to_end(lazy)) < len(page)
    exporter.close()


def test_readers_that_do_not_read_give_way_to_a_scraper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place is taken by one, and none of them is cut off for its slowness soon."""
    settings = HttpSettings(max_connections=4, read_within_s=600, send_within_s=600, stalled_after_s=0.1)
    exporter = started_with(monkeypatch, settings, large=True)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            lazy = stack.enter_context(socket.create_connection(address_of(exporter), timeout=PATIENCE_S))
            lazy.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        wait_for(lambda: status_of(exporter), "a scrape among readers that do not read", ignoring=(OSError,))
    exporter.close()


def test_a_reader_that_takes_a_page_byte_by_byte_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = started_with(monkeypatch, HttpSettings(send_within_s=1.0), large=True)
    with socket.create_connection(address_of(exporter), timeout=PATIENCE_S) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        wait_for(lambda: is_over(slow) or not slow.recv(1), "the reader to be cut off", ignoring=(ConnectionError,))
    exporter.close()


def test_connections_that_are_reset_leave_nothing_in_the_log(exporter: PrometheusExporter) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with capture_logs() as logs:
        for sent in (b"", request[:20], request):
            for _ in range(100):
                reset(address_of(exporter), sent)
        assert scrape(exporter)[0].status == 200
    assert logs == []


def started_with(monkeypatch: pytest.MonkeyPatch, settings: HttpSettings, *, large: bool = False) -> PrometheusExporter:
    """An exporter with these bounds; its page is larger than what the system's buffers take, or empty."""
    monkeypatch.setattr(page_server, "SETTINGS", settings)
    labels = LabelSettings(labels=(), static=(("padding", "x" * 1_000),))
    exporter = started(PrometheusSettings(listen=Address(port=0), labels=labels), SystemTime())
    if large:
        fill(exporter, clients=30, series=500)
    return exporter


def is_over(connection: socket.socket) -> bool:
    """True if the other side has ended the connection, whatever is still to be read."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return info[0] != _TCP_ESTABLISHED


def status_of(exporter: PrometheusExporter) -> int:
    return scrape(exporter, method="HEAD")[0].status


def test_scrapes_see_whole_pages_while_pushes_come(exporter: PrometheusExporter) -> None:
    """Each is well-formed, and no counter ever falls."""
    begun, done = threading.Event(), threading.Event()

    def go_on() -> None:
        number = 0
        while not done.is_set():
            number += 1
            clients = [push(number * 10 + n, counter(1), gauge(n), client_instance_id=f"{n:022}") for n in range(9)]
            export(exporter, *clients, push(number * 10 + 9, terminating=True, client_instance_id="x" * 22))
            begun.set()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        assert begun.wait(PATIENCE_S)
        seen = [0.0]
        for _ in range(20):
            response, body = scrape(exporter, Accept="application/openmetrics-text")
            found = Samples(body.decode(), response.headers["Content-Type"])
            seen.append(sum(value for _, value in found.all(REQUESTS_ON_PAGE)))
    finally:
        done.set()
        thread.join()
    assert seen == sorted(seen)
    assert seen[-1] > 0


def test_a_port_that_is_taken_is_told_in_one_sentence(exporter: PrometheusExporter) -> None:
    host, port = address_of(exporter)
    found = rf"exporters\.page\.listen: {host}:{port} cannot be bound: .* in use; use another address"
    with pytest.raises(PageError, match=found):
        PageServer("page", Address(host=host, port=port), exporter._page, AccessSettings())
    exporter.close()
    PageServer("page", Address(host=host, port=port), exporter._page, AccessSettings()).close()


def recorded_pushes() -> list[PushRecord]:
    """What real clients pushed, in order."""
    rows = [row for path in RECORDED.rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    records = [
        PushRecord(**{**row, "received_at": int(row["received_at"].timestamp() * 1e6), "terminating": False})
        for row in rows
    ]
    return sorted(records, key=lambda record: record.push_id)


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus"
)


def what_prometheus_refuses(exporter: PrometheusExporter, directory: Path) -> str:
    """Has Prometheus' own reader of OpenMetrics read the page; why it refuses it, or nothing."""
    _, page = scrape(exporter, Accept="application/openmetrics-text")
    lines = page.decode().removesuffix("\n").split("\n")
    # From a file it takes samples with their times alone.
    timed = [line if line.startswith("#") else f"{line} 1750000000" for line in lines]
    file = directory / "page.txt"
    file.write_text("".join(f"{line}\n" for line in timed), newline="")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file), str(directory / "blocks")]
    read = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert read.returncode in (0, 1), read.stderr
    return read.stderr if read.returncode else ""


@needs_promtool
def test_prometheus_reads_the_page_whatever_metrics_strangers_push(
    exporter: PrometheusExporter, tmp_path: Path
) -> None:
    """Every kind of metric under every name with every unit: one that Prometheus refused would cost it the page."""
    values, labels = itertools.cycle(VALUES), itertools.cycle(LABELS)
    fleet = []
    for number, (kind, unit) in enumerate(itertools.product(KINDS, UNITS)):
        strange = [strange_metric(kind, name, unit, next(values), next(labels)) for name in NAMES]
        fleet.append(push(number, *strange, client_instance_id=f"{number:022}", client_id=next(labels)))
    export(exporter, *fleet)
    assert what_prometheus_refuses(exporter, tmp_path) == ""
    _, page = scrape(exporter)
    linter = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert linter.returncode != 1, linter.stderr.decode()
    lines = page.decode().split("\n")
    assert {line.split(" ")[3] for line in lines if line.startswith("# TYPE ")} == set(get_args(Kind))
    assert len([line for line in lines if line.startswith("fleetgauge_client_info{")]) == len(fleet)


@needs_promtool
def test_the_page_of_real_pushes_passes_the_linter_but_for_kafkas_own_names(tmp_path: Path) -> None:
    """Also: no real client's metric is left out for its name, or has its kind as a suffix."""
    settings = PrometheusSettings(listen=Address(port=0), series=SeriesSettings(linger_ms=86_400_000))
    exporter = started(settings, SystemTime())
    export(exporter, *recorded_pushes())
    _, page = scrape(exporter)
    refused = what_prometheus_refuses(exporter, tmp_path)
    exporter.close()
    assert refused == ""
    linter = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False, timeout=PATIENCE_S
    )
    findings = linter.stderr.decode().splitlines()
    unknown = [line for line in findings if line and not line.endswith(KNOWN_FINDINGS)]
    assert (linter.returncode, unknown) == (3, []), linter.stdout.decode()
    found = Samples(page.decode(), TEXT)
    assert {"cause": "name"} not in [labels for labels, _ in found.all("fleetgauge_prometheus_left_out_points_total")]
    assert not [name for name in found.names() if name.endswith(("_gauge", "_counter"))]
    assert found.one("fleetgauge_prometheus_folded_points_total", cause="doubled_topic") > 0
