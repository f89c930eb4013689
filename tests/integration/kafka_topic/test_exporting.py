"""The pipeline over a real broker: serve appends to the topic, fleetgauge export delivers, and parts of it fail."""

import json
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from support.brokers.kafka_broker import KafkaBroker
from support.clients.push_watch import PushWatch
from support.clients.raw_client import RawClient
from support.fleet.landing import landed
from support.payloads.payloads import metrics_data
from support.programs.export import Export
from support.programs.node import Node
from support.programs.push_log import push_record
from support.receivers.receiver import OtlpReceiver
from support.waiting import PATIENCE_S, ticking, wait_for

from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

pytestmark = pytest.mark.integration

THROTTLING_QUOTA_EXCEEDED = 89
MAX_POLL_INTERVAL_MS = 6_000


def topic_keys(topic: KafkaTopicSettings) -> tuple[str, ...]:
    return (
        "push.log.type=kafka",
        f"push.log.kafka.bootstrap.servers={topic.bootstrap_servers}",
        f"push.log.kafka.topic.name={topic.topic}",
        f"push.log.kafka.topic.partitions={topic.partitions}",
        f"push.log.kafka.group.prefix={topic.group_prefix}",
        "push.log.kafka.client.session.timeout.ms=6000",  # a process that is killed is missed soon
        "client-metrics.everything.interval.ms=1000",
        "client-metrics.everything.metrics=*",
    )


def landing_keys(tmp_path: Path) -> tuple[str, ...]:
    return (
        "exporters.landing.type=landing",
        f"exporters.landing.path={tmp_path / 'landing'}",
        "exporters.landing.linger.ms=200",
    )


@contextmanager
def serving(tmp_path: Path, *keys: str) -> Iterator[Node]:
    directory = tmp_path / "serve"
    directory.mkdir()
    with Node(directory, *keys, "push.log.ack.timeout.ms=20000") as node:
        yield node


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "export.toml"
    path.write_text("")
    return path


def push(node: Node, count: int) -> list[str]:
    """Pushes from as many clients; the instance ids of those that were answered NONE."""
    acknowledged = []
    with RawClient(node.port) as client:
        for _ in range(count):
            subscription = client.get(uuid.uuid4())
            if client.push(subscription, metrics_data()).error_code == 0:
                acknowledged.append(subscription.client_instance_id)
    return [str(instance) for instance in acknowledged]


def wait_until_landed(tmp_path: Path, count: int) -> Counter[str]:
    """How often each push landed, once `count` different ones have, and no more."""

    def pushes() -> Counter[str]:
        return Counter(str(record["push_id"]) for record in landed(tmp_path / "landing"))

    wait_for(lambda: len(pushes()), f"{count} pushes in the landing zone", until=lambda found: found >= count)
    found = pushes()
    assert len(found) == count
    return found


def has_all_partitions_and_no_backlog(state: dict[str, Any]) -> bool:
    return len(state["partitions"]) == 3 and state["lag_records"] == 0


