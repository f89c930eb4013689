"""Changes by admin requests: durable, in force at all workers and for live clients, bounded, only where allowed."""

import struct
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient as RdkafkaAdmin
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import admin as kafka_python
from kafka.admin import KafkaAdminClient
from support.brokers.admin_client import (
    ALTER_QUOTAS,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    DESCRIBE,
    DESCRIBE_SCRAM,
    INCREMENTAL,
    LIST,
    SET,
    AdminClient,
)
from support.brokers.admin_kills import COUNTER, kill_rounds
from support.clients.raw_client import RawClient
from support.clients.raw_sasl import is_served, log_in
from support.payloads.payloads import metrics_data
from support.programs.node import Node, credential_lines
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.node.listener.apis.admin import MAX_REFUSED_BYTES, MAX_REQUEST_BYTES

pytestmark = pytest.mark.integration

ALL = '[client-metrics.all]\nmetrics = "org.apache.kafka.producer."\ninterval.ms = 1000\n'
REFUSED = 31
OF_BOTH = 24
"""Connections of which each of two workers gets one, but for one time in eight million."""
STRANGE = "</script>\n\x1b[31m\x1f\u202e\0"
EVERY_KEY: list[tuple[str, int, str | None]] = [(key, DELETE, "") for key in ("interval.ms", "match", "metrics")]


def test_a_live_librdkafka_client_is_asked_for_more_after_an_alter_and_an_older_file_does_not_undo_it(
    tmp_path: Path,
) -> None:
    with Node(tmp_path, config=ALL) as node, AdminClient(node.port) as admin:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "live"})
        node.wait_for(lambda status: status["push_log"]["logged"] >= 1, what="the client's first push")
        answers = node.status()["telemetry"]["push_answers"]
        assert admin.set("more", metrics="org.apache.kafka.consumer.", match="client_id=live") == (0, None)
        changed = node.wait_for(
            lambda status: (
                status["telemetry"]["push_answers"].get("UNKNOWN_SUBSCRIPTION_ID", 0)
                > answers.get("UNKNOWN_SUBSCRIPTION_ID", 0)
            ),
            what="the client to learn of it by a push that is refused",
        )
        logged = changed["push_log"]["logged"]
        node.wait_for(lambda status: status["push_log"]["logged"] > logged, what="pushes under the new subscription")
        assert admin.set("all", metrics="org.apache.kafka.admin.") == (0, None)
        node.reread(ALL.replace("1000", "2000"))
        producer.close()
        with RawClient(node.port, client_id="live") as other:
            found = other.get()
            assert found.requested_metrics == ["org.apache.kafka.admin.", "org.apache.kafka.consumer."]
            assert found.push_interval_ms == 2000
        assert "subscription.overridden" in node.output()
        node.stop()
        node.start()
        with AdminClient(node.port) as again:
            assert again.names() == ["all", "more"]
            assert [each.value for each in again.describe((CLIENT_METRICS, "all"))[0].configs] == [
                "2000",
                "",
                "org.apache.kafka.admin.",
            ]


def test_clients_that_a_change_does_not_concern_keep_their_subscription_and_their_pushes(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL) as node, AdminClient(node.port) as admin, RawClient(node.port) as client:
        before = client.get()
        assert admin.set("others", metrics="*", match="client_id=somebody-else") == (0, None)
        assert client.push(before, metrics_data(2)).error_code == 0
        found = wait_for(
            lambda: client.get(before.client_instance_id),
            "an answer to a Get, which is refused until the interval has passed",
            until=lambda found: found.error_code == 0,
        )
        assert found.subscription_id == before.subscription_id


