"""Payloads that are no OTLP: answered as a broker answers them, delivered as far as they can be read, and shown.

The clients with Latin-1 in their configuration are librdkafka itself, called by ctypes; payloads that no client makes
come from a client of `struct` and a socket.
"""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.brokers.kafka_broker import MISSING
from support.clients.raw_client import GZIP, LZ4, NONE, SNAPPY, ZSTD, RawClient
from support.differential.pair import Pair
from support.differential.payloads import payload
from support.fleet.landing import landed
from support.payloads.damaged_payloads import LATIN_1, READABLE, REPLACED, UNREADABLE, WELL_FORMED
from support.ports import free_port
from support.programs.export import Export
from support.programs.node import Node, run_cli
from support.waiting import wait_for

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("latin1_clients.py")
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 500\n'
READERS = ("collector", "console", "page")
"""Exporters that read payloads; `landing` does not."""
NAMES = {**READABLE, **UNREADABLE, **WELL_FORMED}
DOCUMENT = ROOT / "docs" / "reference" / "conformance.md"
LIVING = 3
"""Pushes after which a client's telemetry has outlived its first answer."""


class Receiver:
    """The project's OTLP server for tests, in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fleetgauge.testkit.otlp_receiver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def finish(self) -> dict[str, dict[str, Any]]:
        """What it received, by client instance id."""
        out, _ = self._process.communicate(timeout=60)
        clients: dict[str, dict[str, Any]] = json.loads(out)["clients"]
        return clients

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    try:
        yield running
    finally:
        running.kill()


@contextlib.contextmanager
def latin_1_clients(port: int, prefix: str, log: Path) -> Iterator[Callable[[], str]]:
    """A producer and a consumer; yields what reads their log."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), f"127.0.0.1:{port}", prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
        )
    try:
        yield lambda: log.read_text(encoding="latin-1")
        out, _ = process.communicate(b"\n", timeout=120)
        assert (process.returncode, out) == (0, b"closed\n"), log.read_text(encoding="latin-1")[-4_000:]
    finally:
        process.kill()
        process.wait()


def acknowledged(log: str, role: str) -> int:
    return sum("PushTelemetryRequest succeeded" in line and f"-{role}-" in line for line in log.splitlines())


def wait_until_both_live(log: Callable[[], str]) -> None:
    wait_for(
        log,
        "pushes of both clients that were answered NONE",
        until=lambda text: (
            min(acknowledged(text, role) for role in ("producer", "consumer")) >= LIVING or "Stopping telemetry" in text
        ),
    )
    assert "Stopping telemetry" not in log()


def exporters(directory: Path, otlp_port: int, page_port: int) -> str:
    return f"""
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{otlp_port}"
linger.ms = 100

[exporters.console]
type = "console"
format = "json"

[exporters.page]
type = "prometheus"
listen = "127.0.0.1:{page_port}"
linger.ms = 100

[exporters.landing]
type = "landing"
path = "{directory / "landing"}"
linger.ms = 100
"""


def letters(path: Path) -> list[DeadLetter]:
    with contextlib.closing(DeadLetters(DeadLetterSettings(path=path), time=SystemTime())) as store:
        return [each for each in store.letters(limit=1_000) if isinstance(each, DeadLetter)]


def refused_by(status: dict[str, Any], name: str) -> int:
    return int(status["exporter_process"]["exporters"][name]["refused"].get("malformed_payload", 0))


