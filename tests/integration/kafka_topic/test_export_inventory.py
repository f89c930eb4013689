"""`fleetgauge export` over a real broker: its HTTP port, its clients, its status, and the tail of the topic."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.export import Export
from support.http import get_url, wait_until
from support.node import run_cli
from support.payloads import metrics_data
from support.plugin_records import Brokers
from support.webhook import Webhook

from push_log.kafka_topic.settings import KafkaTopicSettings

pytestmark = pytest.mark.integration


def config_of(tmp_path: Path, topic: KafkaTopicSettings, exporters: str = "") -> Path:
    """What an operator writes; the landing zone alone unless other exporters are given."""
    path = tmp_path / "export.toml"
    landing = f'[exporters.landing]\ntype = "landing"\npath = "{tmp_path / "landing"}"\n"linger.ms" = 200\n'
    path.write_text(
        f'"push.log" = "kafka"\npush.log.kafka.bootstrap.servers = "{topic.bootstrap_servers}"\n'
        f'push.log.kafka.topic = "{topic.topic}"\npush.log.kafka.group.prefix = "{topic.group_prefix}"\n'
        f"push.log.kafka.client.session.timeout.ms = 6000\n{exporters or landing}"
    )
    return path


@contextmanager
def exporting(tmp_path: Path, config: Path, *overrides: str, number: int = 0) -> Iterator[Export]:
    with Export(tmp_path, config, "http.listeners=http://127.0.0.1:0", *overrides, number=number) as export:
        wait_until(lambda: told(export) is not None, what="the export to answer")
        yield export
        assert export.stop() == 0, export.output()


def told(export: Export) -> dict[str, Any] | None:
    try:
        return export.status()
    except ValueError:
        assert export.process.poll() is None, export.output()
        return None


def listed(export: Export, **query: str) -> Any:
    """What it tells of its clients; a problem alone while its exporter process does not answer."""
    return get_url(str(export.status()["http"]["listeners"][0]), "/clients", **query).json()


def coverage_of(export: Export) -> dict[str, Any]:
    return dict(listed(export).get("coverage", {}))


def test_an_export_tells_of_its_clients_over_http_and_by_the_commands(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    config = config_of(tmp_path, topic)
    with exporting(tmp_path, config) as export:
        url = str(export.status()["http"]["listeners"][0])
        wait_until(lambda: get_url(url, "/readyz").status == 200, what="the export to be ready")
        wait_until(lambda: coverage_of(export).get("read_up_to"), what="all partitions to be read")
        empty = run_cli("clients", "--log-dirs", str(export.data)).stdout
        assert "within five minutes" in empty
        assert "kafka-client-metrics.sh" in empty
        assert topic.topic in empty

        brokers = Brokers(topic)
        live = brokers.push("orders", push_interval_ms=300_000, receiver_node_id=7)
        brokers.push("killed", ago_s=70, partition=1)
        brokers.push("slow", ago_s=1_000, push_interval_ms=600_000, partition=2)
        brokers.push("closed", ago_s=30, terminating=True)
        brokers.push("quiet", ago_s=120, push_interval_ms=None)
        states = {"orders": "live", "killed": "vanished", "slow": "late", "closed": "ended", "quiet": "live"}
        wait_until(
            lambda: {c["client_id"]: c["state"] for c in listed(export).get("clients", ())} == states, what=str(states)
        )
        (row,) = listed(export, client_id="orders")["clients"]
        assert (row["client_instance_id"], row["broker"], row["partition"], row["pushes"]) == (live, 7, 0, 1)
        assert (row["connections"], row["subscriptions"], row["push_bytes"]) == (None, None, None)
        coverage = coverage_of(export)
        assert (coverage["topic"], coverage["partitions"]) == (topic.topic, [0, 1, 2])
        for source in (("--log-dirs", str(export.data)), ("--url", url)):
            (vanished,) = run_cli("clients", *source, "--state", "vanished", "--format", "json").stdout.splitlines()
            assert json.loads(vanished)["client_id"] == "killed"
            table = run_cli("clients", *source).stdout
            assert all(each in table for each in states)
            assert f"clients of topic {topic.topic}, partitions 0, 1, 2" in table
            assert "matches the filter" in run_cli("clients", *source, "--client-id", "nobody").stdout

        brokers.push("orders", instance=live, push_interval_ms=300_000)
        wait_until(lambda: listed(export, client_id="orders")["clients"][0]["pushes"] == 2, what="the second push")
        wait_until(lambda: export.status()["clients"]["instances_vanished"] == 1, what="the vanished to be counted")
        values = metrics(url)
        assert values["fleetgauge_ready", ()] == 1
        assert values["fleetgauge_client_instances_vanished", ()] == 1
        assert values["fleetgauge_exporter_assigned_partitions", ("landing",)] == 3
        delivered = ("fleetgauge_exporter_delivered_pushes_total", ("landing",))
        wait_until(lambda: metrics(url)[delivered] == 6, what="all pushes to be delivered")
        status = run_cli("status", "--log-dirs", str(export.data)).stdout
        assert url in status
        assert "1 vanished, 1 ended" in status
    lines = run_cli("log", "tail", "--config", str(config), "-n", "4", "--format", "json").stdout.splitlines()
    newest = [json.loads(line) for line in lines]
    assert [each["client_id"] for each in newest] == ["killed", "closed", "orders", "orders"]
    assert newest[-1]["metrics_bytes"] == len(metrics_data())


def metrics(url: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and label values."""
    text = get_url(url, "/metrics").body.decode()
    return {
        (each.name, tuple(each.labels.values())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_two_exports_show_their_parts_and_clients_of_revoked_partitions_are_dropped(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    config = config_of(tmp_path, topic)
    brokers = Brokers(topic)
    with exporting(tmp_path, config) as first:
        ids = {brokers.push(f"client-{each}", partition=each, push_interval_ms=300_000): each for each in range(3)}
        wait_until(lambda: listed(first).get("total") == 3, what="all clients")
        with exporting(tmp_path, config, number=1) as second:
            wait_until(lambda: coverage_of(second).get("partitions"), what="the second to get partitions")
            wait_until(lambda: len(coverage_of(first).get("partitions", ids)) < 3, what="the first to give some away")
            for instance, partition in ids.items():
                brokers.push(f"client-{partition}", instance=instance, partition=partition, push_interval_ms=300_000)
            wait_until(
                lambda: sum(listed(each).get("total", 4) for each in (first, second)) == 3, what="each to be known once"
            )
            for each in (first, second):
                wait_until(lambda each=each: is_whole(listed(each)), what="a client of each of its partitions alone")
            rows = run_cli("clients", "--log-dirs", str(first.data), "--format", "json").stdout.splitlines()
            assert {json.loads(row)["client_instance_id"] for row in rows} == set(ids)
        wait_until(lambda: len(coverage_of(first).get("partitions", ())) == 3, what="the first to have all again")


def is_whole(found: Any) -> bool:
    """True if a client of each partition is listed, and none of another partition."""
    return "clients" in found and {row["partition"] for row in found["clients"]} == set(found["coverage"]["partitions"])


def test_while_the_destination_is_away_nobody_is_said_to_be_late(tmp_path: Path, topic: KafkaTopicSettings) -> None:
    """A client's silence is measured against what was read: here the pushes behind it are not."""
    with Webhook() as hook:
        url = hook.url
    keys = 'type = "webhook_exporter:webhook_exporter"\n"linger.ms" = 10\n"batch.max.records" = 1\n'
    config = config_of(tmp_path, topic, f'[exporters.hook]\n{keys}url = "{url}"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "examples"))
        brokers = Brokers(topic)
        with exporting(tmp_path, config, "shutdown.timeout.ms=1000") as export:
            # Joining its group may take longer than a client of this interval needs to be late.
            wait_until(lambda: coverage_of(export).get("read_up_to"), what="all partitions to be read")
            instance = brokers.push("orders")
            export.wait_for("hook", lambda state: bool(state["retried"]))
            for _ in range(12):
                brokers.push("orders", instance=instance)
                time.sleep(0.5)
            (row,) = listed(export)["clients"]
            assert (row["state"], row["pushes"]) == ("live", 1)
            assert coverage_of(export)["read_up_to"] < time.time() * 1e6 - 3e6
            assert get_url(str(export.status()["http"]["listeners"][0]), "/readyz").status == 200


def test_clients_are_known_again_after_the_exporter_process_was_killed(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    brokers = Brokers(topic)
    with exporting(tmp_path, config_of(tmp_path, topic)) as export:
        instance = brokers.push("orders", push_interval_ms=300_000)
        wait_until(lambda: listed(export).get("total") == 1, what="the client")
        url = str(export.status()["http"]["listeners"][0])
        export.kill_exporter()
        answer = wait_until(failing(lambda: get_url(url, "/clients")), what="the clients to be unknown")
        assert "exporter process" in answer.json()["error"]
        wait_until(failing(lambda: get_url(url, "/readyz")), what="the export to be said not ready")
        assert get_url(url, "/healthz").status == 200
        brokers.push("orders", instance=instance, push_interval_ms=300_000)
        wait_until(lambda: get_url(url, "/readyz").status == 200, what="the export to be ready again")
        wait_until(lambda: listed(export).get("total") == 1, what="the client again")


def failing(ask: Callable[[], Any]) -> Callable[[], Any]:
    """The answer if it is 503, else None."""

    def answer() -> Any:
        found = ask()
        return found if found.status == 503 else None

    return answer


def test_an_export_whose_brokers_are_away_answers_from_its_start_and_is_not_ready(tmp_path: Path) -> None:
    away = KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", topic="pushes", group_prefix="g")
    with exporting(tmp_path, config_of(tmp_path, away), "shutdown.timeout.ms=1000") as export:
        url = str(export.status()["http"]["listeners"][0])

        def reason() -> str:
            answer = get_url(url, "/readyz")
            assert answer.status == 503
            return str(answer.json()["reasons"][0])

        wait_until(lambda: "cannot read" in reason(), what="the brokers to be missed")
        assert get_url(url, "/healthz").status == 200
        assert "reads no partition of topic pushes now" in run_cli("clients", "--log-dirs", str(export.data)).stdout
        assert export.stop() == 0
    (stopped,) = [line for line in export.output().splitlines() if "node.stopped" in line]
    assert '"undelivered": {"landing": null}' in stopped, "nobody knows how many"


def test_a_port_that_is_taken_is_one_sentence_and_leaves_nothing_behind(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = config_of(tmp_path, topic)
        with Export(tmp_path, config, f"http.listeners=http://127.0.0.1:{port}") as export:
            assert export.process.wait(240) == 1
    (line,) = [line for line in export.output().splitlines() if line.startswith("fleetgauge: ")]
    assert f"http://127.0.0.1:{port} cannot be bound: Address already in use" in line
    assert not list(export.data.glob("*.sock"))