def test_a_change_reaches_all_workers_and_survives_the_end_of_one(tmp_path: Path) -> None:
    with Node(tmp_path, "workers=2", config=ALL) as node, ExitStack() as stack:
        admin = stack.enter_context(AdminClient(node.port))
        clients = [stack.enter_context(RawClient(node.port)) for _ in range(12)]  # some at each worker
        ids = [client.get().client_instance_id for client in clients]
        node.wait_for(lambda s: all(each["connections"] > 0 for each in s["workers"]), what="clients at each worker")
        assert admin.set("more", metrics="org.apache.kafka.consumer.") == (0, None)
        for _ in range(6):
            with AdminClient(node.port) as any_worker:  # what was acknowledged is seen at once by admin requests
                assert any_worker.names() == ["all", "more"]
        for client, instance_id in zip(clients, ids, strict=True):
            wait_for(
                partial(client.get, instance_id),
                "the new subscription at each client",
                until=lambda found: (
                    found.requested_metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
                ),
            )
        threads = [threading.Thread(target=make_some, args=(node.port, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with AdminClient(node.port) as any_worker:  # changes at the same time at several workers lose none
            made = {f"t{number}-{each}" for number in range(4) for each in range(10)}
            assert set(any_worker.names()) == {"all", "more", *made}
        node.stop()
        node.start()
        with AdminClient(node.port) as any_worker:
            assert len(any_worker.names()) == 42


def make_some(port: int, number: int) -> None:
    for each in range(10):
        with AdminClient(port) as admin:
            assert admin.set(f"t{number}-{each}", metrics="a") == (0, None)


def test_a_kill_at_any_moment_loses_no_acknowledged_change(tmp_path: Path) -> None:
    kill_rounds(tmp_path, 4)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_in_a_hundred_rounds(tmp_path: Path, workers: int) -> None:
    print(workers, "workers:", kill_rounds(tmp_path, 100, f"workers={workers}"), "changes acknowledged")


def test_requests_beyond_the_bounds_are_refused_and_the_node_serves_on(tmp_path: Path) -> None:
    with Node(tmp_path, "client.metrics.resources.max=10", config=ALL) as node:
        with AdminClient(node.port) as admin:
            many = [(CLIENT_METRICS, f"r{number}", [("metrics", SET, "a")]) for number in range(1_000)]
            errors = [code for code, _ in admin.incremental(*many)]
            assert (errors.count(0), errors.count(44)) == (9, 991)
            assert len(admin.names()) == 10
            assert admin.set("n" * 300, metrics="a")[0] == 42
            assert admin.set("all", metrics="a" * 20_000)[0] == 40
            assert admin.incremental(*[(CLIENT_METRICS, f"r{number}", EVERY_KEY) for number in range(9)])[0] == (
                0,
                None,
            )
            assert admin.set(STRANGE, metrics="a") == (0, None)
            assert admin.names() == sorted([STRANGE, "all"])
        hundred_thousand = [(CLIENT_METRICS, f"r{number}", [("metrics", SET, "a")]) for number in range(100_000)]
        with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
            admin.incremental(*hundred_thousand)
        for body in (b"", b"\xff" * 40, struct.pack(">i", 2**31 - 1) * 2, bytes(MAX_REQUEST_BYTES + 1)):
            for api_key, version in ((DESCRIBE, 1), (DESCRIBE, 4), (INCREMENTAL, 1), (LIST, 1), (ALTER_QUOTAS, 1)):
                with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
                    admin.send_body(api_key, version, body)
        with AdminClient(node.port) as admin:
            assert admin.names() == sorted([STRANGE, "all"])
            long = [("user", "u" * 2_000)]
            assert admin.alter_quotas((long, {"request_percentage": 1.0}))[0][0] == 42
            for name, salt in (("u" * 2_000, b"salt"), ("bob", b""), ("bob", bytes(2_000))):
                assert admin.alter_scram(upsert=[(name, 1, 4_096, salt, b"x")])[name][0] == 93
            assert (admin.quotas()[2], admin.scram()) == ({}, {})
        many_entities = [([("user", f"u{number}")], {"request_percentage": 1.0}) for number in range(1_001)]
        with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
            admin.alter_quotas(*many_entities)
        output = node.log.read_text()
        assert "\x1b" not in output
        assert "Traceback" not in output, output[-5000:]


def test_a_listener_that_does_not_serve_the_apis_refuses_each_of_them_at_once(tmp_path: Path) -> None:
    with Node(tmp_path, config='admin.listeners = ""\n' + ALL) as node:
        with AdminClient(node.port) as admin:
            assert admin.send(LIST, 1, resource_types=()).error_code.value == REFUSED
            (found,) = admin.describe((BROKER, "1"))
            assert (found.error_code.value, found.configs) == (REFUSED, ())
            assert "admin.listeners" in found.error_message
            assert admin.set("S", metrics="*")[0] == REFUSED
            assert admin.alter((CLIENT_METRICS, "S", {"metrics": "*"}))[0][0] == REFUSED
            code, text, found = admin.quotas()
            assert (code, "admin.listeners" in (text or ""), found) == (REFUSED, True, {})
            assert admin.alter_quotas((COUNTER, {"request_percentage": 1.0}))[0][0] == REFUSED
            assert admin.send(DESCRIBE_SCRAM, 0, users=None).error_code.value == REFUSED
            assert admin.alter_scram(upsert=[("bob", 1, 4_096, b"salt", b"x")])["bob"][0] == REFUSED
        with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
            admin.send_body(INCREMENTAL, 1, b"\x02" * (MAX_REFUSED_BYTES + 1))
        refused = "INCREMENTAL_ALTER_CONFIGS: refused"
        status = node.wait_for(lambda s: s["telemetry"]["admin_answers"][refused] >= 2, what="both to be counted")
        assert status["telemetry"]["admin_answers"][refused] == 2
        node.reread('admin.listeners = "PLAINTEXT"\n' + ALL)
        with AdminClient(node.port) as admin:
            assert admin.names() == ["all"]


def test_admin_requests_count_against_the_request_quota(tmp_path: Path) -> None:
    quotas = '[quotas."users/<default>"]\nrequest_percentage = 0.01\n'
    with Node(tmp_path, config=ALL + quotas) as node, AdminClient(node.port) as admin:
        wait_for(lambda: admin.send(LIST, 1, resource_types=()).throttle_time, "a throttled request")


def is_throttled(port: int) -> bool:
    """Whether a request quota holds for a client that any worker takes."""
    with AdminClient(port) as admin:
        return any(admin.send(LIST, 1, resource_types=()).throttle_time for _ in range(10))


def test_a_quota_of_a_tool_is_in_force_at_once_at_all_workers_and_after_a_restart_over_the_files(
    tmp_path: Path,
) -> None:
    file = ALL + '[quotas."users/<default>"]\nrequest_percentage = 100000\n'
    everyone = [("user", None)]
    with Node(tmp_path, "workers=2", config=file) as node:
        assert not is_throttled(node.port)
        with AdminClient(node.port) as admin:
            assert admin.quotas()[2] == {(("user", None),): {"request_percentage": 100_000.0}}
            assert admin.alter_quotas((everyone, {"request_percentage": 0.01}), validate=True)[0][0] == 0
            assert admin.alter_quotas((everyone, {"request_percentage": 0.01}))[0][:2] == (0, None)
            assert any(admin.send(LIST, 1, resource_types=()).throttle_time for _ in range(10))
            refused = admin.alter_quotas((everyone, {"telemetry_push_rate": 1.0}))
            assert (refused[0][0], "workers=1" in (refused[0][1] or "")) == (44, True)
        wait_for(lambda: [is_throttled(node.port) for _ in range(6)], "the quota at both workers", until=all)
        node.stop()
        node.start()
        assert is_throttled(node.port)
        assert "quotas.overridden" in node.output()
        with AdminClient(node.port) as admin:
            assert admin.alter_quotas((everyone, {"request_percentage": None}))[0][:2] == (0, None)
            assert admin.quotas()[2] == {(("user", None),): {"request_percentage": 100_000.0}}
            code, text, _ = admin.alter_quotas((everyone, {"request_percentage": None}))[0]
            assert (code, '[quotas."users/<default>"]' in (text or "")) == (44, True)


def test_a_key_without_effect_is_kept_and_said_to_be_so(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL) as node, AdminClient(node.port) as admin:
        alice = [("user", STRANGE)]
        assert admin.alter_quotas((alice, {"producer_byte_rate": 1024.0}))[0][0] == 0
        assert admin.quotas()[2] == {(("user", STRANGE),): {"producer_byte_rate": 1024.0}}
        node.reread(ALL)
        assert admin.quotas()[2] == {(("user", STRANGE),): {"producer_byte_rate": 1024.0}}
        output = node.output()
        assert "quotas.key_without_effect" in output
        changed = node.audited(event="client_quotas.changed")
        assert (changed[0]["before"], changed[0]["after"]) == ({}, {"producer_byte_rate": 1024.0})
        assert "\x1b[31m" not in output


SASL = """
listener.security.protocol.map = "ADMIN:PLAINTEXT,WORDS:SASL_PLAINTEXT"
sasl.enabled.mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
admin.listeners = "ADMIN"
"""


def logs_in(port: int, user: str, password: str) -> bool:
    with RawClient(port) as client:
        return log_in(client, user, password) == 0


def has_ended(session: RawClient) -> bool:
    try:
        return not is_served(session)
    except ConnectionError:
        return True


def test_users_of_admin_clients_log_in_at_once_and_sessions_of_removed_ones_end(tmp_path: Path) -> None:
    """With confluent-kafka's and kafka-python's admin clients, at a node of two workers."""
    config = SASL + ALL + credential_lines("file", "of the file")
    listeners = "listeners=ADMIN://127.0.0.1:0,WORDS://127.0.0.1:0"
    with Node(tmp_path, listeners, "workers=2", config=config) as node:
        port = node.port_of("WORDS")
        assert (logs_in(port, "file", "of the file"), logs_in(port, "bob", "secret words")) == (True, False)
        admin = RdkafkaAdmin({"bootstrap.servers": f"127.0.0.1:{node.port}"})
        made = UserScramCredentialUpsertion(
            "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"secret words"
        )
        assert admin.alter_user_scram_credentials([made])["bob"].result(PATIENCE_S) is None
        described = admin.describe_user_scram_credentials(["bob", "file"])
        assert isinstance(described, dict)
        assert [each.iterations for each in described["bob"].result(PATIENCE_S).scram_credential_infos] == [4096]
        assert len(described["file"].result(PATIENCE_S).scram_credential_infos) == 2
        wait_for(lambda: [logs_in(port, "bob", "secret words") for _ in range(OF_BOTH)], "bob's logins", until=all)
        node.reread(config)
        assert logs_in(port, "bob", "secret words")
        node.stop()
        node.start()
        port = node.port_of("WORDS")
        with RawClient(port) as session:
            assert log_in(session, "bob", "secret words") == 0
            assert is_served(session)
            python = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{node.port}")
            gone = kafka_python.UserScramCredentialDeletion("bob", kafka_python.ScramMechanism.SCRAM_SHA_512)
            assert python.alter_user_scram_credentials([gone]) == {"bob": None}
            declared = kafka_python.UserScramCredentialDeletion("file", kafka_python.ScramMechanism.SCRAM_SHA_512)
            refused = python.alter_user_scram_credentials([declared, gone])
            assert "[sasl.users.file]" in refused["file"]
            assert refused["bob"] == "Attempt to delete a user credential that does not exist"
            python.close()
            wait_for(lambda: has_ended(session), "the end of bob's session")
        wait_for(
            lambda: [logs_in(port, "bob", "secret words") for _ in range(OF_BOTH)],
            "both workers to refuse bob",
            until=lambda found: not any(found),
        )
        output = node.output()
        assert node.audited(event="user.changed", user="bob", change="deleted")
        assert b"secret words" not in (node.data / "audit.log").read_bytes()
        assert "wire.sessions_revoked" in output
        assert "secret words" not in output
        assert (node.data / "state.db").stat().st_mode & 0o077 == 0


def test_confluent_kafkas_admin_client_reads_and_is_refused_as_by_a_broker(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL) as node:
        admin = RdkafkaAdmin({"bootstrap.servers": f"127.0.0.1:{node.port}"})
        cluster = admin.describe_cluster().result(PATIENCE_S)
        assert [each.port for each in cluster.nodes] == [node.port]
        resource = ConfigResource(ResourceType.BROKER, "1")
        configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
        assert configs["log.dirs"].value == str(node.data)
        assert configs["log.dirs"].is_read_only
        assert configs["ssl.key.password"].value is None
        assert configs["ssl.key.password"].is_sensitive
        change = ConfigResource(
            ResourceType.BROKER,
            "1",
            incremental_configs=[ConfigEntry("log.dirs", "/x", incremental_operation=AlterConfigOpType.SET)],
        )
        with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: \[log.dirs\]"):
            admin.incremental_alter_configs([change])[change].result(PATIENCE_S)