def rejects(landing: Path) -> list[dict[str, Any]]:
    """The rows that `fleetgauge fleet` sets aside."""
    lines = run_cli("fleet", "show", "rejects", "--source", str(landing), "--format", "json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_librdkafka_with_latin_1_in_its_configuration_keeps_its_telemetry_on(tmp_path: Path) -> None:
    page_port = free_port()
    with (
        receiver() as collector,
        Node(tmp_path, config=SUBSCRIPTION + exporters(tmp_path, collector.port, page_port)) as node,
    ):
        with latin_1_clients(node.port, "app", tmp_path / "clients.log") as log:
            wait_until_both_live(log)
            status = node.status()
            assert status["telemetry"]["refusals"] == {}
            assert status["telemetry"]["malformed"].keys() == {"invalid_utf8"}
            page = wait_for(
                lambda: urllib.request.urlopen(f"http://127.0.0.1:{page_port}/metrics", timeout=60).read().decode(),
                "both clients on the page",
                until=lambda text: "app-producer-" in text and "app-consumer-" in text,
                ignoring=(OSError,),
            )
            assert "rdkafka" in page or "org_apache_kafka" in page
            shown = run_cli("clients", "--log-dirs", str(node.data), "--format", "json").stdout
            clients = {each["client_id"]: each for each in map(json.loads, shown.splitlines())}
            assert clients.keys() == {f"app-producer-{REPLACED}", f"app-consumer-{REPLACED}"}
            for client in clients.values():
                assert (client["state"], client["refused"], client["malformed_reason"]) == ("live", 0, "invalid_utf8")
                assert REPLACED in client["malformed_detail"]
                assert client["malformed"] == client["pushes"] >= LIVING
            assert "invalid_utf8" in run_cli("clients", "--log-dirs", str(node.data)).stdout
            assert "invalid_utf8" in run_cli("status", "--log-dirs", str(node.data)).stdout
        rows = wait_for(
            lambda: landed(tmp_path / "landing"),
            "the terminating pushes of both in the landing zone",
            until=lambda found: sum(bool(each["terminating"]) for each in found) == 2,
        )
        node.wait_for(lambda status: "collector" in status["exporter_process"]["exporters"], what="the exporters")
        assert node.stop() == 0
        told = node.log.read_text()
        received = collector.finish()
    assert all(LATIN_1 in row["metrics"] for row in rows if row["metrics"]), "the landing zone keeps the bytes"
    assert told.count("telemetry.payload_malformed") == 2, "once an hour for each client"
    names = {name: value for each in received.values() for name, value in each["labels"].items()}
    assert names["client_rack"] == f"{REPLACED}-rack"
    assert names["group_id"] == f"{REPLACED}-group"
    assert names["transactional_id"] == f"{REPLACED}-transactions"
    assert letters(node.data / "dead-letters.db") == []
    assert rejects(tmp_path / "landing") == []


def test_each_exporter_delivers_what_it_can_read_and_keeps_the_rest_as_dead_letters(tmp_path: Path) -> None:
    page_port = free_port()
    with (
        receiver() as collector,
        Node(tmp_path, config=SUBSCRIPTION + exporters(tmp_path, collector.port, page_port)) as node,
    ):
        for name, data in NAMES.items():
            with RawClient(node.port, client_id=name) as client:
                assert client.push(client.get(), data).error_code == 0, name
        wait_for(
            lambda: landed(tmp_path / "landing"), "all in the landing zone", until=lambda rows: len(rows) == len(NAMES)
        )
        status = node.wait_for(
            lambda status: all(refused_by(status, name) == len(UNREADABLE) for name in READERS),
            what="dead letters of every exporter that reads payloads",
        )
        assert refused_by(status, "landing") == 0
        assert node.stop() == 0
        received = collector.finish()
        output = node.log.read_text()
    rows = {row["client_id"]: row["metrics"] for row in landed(tmp_path / "landing")}
    assert rows == NAMES, "the bytes that clients sent"
    found = letters(node.data / "dead-letters.db")
    assert {(each.exporter, each.record.client_id) for each in found} == {
        (exporter, name) for exporter in READERS for name in UNREADABLE
    }
    assert all(each.record.metrics == UNREADABLE[each.record.client_id] for each in found), "and so in dead letters"
    assert all(each.reason == "malformed_payload" and " at byte " in each.detail for each in found)
    delivered = {each["labels"]["client_id"] for each in received.values()}
    assert delivered == {*READABLE, *WELL_FORMED} - {"empty"}
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"push_id"')]
    assert {line["client_id"] for line in lines} == {*READABLE, *WELL_FORMED}
    assert len(rejects(tmp_path / "landing")) == len(UNREADABLE)


WITHOUT_BROKER = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A real broker with the plugin, and a node, with the same subscriptions."""
    with Pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@WITHOUT_BROKER
@pytest.mark.timeout(900)
def test_damaged_payloads_are_answered_as_by_a_real_broker_and_as_the_table_says(pair: Pair) -> None:
    answers = {
        name: tuple(answer_of(port, name, compression_type, data) for port in pair.ports.values())
        for name, (compression_type, data) in damaged().items()
    }
    assert {name: (str(kafka), str(ours)) for name, (kafka, ours) in answers.items()} == {
        name: (kafka, ours) for name, kafka, ours, _ in table()
    }
    stricter = {name for name, (kafka, ours) in answers.items() if kafka == 0 and ours != 0}
    assert stricter == set(), "an answer that ends telemetry where a broker's does not"
    delivered = {name: how for name, _, _, how in table()}
    assert {name for name, how in delivered.items() if how == "with U+FFFD"} == set(READABLE)
    assert {name for name, how in delivered.items() if how == "dead letter"} == set(UNREADABLE)


def answer_of(port: int, name: str, compression_type: int, data: bytes) -> int:
    """The error code of a new client's first push."""
    with RawClient(port, client_id=f"quick-{name}") as client:
        client.api_versions()
        return client.push(client.get(), data, compression_type=compression_type).error_code


def damaged() -> dict[str, tuple[int, bytes]]:
    """Compression type and bytes by the name that the table has."""
    found = {name: (NONE, data) for name, data in NAMES.items()}
    for codec, number in {"gzip": GZIP, "lz4": LZ4, "zstd": ZSTD, "snappy-xerial": SNAPPY}.items():
        found[f"{codec}: bytes behind the stream"] = (number, payload(f"trailing:{codec}").data)
        found[f"{codec}: cut off"] = (number, payload(f"broken:{codec}:cut").data)
        found[f"{codec}: other bytes"] = (number, payload(f"broken:{codec}:garbage").data)
        found[f"{codec}: two streams"] = (number, payload(f"twice:{codec}").data)
    return found


def table() -> list[list[str]]:
    """The rows of "Damaged payloads" in docs/reference/conformance.md."""
    section = DOCUMENT.read_text().partition("\n## Damaged payloads\n")[2].partition("\n## ")[0]
    rows = [line.strip("|\n ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@WITHOUT_BROKER
@pytest.mark.timeout(900)
def test_behind_a_topic_they_are_delivered_and_shown_as_behind_a_node(pair: Pair, tmp_path: Path) -> None:
    config = tmp_path / "export.toml"
    with receiver() as collector:
        config.write_text(
            f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{pair.broker.bootstrap}"\n'
            + exporters(tmp_path, collector.port, free_port())
        )
        with Export(tmp_path, config, "http.listeners=") as export:
            with latin_1_clients(pair.broker.port, "quick-app", tmp_path / "clients.log") as log:
                wait_until_both_live(log)
            for name, data in NAMES.items():
                with RawClient(pair.broker.port, client_id=f"quick-{name}") as client:
                    client.api_versions()
                    assert client.push(client.get(), data).error_code == 0, name
            wait_for(
                lambda: {row["client_id"] for row in landed(tmp_path / "landing")},
                "every client in the landing zone",
                until=lambda found: {f"quick-{name}" for name in NAMES if NAMES[name]} <= found,
            )
            wait_for(
                lambda: [refused_by(export.status(), name) for name in READERS],
                "dead letters of every exporter that reads payloads",
                until=lambda counts: min(counts) >= len(UNREADABLE),
                ignoring=(ValueError, KeyError),
            )
            shown = run_cli("clients", "--log-dirs", str(export.data), "--format", "json").stdout
            assert export.stop() == 0
        received = collector.finish()
    reasons = {each["client_id"]: each["malformed_reason"] for each in map(json.loads, shown.splitlines())}
    for role in ("producer", "consumer"):
        assert reasons[f"quick-app-{role}-{REPLACED}"] == "invalid_utf8"
    assert all(reasons[f"quick-{name}"] == "invalid_utf8" for name in READABLE)
    assert all(reasons[f"quick-{name}"] == "malformed_metrics_data" for name in UNREADABLE)
    assert all(reasons.get(f"quick-{name}") is None for name in WELL_FORMED)
    rows = landed(tmp_path / "landing")
    assert {row["metrics"] for row in rows if row["client_id"] == "quick-text in Latin-1"} == {NAMES["text in Latin-1"]}
    delivered = {each["labels"]["client_id"] for each in received.values()}
    assert delivered >= {f"quick-{name}" for name in (*READABLE, *WELL_FORMED) if NAMES[name]}
    assert not delivered & {f"quick-{name}" for name in UNREADABLE}
    kept = letters(export.data / "dead-letters.db")
    assert {each.record.client_id for each in kept} >= {f"quick-{name}" for name in UNREADABLE}
    assert all(each.record.client_id.removeprefix("quick-") in UNREADABLE for each in kept)
