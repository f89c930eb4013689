"""ACL requests of kafka-acls.sh, of Python's admin clients and random ones: a node answers as a broker does."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent_admin
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from support.brokers.admin_client import AdminClient
from support.brokers.admin_tools import AdminTools, Printed, agreed
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.programs.node import Node
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

RDKAFKA: Any = confluent_admin  # its types leave None out, which matches any name, principal and host
SESSION: Sequence[str] = (
    "acl --list",
    "acl --add --allow-principal User:ops --operation AlterConfigs --operation DescribeConfigs --cluster",
    "acl --add --allow-principal User:ops --operation AlterConfigs --cluster",
    "acl --list",
    "acl --add --deny-principal User:bad --deny-host 10.0.0.9 --allow-principal User:* --operation Describe --cluster",
    "acl --add --allow-principal User:CN=orders,OU=x --operation All --topic orders --group g",
    "acl --add --allow-principal User:a --operation Read --topic ord --resource-pattern-type prefixed",
    "acl --add --allow-principal User:a --producer --topic * --idempotent",
    "acl --add --allow-principal User:a --operation CreateTokens --user-principal User:b",
    "acl --list",
    "acl --list --topic orders",
    "acl --list --topic orders --resource-pattern-type match",
    "acl --list --topic orders --resource-pattern-type any",
    "acl --list --topic ord --resource-pattern-type prefixed",
    "acl --list --cluster",
    "acl --list --cluster --principal User:ops",
    "acl --list --group nosuch",
    "acl --add --allow-principal ops --operation Alter --cluster",
    "acl --add --allow-principal User:ops --operation Read --cluster",
    "acl --add --allow-principal User:ops --operation Bogus --cluster",
    "acl --add --allow-principal User:ops --operation Alter --cluster other",
    "acl --add --operation Alter --cluster",
    "acl --remove --allow-principal User:ops --operation AlterConfigs --cluster --force",
    "acl --remove --allow-principal User:nosuch --operation AlterConfigs --cluster --force",
    "acl --list --cluster",
    "acl --remove --topic orders --resource-pattern-type match --force",
    "acl --list",
    "acl --remove --topic * --force",
    "acl --remove --topic * --resource-pattern-type any --force",
    "acl --remove --group g --force",
    "acl --remove --cluster --force",
    "acl --remove --user-principal User:b --force",
    "acl --remove --topic ord --resource-pattern-type prefixed --force",
    "acl --list",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node where clients that do not log in may do everything, as at the broker."""
    if MISSING:
        pytest.skip(MISSING)
    overrides = ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",)
    with Node(tmp_path_factory.mktemp("node"), *overrides, "super.users=User:ANONYMOUS") as started:
        yield started


@pytest.fixture(autouse=True)
def _no_acls(broker: KafkaBroker, node: Node) -> Iterator[None]:
    """Each test begins and ends without ACLs, at the broker that others use as well."""
    ports = (broker.port, node.port)
    for port in ports:
        delete_all(port)
    yield
    for port in ports:
        delete_all(port)


def delete_all(port: int) -> None:
    with AdminClient(port) as admin:
        admin.send(31, 3, filters=(AdminClient.part(31, "DeleteAclsFilter", **EVERYTHING),))
        wait_for(
            lambda: admin.send(29, 3, **EVERYTHING).resources,
            "ACLs to be deleted",
            until=lambda resources: not resources,
        )


def outcome(tools: AdminTools, port: int, command: str) -> Printed:
    """What a command prints; ACLs come in the order of a hash, which is made alphabetical."""
    printed = tools.run(port, *command.split())
    blocks: list[list[str]] = []
    for line in printed.lines:  # 3.9 ends them with spaces, and all but the first begin with one
        if line[:1].isspace() and blocks:
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    ordered = sorted([block[0], *sorted(block[1:])] for block in blocks)
    return Printed(printed.exit_code, tuple(line for block in ordered for line in block))


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.2", marks=pytest.mark.soak)])
def test_kafka_acls_prints_the_same_at_a_node_as_at_a_broker(broker: KafkaBroker, node: Node, version: str) -> None:
    with AdminTools(version) as tools:
        for command in SESSION:
            here = outcome(tools, node.port, command)
            there = agreed(
                partial(outcome, tools, broker.port, command),
                here,
                may_ask_again=lambda _: True,  # what is added or removed once more is the same, and so is what is shown
            )
            print("$", command, there.exit_code, *there.lines, sep="\n   ")
            assert here == there, command
        assert outcome(tools, node.port, "acl --list") == Printed(0, ())


def code(rng: random.Random, known: Sequence[int]) -> int:
    """Sometimes one that is none: UNKNOWN itself, or of a later release."""
    return rng.choice((0, 99)) if rng.random() < 0.05 else rng.choice(known)


def creation(rng: random.Random, version: int) -> Any:
    return AdminClient.part(
        30,
        "AclCreation",
        version,
        resource_type=code(rng, (2, 3, 4)),
        resource_name=rng.choice(("a", "ab", "kafka-cluster", "", "*")),
        resource_pattern_type=code(rng, (3, 4)),
        principal=rng.choice(("User:a", "User:*", "a", "")),
        host=rng.choice(("*", "10.0.0.1", "", "nonsense")),
        operation=code(rng, (2, 3, 8, 11, 15)),
        permission_type=code(rng, (2, 3)),
    )


def wanted(rng: random.Random) -> dict[str, Any]:
    return {
        "resource_type_filter": code(rng, (1, 2, 3, 4)),
        "resource_name_filter": rng.choice((None, "a", "ab", "kafka-cluster", "", "*")),
        "pattern_type_filter": code(rng, (1, 2, 3, 4)),
        "principal_filter": rng.choice((None, "User:a", "a", "")),
        "host_filter": rng.choice((None, "*", "10.0.0.1", "")),
        "operation": code(rng, (1, 2, 3, 8, 11)),
        "permission_type": code(rng, (1, 2, 3)),
    }


EVERYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def answered(port: int, api_key: int, version: int, **fields: Any) -> Any:
    """The answer with ACLs in alphabetical order; None if the connection is closed."""
    try:
        with AdminClient(port) as admin:
            answer = admin.send(api_key, version, **fields)
    except ConnectionError:
        return None
    if api_key == 29:
        return (
            answer.error_code,
            answer.error_message,
            sorted((repr(each), len(each.acls)) for each in sorted_acls(answer)),
        )
    if api_key == 30:
        return [(each.error_code, each.error_message) for each in answer.results]
    return [
        (each.error_code, each.error_message, sorted(map(repr, each.matching_acls))) for each in answer.filter_results
    ]


def sorted_acls(answer: Any) -> list[Any]:
    return [replace(each, acls=tuple(sorted(each.acls, key=repr))) for each in answer.resources]


def test_random_requests_get_the_answers_of_a_broker(broker: KafkaBroker, node: Node) -> None:
    rng = random.Random(29)
    outcomes = []
    for _ in range(200):
        api_key, version = rng.choice((29, 30, 30, 31)), rng.choice((1, 2, 3))
        fields: dict[str, Any] = wanted(rng)
        if api_key == 30:
            fields = {"creations": tuple(creation(rng, version) for _ in range(rng.randrange(4)))}
        if api_key == 31:
            filters = [wanted(rng) for _ in range(rng.randrange(1, 3))]
            fields = {"filters": tuple(AdminClient.part(31, "DeleteAclsFilter", version, **each) for each in filters)}
        here = answered(node.port, api_key, version, **fields)
        there = agreed(
            partial(answered, broker.port, api_key, version, **fields),
            here,
            may_ask_again=lambda _: api_key == 29,  # noqa: B023  called within this round
        )
        assert here == there, (api_key, version, fields)
        outcomes.append(there)
    here = answered(node.port, 29, 3, **EVERYTHING)
    assert agreed(partial(answered, broker.port, 29, 3, **EVERYTHING), here, may_ask_again=lambda _: True) == here
    assert 5 < outcomes.count(None) < 80


def librdkafka_session(port: int) -> list[str]:
    """What confluent-kafka's admin client says of creating, describing and deleting ACLs."""
    client = RDKAFKA.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    literal, any_type = RDKAFKA.ResourcePatternType.LITERAL, RDKAFKA.ResourcePatternType.ANY
    allow, describe = RDKAFKA.AclPermissionType.ALLOW, RDKAFKA.AclOperation.DESCRIBE

    def acl(kind: Any, name: str, principal: str) -> Any:
        return RDKAFKA.AclBinding(kind, name, literal, principal, "*", describe, allow)

    def every(name: str | None) -> Any:
        operation, permission = RDKAFKA.AclOperation.ANY, RDKAFKA.AclPermissionType.ANY
        return RDKAFKA.AclBindingFilter(RDKAFKA.ResourceType.ANY, name, any_type, None, None, operation, permission)

    cluster, topic = RDKAFKA.ResourceType.BROKER, RDKAFKA.ResourceType.TOPIC  # librdkafka's name of the cluster
    calls: list[Callable[[], Any]] = [
        lambda: client.create_acls([acl(cluster, "kafka-cluster", "User:c"), acl(topic, "t", "User:c")]),
        lambda: client.create_acls([acl(cluster, "other", "User:c")]),
        lambda: client.create_acls([acl(topic, "t", "nobody")]),
        lambda: client.describe_acls(every(None)),
        lambda: client.delete_acls([every("t"), every("nosuch")]),
        lambda: client.delete_acls([every(None)]),
        lambda: client.describe_acls(every(None)),
    ]
    said = []
    for call in calls:  # one after the other: they may go to several connections
        asked = call()
        for answer in asked.values() if isinstance(asked, dict) else [asked]:
            try:
                found = answer.result(PATIENCE_S)
            except KafkaException as error:
                said.append(f"{error.args[0].code()} {error.args[0].str()}")
            else:
                said.append(str(sorted(map(str, found)) if found is not None else found))
    client_operations = (
        client.describe_cluster(include_authorized_operations=True).result(PATIENCE_S).authorized_operations
    )
    return [*said, str(sorted(each.name for each in client_operations))]


def test_librdkafkas_admin_client_gets_the_same_answers(broker: KafkaBroker, node: Node) -> None:
    here = librdkafka_session(node.port)
    there = agreed(lambda: librdkafka_session(broker.port), here, may_ask_again=lambda _: True)
    assert here == there
    assert "The only valid name for the CLUSTER resource is kafka-cluster" in there[2]


def kafka_python_session(port: int) -> list[str]:
    """The same of kafka-python."""
    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    acl = ACL("User:p", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, cluster)
    wrong = ACL(
        "User:p", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.CLUSTER, "x")
    )
    of_principal = ACLFilter(
        "User:p",
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    try:
        return [
            str(client.create_acls([acl, wrong])),
            str(client.describe_acls(of_principal)),
            str(client.delete_acls([of_principal])),
            str(client.describe_acls(of_principal)),
        ]
    finally:
        client.close()


def test_kafka_pythons_admin_client_gets_the_same_answers(broker: KafkaBroker, node: Node) -> None:
    here = kafka_python_session(node.port)
    there = agreed(lambda: kafka_python_session(broker.port), here, may_ask_again=lambda _: True)
    assert here == there
    assert "User:p" in there[1]
