"""Who is there, over HTTP and by `fleetgauge clients`: real clients, and what the raw client did."""

import base64
import csv
import io
import json
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from support.clients.push_watch import close_after_a_push
from support.clients.raw_client import ZSTD, RawClient, get_request, parse_get
from support.http import get, url_of
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration

HTTP = "http.listeners=http://127.0.0.1:0"
MANY = 20_000
HERE = "live,new,late,refused,throttled"
"""The clients of earlier tests are listed too, as vanished."""


def present(node: Node, **query: str) -> list[Any]:
    """The clients that are connected, of those that are asked for."""
    return listed(node, **{"state": HERE, **query})


def listed(node: Node, **query: str) -> list[Any]:
    """The clients that are asked for."""
    found: list[Any] = get(node, f"/clients?{urlencode(query)}" if query else "/clients").json()["clients"]
    return found


def wait_for_no_instance(node: Node) -> None:
    node.wait_for(lambda s: s["telemetry"]["counters"]["instances"] == 0, what="no client to be there any more")


def test_a_real_client_is_listed_with_what_it_did_and_as_ended_when_it_has_closed(tmp_path: Path) -> None:
    begin_s = time.time()
    config = '[client-metrics.team-a]\nmetrics = "*"\ninterval.ms = 1000\nmatch = "client_id=orders"\n'
    with Node(tmp_path, HTTP, config=config) as node:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "orders", "log_level": 3})
        node.wait_for(
            lambda s: producer.poll(0) is not None and s["telemetry"]["push_answers"].get("NONE", 0) >= 2,
            what="two pushes",
        )
        before = node.status()["telemetry"]["push_answers"]["NONE"]
        (client,) = wait_for(lambda: listed(node, client_id="orders", state="live"), "the client to be live")
        after = node.status()["telemetry"]["push_answers"]["NONE"]
        assert client["client_software_name"] == "confluent-kafka-python"
        assert (client["principal"], client["client_source_address"]) == ("User:ANONYMOUS", "127.0.0.1")
        assert (client["subscriptions"], client["metrics"], client["push_interval_ms"]) == (["team-a"], ["*"], 1000)
        assert before <= client["pushes"] <= after
        assert client["push_bytes"] > 100
        assert begin_s < client["last_push_at"] / 1e6 < time.time()
        shown = run_cli("clients", "--log-dirs", str(node.data), "--software", "confluent-kafka-python").stdout
        assert client["client_instance_id"] in shown
        assert "team-a" in shown
        close_after_a_push(node.data / "push-log", "orders", producer)
        wait_for_no_instance(node)
        (ended,) = listed(node)
        assert (ended["client_instance_id"], ended["state"]) == (client["client_instance_id"], "ended")
        assert ended["pushes"] > client["pushes"]


def test_a_client_that_is_killed_is_vanished_until_it_comes_back_under_its_id(tmp_path: Path) -> None:
    """Whether one process listens or two share the port: the instance is listed once."""
    for workers in ("1", "2"):
        (tmp_path / workers).mkdir()
        with Node(tmp_path / workers, HTTP, f"workers={workers}") as node:
            instance = uuid.uuid4()

            def states(node: Node = node) -> list[str]:
                return [each["state"] for each in listed(node)]

            with RawClient(node.port, client_id="killed") as client:
                assert client.push(client.get(instance), metrics_data()).error_code == 0
                wait_for(states, "the client to be live", until=lambda found: found == ["live"])
            wait_for(states, "the client to be vanished", until=lambda found: found == ["vanished"])
            row = json.loads(
                run_cli("clients", "--log-dirs", str(node.data), "--state", "vanished", "--format", "json").stdout
            )
            assert (row["client_id"], row["pushes"], row["connections"]) == ("killed", 1, 0)
            assert states() == ["vanished"]
            node.wait_for(lambda s: s["telemetry"]["counters"]["instances_vanished"] == 1, what="the count")
            # Of two workers the system chooses one for a connection: with both in turn, each meets the instance.
            others = [RawClient(node.port, client_id="killed") for _ in range(4)]
            try:
                for each in others:
                    assert each.get(instance).client_instance_id == instance
                back = wait_for(states, "the client to be back", until=lambda found: found != ["vanished"])
                assert len(back) == 1
            finally:
                for each in others:
                    each.close()
            wait_for(states, "the client to be vanished again", until=lambda found: found == ["vanished"])


