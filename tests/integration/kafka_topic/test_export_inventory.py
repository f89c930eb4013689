"""`fleetgauge export` over a real broker: its HTTP port, its clients, its status, and the tail of the topic."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.brokers.plugin_records import Brokers
from support.http import HttpAnswer, get_url
from support.payloads.payloads import metrics_data
from support.programs.export import Export
from support.programs.node import run_cli
from support.receivers.webhook import Webhook
from support.waiting import PATIENCE_S, ticking, wait_for

from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

pytestmark = pytest.mark.integration


def config_of(tmp_path: Path, topic: KafkaTopicSettings, exporters: str = "") -> Path:
    """What an operator writes; the landing zone alone unless other exporters are given."""
    path = tmp_path / "export.toml"
    landing = f'[exporters.landing]\ntype = "landing"\npath = "{tmp_path / "landing"}"\n"linger.ms" = 200\n'
    path.write_text(
        f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{topic.bootstrap_servers}"\n'
        f'push.log.kafka.topic.name = "{topic.topic}"\npush.log.kafka.group.prefix = "{topic.group_prefix}"\n'
        f"push.log.kafka.client.session.timeout.ms = 6000\n{exporters or landing}"
    )
    return path


@contextmanager
def exporting(tmp_path: Path, config: Path, *overrides: str, number: int = 0) -> Iterator[Export]:
    with Export(tmp_path, config, "http.listeners=http://127.0.0.1:0", *overrides, number=number) as export:
        wait_for(lambda: told(export), "an export that answers", ignoring=(ValueError,))
        yield export
        assert export.stop() == 0, export.output()


def told(export: Export) -> dict[str, Any]:
    assert export.process.poll() is None, export.output()
    return export.status()


def url_of(export: Export) -> str:
    return str(export.status()["http"]["listeners"][0])


def listed(export: Export, **query: str) -> Any:
    """What it tells of its clients; a problem alone while its exporter process does not answer."""
    return get_url(url_of(export), "/clients", **query).json()


def coverage_of(export: Export) -> dict[str, Any]:
    return dict(listed(export).get("coverage", {}))


def wait_until_all_is_read(export: Export) -> None:
    wait_for(
        lambda: coverage_of(export), "all partitions to be read", until=lambda coverage: coverage.get("read_up_to")
    )


def wait_for_clients(export: Export, number: int) -> None:
    wait_for(lambda: listed(export), f"{number} clients", until=lambda answer: answer.get("total") == number)


def is_ready(answer: HttpAnswer) -> bool:
    return answer.status == 200


def is_unavailable(answer: HttpAnswer) -> bool:
    return answer.status == 503


def test_an_export_tells_of_its_clients_over_http_and_by_the_commands(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    config = config_of(tmp_path, topic)
    with exporting(tmp_path, config) as export:
        url = url_of(export)
        wait_for(lambda: get_url(url, "/readyz"), "an export that is ready", until=is_ready)
        wait_until_all_is_read(export)
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
        wait_for(
            lambda: {c["client_id"]: c["state"] for c in listed(export).get("clients", ())},
            str(states),
            until=lambda found: found == states,
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
        wait_for(
            lambda: [each["pushes"] for each in listed(export, client_id="orders").get("clients", ())],
            "the second push",
            until=lambda pushes: pushes == [2],
        )
        wait_for(
            lambda: export.status()["clients"]["instances_vanished"],
            "the vanished client in the counts",
            until=lambda count: count == 1,
        )
        expected: dict[tuple[str, tuple[str, ...]], float] = {
            ("fleetgauge_ready", ()): 1,
            ("fleetgauge_client_instances_vanished", ()): 1,
            ("fleetgauge_exporter_assigned_partitions", ("landing",)): 3,
            ("fleetgauge_exporter_delivered_pushes_total", ("landing",)): 6,
        }
        wait_for(
            lambda: {name: value for name, value in metrics(url).items() if name in expected},
            str(expected),
            until=lambda values: values == expected,
        )
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
        wait_for_clients(first, 3)
        with exporting(tmp_path, config, number=1) as second:
            wait_for(lambda: coverage_of(second).get("partitions"), "partitions of the second export")
            wait_for(
                lambda: coverage_of(first).get("partitions", [0, 1, 2]),
                "partitions passed on by the first export",
                until=lambda partitions: len(partitions) < 3,
            )
            for instance, partition in ids.items():
                brokers.push(f"client-{partition}", instance=instance, partition=partition, push_interval_ms=300_000)
            wait_for(
                lambda: [listed(each) for each in (first, second)],
                "each client once, at the export that has its partition",
                until=lambda answers: sum(map(total_of, answers)) == 3 and all(map(is_whole, answers)),
            )
            rows = run_cli("clients", "--log-dirs", str(first.data), "--format", "json").stdout.splitlines()
            assert {json.loads(row)["client_instance_id"] for row in rows} == set(ids)
        wait_for(
            lambda: coverage_of(first).get("partitions", ()),
            "all partitions back at the first export",
            until=lambda partitions: len(partitions) == 3,
        )


def total_of(found: dict[str, Any]) -> int:
    """How many clients an export lists; 4 for an answer without a list."""
    return int(found.get("total", 4))


def is_whole(found: dict[str, Any]) -> bool:
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
            wait_until_all_is_read(export)
            instance = brokers.push("orders")
            export.wait_for("hook", lambda state: state["retried"], "a try in vain")
            for _ in ticking(6.0, every_s=0.5):
                brokers.push("orders", instance=instance)
            answer = wait_for(lambda: listed(export), "the clients", until=lambda found: "clients" in found)
            (row,) = answer["clients"]
            assert (row["state"], row["pushes"]) == ("live", 1)
            assert answer["coverage"]["read_up_to"] < time.time() * 1e6 - 3e6
            assert get_url(url_of(export), "/readyz").status == 200


def test_clients_are_known_again_after_the_exporter_process_was_killed(
    tmp_path: Path, topic: KafkaTopicSettings
) -> None:
    brokers = Brokers(topic)
    with exporting(tmp_path, config_of(tmp_path, topic)) as export:
        instance = brokers.push("orders", push_interval_ms=300_000)
        wait_for_clients(export, 1)
        url = url_of(export)
        export.kill_exporter()
        answer = wait_for(lambda: get_url(url, "/clients"), "clients that are unknown", until=is_unavailable)
        assert "exporter process" in answer.json()["error"]
        wait_for(lambda: get_url(url, "/readyz"), "an export that is not ready", until=is_unavailable)
        assert get_url(url, "/healthz").status == 200
        brokers.push("orders", instance=instance, push_interval_ms=300_000)
        wait_for(lambda: get_url(url, "/readyz"), "an export that is ready again", until=is_ready)
        wait_for_clients(export, 1)


def test_an_export_whose_brokers_are_away_answers_from_its_start_and_is_not_ready(tmp_path: Path) -> None:
    away = KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", topic="pushes", group_prefix="g")
    with exporting(tmp_path, config_of(tmp_path, away), "shutdown.timeout.ms=1000") as export:
        url = url_of(export)

        def reason() -> str:
            answer = get_url(url, "/readyz")
            assert answer.status == 503
            return str(answer.json()["reasons"][0])

        wait_for(reason, "brokers that are missed", until=lambda found: "cannot read" in found)
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
            assert export.process.wait(PATIENCE_S) == 1
    (line,) = [line for line in export.output().splitlines() if line.startswith("fleetgauge: ")]
    assert f"http://127.0.0.1:{port} cannot be bound: Address already in use" in line
    assert not list(export.data.glob("*.sock"))
