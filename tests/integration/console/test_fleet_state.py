"""The console's state of real clients: at a real node, and over the topic of a real broker with the plugin."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.clients.client_fleet import ALL_EACH_SECOND, ALL_IN_TEN_MINUTES
from support.clients.telemetry_clients import LIBRDKAFKA_WAITS_FOR_MINUTES
from support.http import get_at
from support.programs.node import Node
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

from fleetgauge.console.state.fleet import ClientQuery, Fleet, FleetSettings
from fleetgauge.console.state.source import EmbeddedSource
from fleetgauge.console.state.topic_source import TopicSource
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

pytestmark = pytest.mark.integration

CLIENTS = Path(__file__).parents[2] / "support" / "clients" / "rdkafka_clients.py"
LATENCY = "request_latency_avg_ms"


@contextmanager
def fleet_of(source: Any, **named: Any) -> Iterator[Fleet]:
    fleet = Fleet(source, FleetSettings(form="serve"), **named)
    fleet.start()
    try:
        yield fleet
    finally:
        fleet.stop()


@contextmanager
def fleet_at(node: Node) -> Iterator[Fleet]:
    data = DataDirectory(node.data)
    with fleet_of(EmbeddedSource(data), node_socket=data.node_socket) as fleet:
        yield fleet


@contextmanager
def clients(bootstrap: str, prefix: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real producer and a real consumer of librdkafka, in a process of their own."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(CLIENTS), bootstrap, prefix], stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        follow(log)
        try:
            yield process
        finally:
            unfollow(log)
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


Rows = dict[str, dict[str, Any]]
"""By client id."""


def wait_for_rows(fleet: Fleet, condition: Callable[[Rows], object], what: str) -> Rows:
    """Waits until the rows of all clients meet a condition."""

    def read() -> tuple[Rows, list[str]]:
        rows = {row["client_id"]: row for row in fleet.clients(ClientQuery())["clients"]}
        return rows, fleet.overview()["notices"]

    rows, _ = wait_for(read, what, until=lambda found: condition(found[0]))
    return rows


def are_live(*names: str) -> Callable[[Rows], bool]:
    return lambda rows: all(rows.get(name, {}).get("state") == "live" for name in names)


def measures_of(client: dict[str, Any]) -> set[tuple[str, bool]]:
    """The measures that there are series of, and whether of a node."""
    return {(each["measure"], each["node_id"] is not None) for each in client["series"]}


def test_real_clients_appear_with_measures_and_one_that_is_killed_has_vanished(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL_EACH_SECOND) as node, fleet_at(node) as fleet:
        bootstrap = f"127.0.0.1:{node.port}"
        with clients(bootstrap, "stays", tmp_path / "stays.log"):
            with clients(bootstrap, "killed", tmp_path / "killed.log"):
                both = ("stays-producer", "stays-consumer", "killed-producer", "killed-consumer")
                wait_for_rows(fleet, are_live(*both), "four live clients")
                rows = wait_for_rows(
                    fleet,
                    lambda rows: all(
                        rows[name]["measures"][LATENCY] is not None and rows[name]["subscriptions"] for name in both
                    ),
                    "their latencies and subscriptions",
                )
            assert rows["stays-consumer"]["role"] == "consumer"
            assert rows["stays-consumer"]["group_id"] == "stays"
            assert rows["stays-producer"]["application"] == "stays-producer"
            assert rows["stays-producer"]["connections"] >= 1
            rows = wait_for_rows(
                fleet,
                lambda rows: (
                    {rows[f"killed-{kind}"]["state"] for kind in ("producer", "consumer")} == {"vanished"}
                    and are_live("stays-producer", "stays-consumer")(rows)
                ),
                "the killed clients to have vanished, and the others to be live",
            )
        found = wait_for(
            lambda: fleet.client(rows["killed-consumer"]["client_instance_id"]),
            "its latency, and that of its nodes",
            until=lambda client: client and {(LATENCY, False), (LATENCY, True)} <= measures_of(client),
        )
        assert found is not None
        assert found["subscription"]["push_interval_ms"] == 1_000
        assert found["subscription"]["metrics"]
        log = (tmp_path / "killed.log").read_text(errors="replace")
        assert found["names"]["librdkafka"] in log


def test_after_a_restart_it_reads_the_hour_back_also_while_no_node_runs(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL_EACH_SECOND) as node:
        with clients(f"127.0.0.1:{node.port}", "before", tmp_path / "clients.log") as process, fleet_at(node) as fleet:
            wait_for_rows(fleet, are_live("before-producer", "before-consumer"), "the clients")
            node.reread(ALL_IN_TEN_MINUTES)
            log = tmp_path / "clients.log"
            wait_for(
                lambda: re.findall(LIBRDKAFKA_WAITS_FOR_MINUTES, log.read_text()),
                "the interval at both",
                until=lambda found: len(found) == 2,
            )
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.wait(PATIENCE_S)
            before = wait_for_rows(fleet, lambda rows: rows["before-producer"]["state"] == "ended", "a closed producer")
        node.stop()
    with fleet_at(node) as fleet:
        names = ("before-producer", "before-consumer")
        rows = wait_for_rows(
            fleet,
            lambda rows: (
                all(rows.get(name, {}).get("measures", {}).get(LATENCY) is not None for name in names)
                and all(rows[name]["pushes"] >= before[name]["pushes"] for name in names)
                and rows["before-producer"]["state"] == "ended"
            ),
            "what was there before",
        )
        for name in names:
            assert rows[name]["client_instance_id"] == before[name]["client_instance_id"]
        wait_until_said(fleet, "are not available")


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "a broker can be run")
def test_the_topic_of_a_broker_with_the_plugin_shows_its_clients_and_an_outage_makes_none_of_them_late(
    tmp_path: Path,
) -> None:
    from support.brokers.kafka_jars import bridge_jar

    reporters = "org.apache.kafka.common.metrics.JmxReporter,io.github.fleetgauge.bridge.FleetgaugeExporterReporter"
    plugin = {"metric.reporters": reporters, "fleetgauge.topic.partitions": "3"}
    with KafkaBroker(tmp_path / "kafka", "4.3.1", jars=[bridge_jar()], properties=plugin, heap="384m") as broker:
        broker.subscribe(interval_ms=1_000)
        settings = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic="fleetgauge-pushes")
        with (
            fleet_of(TopicSource(settings)) as fleet,
            clients(broker.bootstrap, "topical", tmp_path / "clients.log") as process,
            console_alone(broker.bootstrap, tmp_path) as port,
        ):
            names = ("topical-producer", "topical-consumer")
            wait_for_rows(fleet, are_live(*names), "clients of the topic")
            rows = wait_for_rows(
                fleet,
                lambda rows: all(rows[name]["measures"][LATENCY] is not None for name in names),
                "their latencies",
            )
            assert rows["topical-producer"]["broker"] == 1
            assert rows["topical-producer"]["partition"] in range(3)
            assert_shown_alone(port, rows)
            broker.kill()  # at once: while a broker stops, clients that push no more become late
            process.kill()
            wait_until_said(fleet, "cannot be read now")
            before = fleet.overview()
            later = wait_for(
                fleet.overview,
                "ten seconds of the outage",
                until=lambda found: found["now"] - before["now"] > 10_000_000,
            )
            assert later["read_up_to"] - before["read_up_to"] < 5_000_000
            assert later["clients"]["states"].get("live"), later
            broker.start()
            wait_for(
                fleet.overview,
                "a topic that is read again",
                until=lambda found: not found["notices"] and found["read_up_to"] > before["read_up_to"],
            )


@contextmanager
def console_alone(bootstrap: str, directory: Path) -> Iterator[int]:
    """`fleetgauge console` of a topic, with a rule file of its own; its port."""
    rules = directory / "rules.toml"
    rules.write_text("[outdated]\nenabled = false\n")
    keys = ("http.listeners=http://127.0.0.1:0", f"console.rules.file={rules}", "console.decode.cores=2.0")
    command = [sys.executable, "-m", "fleetgauge", "console", "--bootstrap-server", bootstrap]
    with subprocess.Popen(
        [*command, *(f"--override={key}" for key in keys)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as alone:
        try:
            assert alone.stdout is not None
            line = alone.stdout.readline()
            assert f"(topic fleetgauge-pushes at {bootstrap})" in line
            yield int(line.split(" (")[0].rsplit(":", 1)[1])
        finally:
            alone.kill()


def assert_shown_alone(port: int, rows: dict[str, Any]) -> None:
    """The console shows the same live clients with a latency, and the measures of its page."""

    def listed() -> dict[str, Any]:
        answer = get_at("127.0.0.1", port, "/api/clients?state=live&q=topical")
        return {row["client_id"]: row for row in answer.json()["clients"]} if answer.status == 200 else {}

    names = ("topical-producer", "topical-consumer")
    shown = wait_for(
        listed,
        "the clients on the console of the topic",
        until=lambda found: all(found.get(name, {"measures": {LATENCY: None}})["measures"][LATENCY] for name in names),
    )
    assert all(shown[name]["client_instance_id"] == rows[name]["client_instance_id"] for name in names)
    assert get_at("127.0.0.1", port, "/api/overview").json()["notices"] == []
    assert LATENCY in get_at("127.0.0.1", port, "/static/measures.js").body.decode()
    assert "runs alone" in get_at("127.0.0.1", port, "/api/exporters").json()["why_not"]


def wait_until_said(fleet: Fleet, text: str) -> None:
    wait_for(
        lambda: list(fleet.overview()["notices"]),
        f"the notice {text!r}",
        until=lambda notices: any(text in each for each in notices),
    )


def test_a_topic_that_is_not_there_and_brokers_that_are_not_there_are_notices() -> None:
    settings = KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", topic="none")
    with fleet_of(TopicSource(settings)) as fleet:
        wait_until_said(fleet, "Topic none at 127.0.0.1:1 cannot be read now")
        assert fleet.overview()["clients"]["total"] == 0