def test_without_any_client_the_command_says_when_they_appear_and_what_to_check(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        shown = run_cli("clients", "--log-dirs", str(node.data)).stdout
        assert "within five minutes" in shown
        assert "subscription" in shown
        assert "matches the filter" in run_cli("clients", "--log-dirs", str(node.data), "--client-id", "x").stdout


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    overrides = (
        HTTP,
        "telemetry.client.instances.max=40000",
        "telemetry.client.instance.metrics.max=3",
        "telemetry.max.new.instance.rate.per.ip=0",
    )
    with Node(tmp_path_factory.mktemp("inventory"), *overrides) as running:
        yield running


@pytest.fixture
def clients(node: Node) -> Iterator[tuple[RawClient, RawClient]]:
    """One that pushes as it should, with a name to break a terminal with; one that is refused."""
    with RawClient(node.port, client_id="good\x1b[2J") as good, RawClient(node.port, client_id="=bad,1") as bad:
        for each in (good, bad):
            each.api_versions(name="raw", software_version="1.2.3")
        assert good.push(good.get(), metrics_data()).error_code == 0
        assert bad.push(bad.get(), b"\xff" * 9, compression_type=ZSTD).error_code == 87
        yield good, bad
    wait_for_no_instance(node)


def test_the_http_port_and_both_sources_of_the_command_say_the_same(
    node: Node, clients: tuple[RawClient, RawClient]
) -> None:
    told = {each["client_id"]: each for each in present(node)}
    assert set(told) == {"good\x1b[2J", "=bad,1"}
    good, bad = told["good\x1b[2J"], told["=bad,1"]
    assert (good["state"], good["pushes"], good["push_bytes"]) == ("live", 1, len(metrics_data()))
    assert (bad["state"], bad["pushes"], bad["refused"]) == ("refused", 0, 1)
    assert (bad["last_error"], bad["last_error_reason"]) == ("INVALID_RECORD", "broken_compression")
    assert good["client_source_port"] == clients[0].socket.getsockname()[1]
    times = {"last_push_at", "last_seen_at", "last_error_at"}
    for source in (("--log-dirs", str(node.data)), ("--url", url_of(node))):
        lines = run_cli("clients", *source, "--state", HERE, "--format", "json").stdout.splitlines()
        found = {each["client_id"]: each for each in map(json.loads, lines)}
        for name, row in told.items():
            assert {k: v for k, v in found[name].items() if k not in times} == {
                k: v for k, v in row.items() if k not in times
            }
        rows = list(csv.DictReader(io.StringIO(run_cli("clients", *source, "--state", HERE, "--format", "csv").stdout)))
        assert {row["client_id"] for row in rows} == {r"good\x1b[2J", "'=bad,1"}, "no formula for a spreadsheet"
        assert {row["pushes"] for row in rows} == {"0", "1"}
        table = run_cli("clients", *source, "--state", "refused").stdout
        assert "broken_compression" in table
        assert "good" not in table
        table = run_cli("clients", *source).stdout
        assert r"good\x1b[2J" in table
        assert "\x1b[2J" not in table
        chosen = run_cli("clients", *source, "--columns", "state,client_id").stdout
        assert [line.split() for line in chosen.splitlines()[:1]] == [["state", "client", "id"]]
        with pytest.raises(subprocess.CalledProcessError) as wrong:
            run_cli("clients", *source, "--columns", "colour")
        assert "there is no column 'colour'; there are client_instance_id,client_id,software," in wrong.value.stderr


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"client_id": "good*"}, {"good\x1b[2J"}),
        ({"software": "raw/1.2.*"}, {"good\x1b[2J", "=bad,1"}),
        ({"software": "raw/2.*"}, set()),
        ({"state": "refused,late"}, {"=bad,1"}),
        ({"principal": "User:ANONYMOUS", "state": "live"}, {"good\x1b[2J"}),
        ({"sort": "pushes", "order": "asc", "limit": "1"}, {"=bad,1"}),
    ],
)
def test_clients_are_chosen_and_sorted(
    node: Node, clients: tuple[RawClient, RawClient], query: dict[str, str], expected: set[str]
) -> None:
    assert {each["client_id"] for each in present(node, **query)} == expected


def test_an_instance_is_found_by_its_id_in_the_forms_that_clients_log(
    node: Node, clients: tuple[RawClient, RawClient]
) -> None:
    text = present(node, client_id="good*")[0]["client_instance_id"]
    found = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    for form in (text, found.hex, str(found), text.replace("-", "+").replace("_", "/") + "=="):
        assert [each["client_instance_id"] for each in present(node, instance_id=form)] == [text]


def test_metrics_hold_what_the_clients_did_and_their_own_where_asked_for(
    node: Node, clients: tuple[RawClient, RawClient]
) -> None:
    node.wait_for(
        lambda s: s["exporter_process"]["exporters"].get("landing", {}).get("state") == "running", what="the exporter"
    )
    node.wait_for(lambda s: s["connections"][0]["open"] == 2, what="the end of other tests' connections")
    text = get(node, "/metrics").body.decode()
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    values = {(each.name, *sorted(each.labels.items())): each.value for each in samples}
    status = node.status()
    assert values["fleetgauge_client_instances",] == 2
    assert values["fleetgauge_connections", ("listener", "PLAINTEXT")] == 2
    assert (
        values["fleetgauge_push_answers_total", ("cause", ""), ("error_code", "NONE")]
        == status["telemetry"]["push_answers"]["NONE"]
    )
    assert values["fleetgauge_exporter_state", ("exporter", "landing"), ("state", "running"), ("type", "landing")] == 1
    own = {
        each.labels["client_instance_id"]: each.value
        for each in samples
        if each.name == "kafka_server_client_metrics_plugin_export_count" and each.labels
    }
    assert sorted(own.values()) == [0, 1]
    assert own == {each["client_instance_id"]: each["pushes"] for each in present(node)}