def test_what_real_clients_push_is_delivered_once_by_an_export_on_its_own(
    tmp_path: Path, topic: KafkaTopicSettings, config: Path
) -> None:
    receiver = OtlpReceiver()
    collector = ("exporters.collector.type=otlp", f"exporters.collector.endpoint=http://127.0.0.1:{receiver.port}")
    keys = (*topic_keys(topic), *landing_keys(tmp_path), *collector)
    with serving(tmp_path, *topic_keys(topic)) as node, Export(tmp_path, config, *keys) as export:
        common = {"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 3}
        producer = Producer({**common, "client.id": "orders"})
        consumer = Consumer({**common, "client.id": "audit", "group.id": "auditors"})

        def acknowledged() -> int:
            producer.poll(0)
            consumer.poll(0.1)
            return int(node.status()["telemetry"]["push_answers"].get("NONE", 0))

        wait_for(acknowledged, "six pushes that were acknowledged", until=lambda count: count >= 6)
        with PushWatch(topic.bootstrap_servers, topic.topic) as watch:
            watch.close_after_a_push("orders", producer)
            watch.close_after_a_push("audit", consumer)
        status = node.wait_for(
            lambda s: s["telemetry"]["push_answers"].get("NONE", 0) >= 8, what="a last push of each client"
        )
        answers = status["telemetry"]["push_answers"]
        assert set(answers) == {"NONE"}
        assert node.status()["exporter_process"]["wanted"] is False
        found = wait_until_landed(tmp_path, answers["NONE"])
        export.wait_for(
            "collector", lambda state: state["delivered_records"] == answers["NONE"], "all pushes at the collector"
        )
        export.wait_for("landing", has_all_partitions_and_no_backlog, "no backlog")
        assert node.stop() == 0, node.output()
        assert export.stop() == 0, export.output()
    assert set(found.values()) == {1}
    records = landed(tmp_path / "landing")
    assert {record["client_id"] for record in records} == {"orders", "audit"}
    assert sorted(record["client_id"] for record in records if record["terminating"]) == ["audit", "orders"]
    labels = [client["labels"] for client in receiver.finish().values()]
    assert {label["client_id"] for label in labels} == {"orders", "audit"}
    assert {label["client_software_name"] for label in labels} == {"confluent-kafka-python"}


def test_nothing_is_lost_when_the_exporter_is_killed_and_when_a_second_export_joins_and_leaves(
    tmp_path: Path, topic: KafkaTopicSettings, config: Path
) -> None:
    keys = (*topic_keys(topic), *landing_keys(tmp_path))
    with ExitStack() as stack:
        node = stack.enter_context(serving(tmp_path, *topic_keys(topic)))
        first = stack.enter_context(Export(tmp_path, config, *keys))
        acknowledged = push(node, 100)
        first.wait_for("landing", lambda state: state["delivered_records"] > 0, "a first delivery")
        first.kill_exporter()
        acknowledged += push(node, 100)
        second = stack.enter_context(Export(tmp_path, config, *keys, number=1))
        acknowledged += push(node, 100)
        second.wait_for("landing", lambda state: len(state["partitions"]) > 0, "partitions of the second export")
        first.wait_for("landing", lambda state: 0 < len(state["partitions"]) < 3, "partitions passed to the second")
        acknowledged += push(node, 100)
        second.kill()
        acknowledged += push(node, 100)
        assert len(acknowledged) == 500
        found = wait_until_landed(tmp_path, 500)
        first.wait_for("landing", has_all_partitions_and_no_backlog, "all partitions back, and no backlog")
        assert first.status()["exporter_process"]["restarts"] == 1
        assert first.stop() == 0
    assert sum(found.values()) < 750, "what was delivered and not committed comes again, and not more"
    assert landed_instances(tmp_path) == set(acknowledged)


def landed_instances(tmp_path: Path) -> set[str]:
    return {uuid_of(record["client_instance_id"]) for record in landed(tmp_path / "landing")}


def uuid_of(instance: object) -> str:
    from fleetgauge.telemetry.push_record import parse_instance_id

    return str(parse_instance_id(str(instance)))


@pytest.mark.soak
def test_a_receiver_that_is_away_for_three_times_max_poll_interval_evicts_nobody_and_loses_nothing(
    tmp_path: Path, topic: KafkaTopicSettings, config: Path
) -> None:
    gone = OtlpReceiver()
    port = gone.port
    gone.finish()
    keys = (
        *topic_keys(topic),
        "exporters.collector.type=otlp",
        f"exporters.collector.endpoint=http://127.0.0.1:{port}",
        "exporters.collector.batch.max.records=7",
        f"push.log.kafka.client.max.poll.interval.ms={MAX_POLL_INTERVAL_MS}",
    )
    with serving(tmp_path, *topic_keys(topic)) as node, Export(tmp_path, config, *keys) as export:
        acknowledged = push(node, 60)
        export.wait_for(
            "collector", lambda state: state["retried"] and state["lag_records"] == 60, "a try in vain, and the backlog"
        )
        for _ in ticking(3 * MAX_POLL_INTERVAL_MS / 1_000, every_s=1.0):
            acknowledged += push(node, 5)
        export.wait_for("collector", lambda state: state["lag_records"] == len(acknowledged), "the whole backlog")
        receiver = OtlpReceiver(port)
        export.wait_for("collector", lambda state: state["lag_records"] == 0, "no backlog")
        state = export.exporter("collector")
        assert (state["delivered_records"], state["passed_on_records"]) == (len(acknowledged), 0)
        assert "push_log.partitions_revoked" not in export.output(), "the group has kept its member"
        assert export.stop() == 0
    assert {uuid_of(instance) for instance in receiver.finish()} == set(acknowledged)


def test_records_that_are_no_push_records_are_set_aside_and_counted_and_the_others_delivered(
    tmp_path: Path, topic: KafkaTopicSettings, config: Path
) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "enable.metrics.push": False})
    good = [encode_record(push_record(number, metrics_data())) for number in range(10)]
    key, value, headers = good[0]
    bad = [
        (key, None, headers),
        (b"no instance id", value, headers),
        (key, value, [*headers, ("principal", b"\xff")]),
        (key, value, [*headers, ("schema_version", b"2")]),
        (key, value, []),
    ]
    for partition in range(topic.partitions):
        for number in range(10):
            if number < len(bad):
                producer.produce(topic.topic, bad[number][1], bad[number][0], partition, headers=bad[number][2])
            if partition == 0:
                producer.produce(topic.topic, good[number].value, key, partition, headers=good[number].headers)
    assert producer.flush(PATIENCE_S) == 0
    with Export(tmp_path, config, *topic_keys(topic), *landing_keys(tmp_path)) as export:
        assert set(wait_until_landed(tmp_path, 10).values()) == {1}
        each = ["null_value", "bad_key", "not_utf8", "newer_schema", "missing_header"]
        expected = dict.fromkeys(each, topic.partitions)
        export.wait_for(
            "landing", lambda state: state["bad_records"] == expected and state["lag_records"] == 0, str(expected)
        )
        assert export.stop() == 0
    said = [line for line in export.output().splitlines() if "push_log.record_skipped" in line]
    assert {logged(line)["reason"] for line in said} == set(each)
    for reason in each:
        assert_a_minute_apart([line for line in said if logged(line)["reason"] == reason])
    assert all(f'"topic": "{topic.topic}"' in line and '"offset": ' in line for line in said)
    with Export(tmp_path, config, *topic_keys(topic), *landing_keys(tmp_path)) as export:
        export.wait_for(
            "landing", lambda state: len(state["partitions"]) == 3 and state["state"] == "running", "all partitions"
        )
        assert export.exporter("landing")["bad_records"] == {}, "they were committed, and do not come again"


