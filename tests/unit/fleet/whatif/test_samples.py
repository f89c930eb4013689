"""Byte rates that brokers measured, from CSV and Prometheus."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.whatif.samples import RatesError, read_csv

HEAD = "time,user,client-id,byte-rate,broker"
NOON = 1_772_366_400


def whatif(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["whatif", *arguments])


def csv_file(directory: Path, *lines: str, head: str = HEAD) -> Path:
    path = directory / "rates.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def steady(user: str, client_id: str, rate: float, broker: str, count: int = 20, step_s: int = 15) -> list[str]:
    return [f"{NOON + number * step_s},{user},{client_id},{rate},{broker}" for number in range(count)]


def test_rates_of_brokers_are_replayed_by_broker(tmp_path: Path) -> None:
    lines = [*steady("alice", "app", 150, "kafka-1:9090"), *steady("alice", "app", 60, "kafka-2:9090")]
    lines += steady("CN%3Dbob", "native", 90, "kafka-1:9090")
    quota = "user=<default>,producer_byte_rate=100"
    result = whatif("--rates", str(csv_file(tmp_path, *lines)), "--quota", quota, "--format", "json")
    assert result.exit_code == 0, result.stderr
    alice, bob = json.loads(result.stdout)
    assert (alice["user"], alice["throttled"], alice["broker"]) == ("alice", True, "kafka-1:9090")
    assert (alice["brokers"], alice["brokers_throttled"], alice["peak_bytes_per_s"]) == (2, 1, 150)
    assert alice["throttled_share"] > 0.9
    assert alice["mean_delay_ms"] is None, "the size of requests is not known"
    assert (bob["user"], bob["throttled"], bob["peak_bytes_per_s"]) == ("CN=bob", False, 90)
    assert "means over 15 s" in result.stderr


def test_rates_without_a_broker_are_taken_for_one_brokers(tmp_path: Path) -> None:
    lines = [line.removesuffix(",") for line in steady("alice", "app", 150, "")]
    path = csv_file(tmp_path, *lines, head="time,user,client-id,byte-rate")
    result = whatif("--rates", str(path), "--quota", "user=alice,producer_byte_rate=100", "--format", "json")
    (alice,) = json.loads(result.stdout)
    assert (alice["broker"], alice["by_broker"], alice["throttled"]) == (None, "one", True)
    assert "the worst case" in result.stderr


def test_rates_of_several_brokers_that_are_not_named_are_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, *(line for _ in range(3) for line in steady("alice", "app", 1e6, "")))
    result = whatif("--rates", str(path), "--quota", "user=alice,producer_byte_rate=2000000")
    assert result.exit_code != 0
    assert "add the broker" in " ".join(result.stderr.split())


def test_a_gap_in_the_rates_is_no_rate(tmp_path: Path) -> None:
    lines = steady("alice", "app", 150, "1", count=60)
    path = csv_file(tmp_path, *lines[:20], *lines[40:])
    result = whatif("--rates", str(path), "--quota", "user=alice,producer_byte_rate=100", "--format", "json")
    (alice,) = json.loads(result.stdout)
    assert alice["recorded_s"] == pytest.approx(40 * 15, abs=15)
    assert alice["episodes"] == 2


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00", "2026-03-01T12:00:00Z", str(NOON), f"{NOON}000", f"{NOON}.0"])
def test_times_are_iso_8601_or_since_the_epoch(tmp_path: Path, text: str) -> None:
    rows = read_csv(csv_file(tmp_path, f"{text},alice,app,1,1"))
    assert rows["time"][0].as_py().timestamp() == NOON


def test_rates_that_are_none_do_not_count(tmp_path: Path) -> None:
    rows = read_csv(csv_file(tmp_path, *(f"{NOON},alice,app,{rate},1" for rate in ("NaN", "-1", "inf", "7"))))
    assert rows["rate"].to_pylist() == [7]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "lacks the columns time, byte-rate"),
        (f"{HEAD}\nsoon,alice,app,1,1\n", "times are ISO 8601"),
        (f"{HEAD}\n{NOON},alice,app,much,1\n", "rates bytes a second"),
        (f"{HEAD}\n{NOON}000000,alice,app,1,1\n", "seconds or milliseconds since the epoch"),
        (f"{HEAD}\n{NOON},alice\n", "cannot be read as CSV"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    with pytest.raises(RatesError, match="--rates") as refused:
        read_csv(path)
    assert why in str(refused.value)


def test_rates_are_of_one_key(tmp_path: Path) -> None:
    path = csv_file(tmp_path, *steady("alice", "app", 1, "1"))
    quota = "user=alice,producer_byte_rate=1,consumer_byte_rate=1"
    result = whatif("--rates", str(path), "--quota", quota)
    assert result.exit_code == 1
    assert "one after the other" in result.stderr
    empty = whatif("--rates", str(path), "--quota", "user=alice,producer_byte_rate=1", "--since", "2030-01-01")
    assert "no rates in this period" in empty.stderr


class _Prometheus(BaseHTTPRequestHandler):
    asked: list[dict[str, list[str]]]
    status = 200

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        type(self).asked.append(query)
        start, end, step = (int(query[name][0]) for name in ("start", "end", "step"))
        series = {
            "metric": {"user": "alice", "client_id": "app", "instance": "kafka-1:9090"},
            "values": [[at, "150"] for at in range(start, end + 1, step)],
        }
        body: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps(body if self.status == 200 else {"error": "bad query"}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[tuple[str, type[_Prometheus]]]:
    handler = type("Handler", (_Prometheus,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()


def test_a_range_of_prometheus_is_asked_for_in_pieces(prometheus: tuple[str, type[_Prometheus]]) -> None:
    url, handler = prometheus
    asked = ("--query", "sum by (user, client_id, instance) (byte_rate)", "--step", "15s")
    span = ("--since", "2026-03-01T00:00", "--until", "2026-03-03T00:00")
    quota = ("--quota", "user=alice,producer_byte_rate=100")
    result = whatif("--prometheus", url, *asked, *span, *quota, "--format", "json")
    assert result.exit_code == 0, result.stderr
    (alice,) = json.loads(result.stdout)
    assert (alice["throttled"], alice["broker"]) == (True, "kafka-1:9090")
    assert alice["recorded_s"] == pytest.approx(2 * 86_400, abs=30)
    assert len(handler.asked) == 2, "172,800 s in steps of 15 s are 11,520 points, and 11,000 are the most"
    assert handler.asked[0]["query"] == [asked[1]]


def test_what_prometheus_refuses_is_a_sentence(prometheus: tuple[str, type[_Prometheus]]) -> None:
    url, handler = prometheus
    handler.status = 400
    options = ("--query", "x(", "--quota", "user=alice,producer_byte_rate=100")
    assert "400 Bad Request" in whatif("--prometheus", url, *options).stderr
    assert "bad query" in whatif("--prometheus", url, *options).stderr
    assert "is not a URL" in whatif("--prometheus", "prometheus:9090", *options).stderr
    assert "no response" in whatif("--prometheus", "http://127.0.0.1:1", *options).stderr
    assert "--step" in whatif("--prometheus", url, *options, "--step", "0s").stderr