def test_every_number_of_the_status_is_on_metrics(node: Node, clients: tuple[RawClient, RawClient]) -> None:
    """A counter that is added to the status and forgotten on /metrics fails here."""
    from fleetgauge.node.status.exposition import BY_REASON, CONNECTIONS, EXPORTERS, HISTOGRAMS, PUSH_LOG, TELEMETRY

    status = node.wait_for(lambda s: s["exporter_process"]["exporters"].get("landing"), what="the exporter")
    assert status["telemetry"]["counters"].keys() == TELEMETRY.keys()
    assert status["push_log"].keys() <= PUSH_LOG.keys()
    shown_by_name = {"closed", "requests", "certificate_expires_at"}
    assert status["connections"][0].keys() - CONNECTIONS.keys() == {"listener", "security_protocol", *shown_by_name}
    state = status["exporter_process"]["exporters"]["landing"]
    shown = EXPORTERS.keys() | BY_REASON.keys() | HISTOGRAMS.keys()
    summed_up = {"lost_records", "letters_without_room"}  # of `lost` and `letters_lost`, which are shown by reason
    assert state.keys() - shown - summed_up == {
        *("exporter", "type", "state", "last_error", "certificate_expires_at"),
    }


def test_the_same_request_as_head_has_no_body(node: Node) -> None:
    for path in ("/clients", "/metrics", "/healthz"):
        answer = get(node, path, method="HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert int(answer.headers["Content-Length"]) > 0
    assert get(node, "/clients", method="HEAD", format="jsonl").body == b""


def add_instances(node: Node, client: RawClient, count: int) -> set[str]:
    """That many instances, all seen on one connection."""
    ids = [uuid.uuid4() for _ in range(count)]
    for at in range(0, count, 500):
        batch = ids[at : at + 500]
        client.send(b"".join(get_request(index, each, "many") for index, each in enumerate(batch)))
        for each in batch:
            answer = parse_get(client.receive_frame()[5:])
            assert (answer.error_code, answer.client_instance_id) == (0, each)
    return {format_instance_id(each) for each in ids}


@pytest.mark.soak
def test_twenty_thousand_clients_are_listed_while_pushes_go_on(node: Node) -> None:
    stop = threading.Event()
    codes: list[int] = []

    def push_on() -> None:
        while not stop.is_set():
            with RawClient(node.port, client_id="pusher") as client:
                codes.append(client.push(client.get(), metrics_data()).error_code)

    with RawClient(node.port, client_id="many") as many:
        many.api_versions(name="raw", software_version="1.2.3")
        expected = add_instances(node, many, MANY)
        pusher = threading.Thread(target=push_on)
        pusher.start()
        try:
            for _ in range(3):
                lines = get(node, "/clients", client_id="many", format="jsonl").lines()
                assert len(lines) == MANY
                assert {each["client_instance_id"] for each in lines} == expected
            paged: list[str] = []
            after = ""
            while True:
                query = {"client_id": "many", "sort": "client_instance_id", "order": "asc", "limit": "5000"}
                query |= {"after": after} if after else {}
                page = get(node, f"/clients?{urlencode(query)}").json()
                assert page["total"] == MANY
                paged += [each["client_instance_id"] for each in page["clients"]]
                after = page["next"]
                if after is None:
                    break
            assert paged == sorted(expected)
            shown = run_cli("clients", "--log-dirs", str(node.data), "--client-id", "many", "--format", "json").stdout
            assert len(shown.splitlines()) == MANY
        finally:
            stop.set()
            pusher.join(PATIENCE_S)
            assert not pusher.is_alive()
        assert codes
        assert set(codes) == {0}, "no push was refused or lost"
    wait_for_no_instance(node)
    assert get(node, "/clients", state="live,new,late").json()["total"] == 0
    assert "client_instance_id=" not in get(node, "/metrics").body.decode(), "no series of a gone client stays"


def test_a_node_that_does_not_run_is_one_sentence(tmp_path: Path, node: Node) -> None:
    (tmp_path / "data").mkdir()
    for source, says in (
        (("--log-dirs", str(tmp_path / "data")), "no node answers at"),
        (("--log-dirs", str(tmp_path / "nowhere")), "there is no data directory"),
        (("--url", "http://127.0.0.1:1"), "no node answers at http://127.0.0.1:1"),
        (("--url", "file:///etc/passwd"), "--url is http(s)://host:port"),
        (("--url", url_of(node) + "/nowhere"), "answered 404"),
        (("--log-dirs", str(node.data), "--state", "alive"), "states are ended, vanished"),
        (("--log-dirs", str(node.data), "--sort", "colour"), "sort has to be one of client_instance_id"),
        (("--log-dirs", str(node.data), "--instance-id", "x"), "22 characters"),
    ):
        ended = run_cli("clients", *source, check=False)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert says in ended.stderr
        assert ended.stderr.startswith("fleetgauge: ")
        assert len(ended.stderr.splitlines()) == 1