def test_while_the_broker_is_down_pushes_are_throttled_and_service_resumes_when_it_is_back(
    tmp_path: Path, config: Path
) -> None:
    with KafkaBroker(tmp_path / "broker", "4.3.1", heap="384m") as broker:
        topic = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic="pushes", partitions=3)
        keys = (*topic_keys(topic), *landing_keys(tmp_path), "push.log.ack.timeout.ms=500")
        with serving(tmp_path, *keys) as node:
            acknowledged = push(node, 20)
            assert len(acknowledged) == 20
            assert broker.stop() is not None
            assert push(node, 10) == []
            answers = node.status()["telemetry"]["push_answers"]
            assert set(answers) <= {
                "NONE",
                "THROTTLING_QUOTA_EXCEEDED: PushLogTimeoutError",
                "THROTTLING_QUOTA_EXCEEDED: PushLogError",
            }
            node.wait_for(
                lambda s: s["exporter_process"]["exporters"]["landing"]["retried"].get("push_log"),
                what="the exporter to say that it cannot read the log",
            )
            broker.start()
            back = wait_for(lambda: push(node, 1), "a push that is acknowledged again")
            acknowledged += back + push(node, 20)
            assert len(acknowledged) == 41
            node.wait_for(
                lambda s: (
                    s["exporter_process"]["exporters"]["landing"]["lag_records"] == 0
                    and s["exporter_process"]["exporters"]["landing"]["state"] == "running"
                ),
                what="the landing zone to have everything",
            )
            # The status may still be that of the time before the broker was away.
            wait_for(
                lambda: set(acknowledged) - landed_instances(tmp_path),
                "every push that was acknowledged; the missing are those seen",
                until=lambda missing: not missing,
            )
            assert node.stop() == 0, node.output()


