"""Who may do what at a node with an authorizer: principals that log in, over real connections."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.brokers.admin_client import CLIENT_METRICS, LIST, SET, AdminClient
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import pause, ticking

from fleetgauge.wire.sasl.credentials import ScramCredential, ScramMechanism

pytestmark = pytest.mark.integration

PASSWORD = "open sesame 42"
NODE_CONFIG = """
advertised.listeners = ""
listener.security.protocol.map = "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT"
sasl.enabled.mechanisms = "PLAIN"
authorizer.class.name = "standard"
super.users = "User:root"
telemetry.acl.required = true

[client-metrics.all]
metrics = "*"
interval.ms = 1000

[acls.reader]
principals = "User:reader"
operations = ["Describe", "DescribeConfigs"]

[acls.operator]
principals = "User:operator"
operations = "AlterConfigs"

[acls.clients]
principals = "User:ANONYMOUS"
operations = "Describe"

[client.id.patterns]
"User:ANONYMOUS" = "orders-.*"
"""
"""The table of docs/operate/authorization.md."""
DENIED = {
    "describe": {"nobody"},
    "list": {"nobody"},
    "alter": {"nobody", "reader"},
    "describe quotas": {"nobody"},
    "alter quotas": {"nobody", "reader"},
    "describe users": {"nobody", "operator"},
    "alter users": {"nobody", "reader", "operator"},
    "describe acls": {"nobody", "operator"},
    "create acls": {"nobody", "reader", "operator"},
    "delete acls": {"nobody", "reader", "operator"},
}
OPERATIONS = {
    "root": (5, 7, 8, 9, 10, 11, 12),  # CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, ...
    "reader": (8, 10),
    "operator": (10, 11),
    "nobody": (),
}
REFUSED, THROTTLED, NO_SUCH_USER = 31, 89, 91
ACL = {"resource_type": 4, "resource_name": "kafka-cluster", "principal": "User:x", "host": "*", "operation": 8}
FILTER = {"resource_type_filter": 4, "resource_name_filter": None, "pattern_type_filter": 1, "operation": 1}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    credential = ScramCredential.make(ScramMechanism.SCRAM_SHA_256, PASSWORD)
    users = "".join(f'[sasl.users.{name}]\nscram-sha-256 = "{credential}"\n' for name in OPERATIONS)
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0"
    with Node(tmp_path_factory.mktemp("node"), listeners, config=NODE_CONFIG + users) as started:
        yield started


class User(AdminClient):
    """A connection that has logged in."""

    def __init__(self, node: Node, name: str, password: str = PASSWORD) -> None:
        super().__init__(node.port_of("LOGIN"))
        assert self.send(17, 1, mechanism="PLAIN").error_code.value == 0
        self.logged_in = self.send(36, 2, auth_bytes=f"\0{name}\0{password}".encode()).error_code.value

    def errors(self) -> dict[str, set[int]]:
        """The error codes of each request of the table."""
        entry = {"principal_filter": "User:x", "host_filter": None, "permission_type": 1}
        deleted = self.part(31, "DeleteAclsFilter", **FILTER, **entry)
        created = self.part(30, "AclCreation", **ACL, resource_pattern_type=3, permission_type=3)
        return {
            "describe": {each.error_code.value for each in self.describe((CLIENT_METRICS, "all"))},
            "list": {self.send(LIST, 1, resource_types=(CLIENT_METRICS,)).error_code.value},
            "alter": {self.incremental((CLIENT_METRICS, "other", [("interval.ms", SET, "5000")]))[0][0]},
            "describe quotas": {self.quotas()[0]},
            "alter quotas": {self.alter_quotas(([("user", "x")], {"request_percentage": 50.0}))[0][0]},
            "describe users": {self.send(50, 0, users=None).error_code.value},
            "alter users": {self.alter_scram(delete=[("nosuch", 1)])["nosuch"][0]},
            "describe acls": {self.send(29, 3, **FILTER, **entry).error_code.value},
            "create acls": {each.error_code.value for each in self.send(30, 3, creations=(created,)).results},
            "delete acls": {each.error_code.value for each in self.send(31, 3, filters=(deleted,)).filter_results},
        }


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_principal_may_do_what_its_acls_allow_and_no_more(node: Node, name: str) -> None:
    with User(node, name) as user:
        assert user.errors() == {
            what: {REFUSED if name in denied else NO_SUCH_USER if what == "alter users" else 0}
            for what, denied in DENIED.items()
        }
        described = user.send(60, 1, include_cluster_authorized_operations=True, endpoint_type=1)
        assert described.cluster_authorized_operations == sum(1 << each for each in OPERATIONS[name])
        unasked = user.send(60, 1, include_cluster_authorized_operations=False, endpoint_type=1)
        assert unasked.cluster_authorized_operations == -(2**31)
    assert node.audited(event="login.succeeded", principal=f"User:{name}", mechanism="PLAIN", listener="LOGIN")


def test_denials_and_changes_and_wrong_passwords_are_audited_and_counted(node: Node) -> None:
    with User(node, "nobody") as user:
        user.errors()
    with User(node, "root") as root:
        root.errors()
    with User(node, "reader", "wrong password 7") as wrong:
        assert wrong.logged_in == 58
    with User(node, "no such user", PASSWORD) as wrong:
        assert wrong.logged_in == 58
    denied = node.audited(event="authorization.denied", principal="User:nobody", api="CREATE_ACLS")
    assert (denied[0]["reason"], denied[0]["address"]) == ("ALTER", "127.0.0.1")
    changed = node.audited(event="client_metrics.changed", name="other")
    assert changed[0]["principal"] in {"User:root", "User:operator"}, "whoever came first: of the test before, perhaps"
    assert changed[0]["after"] == {"interval.ms": "5000"}
    acl = "ALLOW DESCRIBE on CLUSTER:kafka-cluster (LITERAL) to User:x from *"
    assert node.audited(event="acls.changed", principal="User:root", created=[acl])
    assert node.audited(event="acls.changed", principal="User:root", deleted=[acl])
    assert node.audited(event="login.failed", principal="User:reader", reason="sasl_authentication_failed")
    assert node.audited(event="login.failed", principal="unknown", reason="sasl_authentication_failed")
    assert b"wrong password" not in (node.data / "audit.log").read_bytes()
    status = node.status()
    assert status["authorization"]["denials"]["CREATE_ACLS: ALTER"] >= 1
    assert status["audit_log"]["recorded"] >= 8
    assert status["audit_log"]["failed"] == 0


def test_a_client_without_the_permission_is_asked_for_nothing_and_not_switched_off(node: Node) -> None:
    with RawClient(node.port, client_id="orders-1") as client:
        assert client.get().requested_metrics
    with RawClient(node.port, client_id="billing") as client:
        instance_id = uuid.uuid4()
        got = client.get(instance_id)
        assert (got.error_code, got.requested_metrics, got.push_interval_ms) == (0, [], 300_000)
        assert got.client_instance_id == instance_id
        assert got.accepted_compression_types
        assert client.get(None).client_instance_id.int > 0
        assert client.push(got, metrics_data(1)).error_code == THROTTLED
        assert client.push(got, metrics_data(1), terminating=True).error_code == THROTTLED
    assert node.audited(event="client_id.denied", client_id="billing", api="PUSH_TELEMETRY")
    assert node.status()["telemetry"]["refusals"]["THROTTLING_QUOTA_EXCEEDED"]["not_authorized"] >= 2


@contextmanager
def denied(root: User) -> Iterator[None]:
    """Within, an ACL denies telemetry to clients that do not log in."""
    deny: dict[str, Any] = {"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3}
    deny |= {"host": "127.0.0.1", "principal": "User:ANONYMOUS", "operation": 8, "permission_type": 2}
    (created,) = root.send(30, 2, creations=(root.part(30, "AclCreation", 2, **deny),)).results
    assert created.error_code.value == 0
    try:
        yield
    finally:
        wanted: dict[str, Any] = {"resource_type_filter": 4, "resource_name_filter": None, "pattern_type_filter": 3}
        wanted |= {"principal_filter": None, "host_filter": None, "operation": 8, "permission_type": 2}
        (deleted,) = root.send(31, 1, filters=(root.part(31, "DeleteAclsFilter", 1, **wanted),)).filter_results
        assert [each.host for each in deleted.matching_acls] == ["127.0.0.1"]


def test_a_permission_that_is_taken_away_holds_for_the_next_push_and_one_that_is_given_back_too(node: Node) -> None:
    with RawClient(node.port, client_id="orders-2") as client, User(node, "root") as root:
        got = client.get(uuid.uuid4())

        def next_push() -> int:
            pause(1.1, "the push interval: a push before its end is refused with the same code as a denied one")
            return client.push(got, metrics_data(1)).error_code

        assert [next_push(), next_push()] == [0, 0]
        with denied(root):
            assert [next_push(), next_push()] == [THROTTLED, THROTTLED]
        assert next_push() == 0


def test_what_the_file_declares_no_tool_deletes(node: Node) -> None:
    wanted: dict[str, Any] = {"resource_type_filter": 4, "resource_name_filter": None, "pattern_type_filter": 1}
    wanted |= {"principal_filter": "User:reader", "host_filter": None, "operation": 8, "permission_type": 1}
    with User(node, "root") as root:
        (result,) = root.send(31, 3, filters=(root.part(31, "DeleteAclsFilter", **wanted),)).filter_results
        (kept,) = result.matching_acls
        assert kept.error_code.value == 44
        assert "is declared in the configuration file" in kept.error_message
        created = root.part(
            30, "AclCreation", **{**ACL, "principal": "User:reader"}, resource_pattern_type=3, permission_type=3
        )
        assert root.send(30, 3, creations=(created,)).results[0].error_code.value == 0
    with User(node, "reader") as reader:
        assert reader.errors()["describe acls"] == {0}


def test_acls_of_tools_outlast_a_restart_and_reach_all_workers(tmp_path: Path) -> None:
    config = 'authorizer.class.name = "standard"\nsuper.users = "User:ANONYMOUS"\n'
    created = {**ACL, "resource_pattern_type": 3, "permission_type": 3}
    with Node(tmp_path, "workers=2", config=config) as node:
        with AdminClient(node.port) as admin:
            parts = tuple(
                admin.part(30, "AclCreation", **{**created, "principal": f"User:{number}"}) for number in range(50)
            )
            assert {each.error_code.value for each in admin.send(30, 3, creations=parts).results} == {0}
        for _ in range(6):
            with AdminClient(node.port) as any_worker:
                assert count(any_worker) == 50
        node.kill()
        node.start()
        with AdminClient(node.port) as admin:
            assert count(admin) == 50


def count(admin: AdminClient) -> int:
    found = admin.send(29, 3, **FILTER, principal_filter=None, host_filter=None, permission_type=1)
    return sum(len(each.acls) for each in found.resources)


def test_without_an_authorizer_acls_are_refused_as_by_kafka(tmp_path: Path) -> None:
    with Node(tmp_path) as node, AdminClient(node.port) as admin:
        for version in (1, 2, 3):
            wanted = {**FILTER, "principal_filter": None, "host_filter": None, "permission_type": 1}
            described = admin.send(29, version, **wanted)
            creations = (admin.part(30, "AclCreation", version, **ACL, resource_pattern_type=3, permission_type=3),)
            filters = (admin.part(31, "DeleteAclsFilter", version, **wanted),)
            (created,) = admin.send(30, version, creations=creations).results
            (deleted,) = admin.send(31, version, filters=filters).filter_results
            for each in (described, created, deleted):
                assert (each.error_code.value, each.error_message) == (54, "No Authorizer is configured.")


CLIENTS = """
authorizer.class.name = "standard"
super.users = "User:ANONYMOUS"
[client-metrics.all]
metrics = "org.apache.kafka.producer."
interval.ms = 500
"""


def deny_a_live_client(node: Node) -> Producer:
    """A librdkafka client whose pushes were accepted, then denied, and which has asked again."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "orders"})
    node.wait_for(lambda status: status["push_log"]["logged"] >= 2, what="the client's pushes")
    node.reread(CLIENTS + '[client.id.patterns]\n"User:*" = "billing"\n')
    apis = {"PUSH_TELEMETRY: client_id", "GET_TELEMETRY_SUBSCRIPTIONS: client_id"}
    node.wait_for(lambda status: apis <= status["authorization"]["denials"].keys(), what="a denied push and Get")
    return producer


def test_a_live_librdkafka_client_asks_again_after_a_denial(tmp_path: Path) -> None:
    with Node(tmp_path, config=CLIENTS) as node:
        deny_a_live_client(node)
        answers = node.status()["telemetry"]
        assert answers["refusals"]["THROTTLING_QUOTA_EXCEEDED"]["not_authorized"] >= 1
        assert answers["get_answers"].keys() == {"NONE"}


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_pushes_again_once_it_may(tmp_path: Path) -> None:
    with Node(tmp_path, config=CLIENTS) as node:
        producer = deny_a_live_client(node)
        logged = node.status()["push_log"]["logged"]
        node.reread(CLIENTS)
        for _ in ticking(480, every_s=1.0):  # a client that was asked for nothing asks again after 4 to 6 minutes
            if node.status()["push_log"]["logged"] > logged:
                break
        node.wait_for(lambda status: status["push_log"]["logged"] >= logged + 2, what="pushes after its next Get")
        del producer