def test_a_node_that_starts_before_its_brokers_throttles_until_they_are_there(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker", "4.3.1", heap="384m")
    topic = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic="pushes", partitions=2)
    with serving(tmp_path, *topic_keys(topic)) as node:
        assert push(node, 3) == []
        wait_for(lambda: "push_log.topic_unreachable" in node.output(), "the line that says so")
        with broker:
            wait_for(lambda: push(node, 1), "a push that is acknowledged")
            assert len(push(node, 5)) == 5
            assert node.stop() == 0


def test_a_page_that_cannot_be_served_holds_no_partition_and_delivers_once_it_can(
    tmp_path: Path, topic: KafkaTopicSettings, config: Path
) -> None:
    """Another process of the same group has all partitions meanwhile."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        page = ("exporters.page.type=prometheus", "exporters.page.linger.ms=50")
        stuck = stack.enter_context(
            Export(
                tmp_path,
                config,
                *topic_keys(topic),
                *landing_keys(tmp_path),
                *page,
                f"exporters.page.listen={listen}",
            )
        )
        stuck.wait_for("page", lambda state: state["state"] == "retrying", "a page that cannot be served")
        well = stack.enter_context(
            Export(elsewhere, config, *topic_keys(topic), *page, "exporters.page.listen=127.0.0.1:0")
        )
        well.wait_for("page", lambda state: len(state["partitions"]) == topic.partitions, "all partitions")
        with serving(tmp_path, *topic_keys(topic)) as node:
            acknowledged: list[str] = []

            def push_the_rest() -> int:
                """The first may be too early for the topic's producer."""
                acknowledged.extend(push(node, 6 - len(acknowledged)))
                return len(acknowledged)

            wait_for(push_the_rest, "six pushes that are acknowledged", until=lambda count: count == 6)
        well.wait_for("page", lambda state: state["delivered_records"] >= 6, "all pushes on the page")
        state = stuck.exporter("page")
        assert (state["state"], state["partitions"]) == ("retrying", [])
        problem = f"exporters.page.listen: {listen} cannot be bound: Address already in use; use another address"
        assert problem in state["last_error"]
        stuck.wait_for("landing", lambda state: state["delivered_records"] >= 6, "all pushes in the landing zone")
        assert stuck.status()["export"]["not_ready"] == [], "the other exporter reads the topic"
        told = [line for line in stuck.output().splitlines() if problem in line]
        assert told
        for event in {logged(line)["event"] for line in told}:
            assert_a_minute_apart([line for line in told if logged(line)["event"] == event])
        assert "Traceback" not in stuck.output()
        taken.close()
        stuck.wait_for("page", lambda state: state["state"] == "running", "a page that is served")
        assert well.stop() == 0
        state = stuck.wait_for("page", lambda state: len(state["partitions"]) == topic.partitions, "all partitions")
        assert state["last_error_over_at"] > state["last_error_at"]


def logged(line: str) -> dict[str, Any]:
    """A line of the log."""
    return dict(json.loads(line))


def assert_a_minute_apart(lines: list[str]) -> None:
    times = [datetime.fromisoformat(logged(line)["timestamp"]) for line in lines]
    assert all(later - earlier > timedelta(seconds=59) for earlier, later in pairwise(times)), lines


def test_processes_that_come_and_go_are_no_error(tmp_path: Path, topic: KafkaTopicSettings, config: Path) -> None:
    """A rebalance in the middle of deliveries leaves no last error and no failed try."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    keys = (*topic_keys(topic), *landing_keys(tmp_path), "exporters.landing.batch.max.records=1")
    with serving(tmp_path, *topic_keys(topic)) as node, Export(tmp_path, config, *keys) as stays:
        stays.wait_for("landing", lambda state: len(state["partitions"]) == topic.partitions, "all partitions")
        for _ in range(2):
            push(node, 100)
            with Export(elsewhere, config, *keys) as comes:
                comes.wait_for("landing", lambda state: len(state["partitions"]) > 0, "partitions of the other export")
                push(node, 100)
                assert comes.stop() == 0
            stays.wait_for("landing", lambda state: len(state["partitions"]) == topic.partitions, "all partitions back")
        push(node, 1)
        stays.wait_for("landing", lambda state: state["lag_records"] == 0, "no backlog")
        state = stays.exporter("landing")
        assert (state["retried"], state["last_error"]) == ({}, None), stays.output()
