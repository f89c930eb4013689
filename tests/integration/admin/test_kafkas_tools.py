"""kafka-client-metrics.sh and kafka-configs.sh: one session of commands, at a real broker and at a node."""

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.brokers.admin_client import CLIENT_METRICS, DELETE, AdminClient, Entity
from support.brokers.admin_tools import AdminTools, Printed, agreed
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.programs.node import Node
from support.waiting import wait_for
from typer.testing import CliRunner

from fleetgauge.cli.cluster.quotas import app as quotas
from fleetgauge.telemetry import parse_instance_id

pytestmark = pytest.mark.integration

PRODUCER = "org.apache.kafka.producer."
PYTHON_1_2 = r"client_software_name=kafka_python,client_software_version=1\.2\..*"
KIP_EXAMPLES: Sequence[str] = (
    "cm --describe",
    "cc --describe --entity-type client-metrics",
    f"cm --alter --name MYMETRICS --metrics org.apache.kafka.consumer. --interval 60000 --match {PYTHON_1_2}",
    "cm --describe --name MYMETRICS",
    "cm --delete --name MYMETRICS",
    "cm --list",
    (
        "cc --alter --entity-type client-metrics --entity-name MYMETRICS --add-config "
        f"metrics=org.apache.kafka.consumer.,interval.ms=60000,match=[{PYTHON_1_2}]"
    ),
    "cc --describe --entity-type client-metrics --entity-name MYMETRICS",
    "cc --alter --entity-type client-metrics --entity-name MYMETRICS --delete-config metrics,interval.ms,match",
    "cm --list",
)
"""KIP-714's own, in its order but for the one that generates a name."""
SESSION: Sequence[str] = (
    "cm --list",
    "cm --describe",
    (
        f"cm --alter --name S1 --metrics {PRODUCER},org.apache.kafka.consumer.coordinator.rebalance.latency.max "
        "--interval 30000 --match client_software_name=apache-kafka-java,client_id=orders.*"
    ),
    "cm --alter --name S2 --metrics *",
    "cm --list",
    "cm --describe",
    "cm --describe --name S1",
    "cm --describe --name nosuch",
    "cm --alter --name S1 --interval 45000",
    "cm --describe --name S1",
    "cm --alter --name S1 --interval '' --match ''",
    "cm --describe --name S1",
    "cm --alter --name S1 --interval 50",
    "cm --alter --name S1 --interval 3600001",
    "cm --alter --name S1 --interval soon",
    "cm --alter --name S1 --match nosuch=x",
    "cm --alter --name S1 --match client_id=*",
    "cm --alter --name S1 --match client_id",
    "cm --alter --name S1",
    "cm --describe --name S1",
    "cm --delete --name S2",
    "cm --delete --name nosuch",
    "cc --describe --entity-type client-metrics",
    "cc --describe --entity-type client-metrics --entity-name S1",
    "cc --describe --entity-type client-metrics --entity-name S1 --all",
    "cc --describe --entity-type client-metrics --entity-name nosuch",
    (
        "cc --alter --entity-type client-metrics --entity-name S3 --add-config "
        f"interval.ms=10000,metrics=[{PRODUCER},org.apache.kafka.admin.],match=[client_id=a,client_software_name=b]"
    ),
    "cc --describe --client-metrics S3",
    "cc --alter --client-metrics S3 --add-config interval.ms=7",
    "cc --alter --client-metrics S3 --add-config bogus=7",
    "cc --alter --entity-type client-metrics --entity-name S3 --delete-config interval.ms",
    "cc --describe --entity-type client-metrics --entity-name S3",
    "cc --alter --client-metrics S3 --add-config metrics=",
    "cc --describe --client-metrics S3",
    "cc --alter --client-metrics S3 --delete-config metrics,match",
    "cc --describe --entity-type client-metrics",
    "cc --alter --entity-type brokers --entity-name 1 --add-config log.dirs=/elsewhere",
    "cc --alter --entity-type brokers --entity-name 7 --add-config log.dirs=/elsewhere",
    "cc --describe --entity-type brokers --entity-name 1",
    "cm --delete --name S1",
    "cm --list",
)
"""Every command of shared transcripts for client metrics, and more bad input."""


QUOTAS: Sequence[str] = (
    "cc --describe --entity-type users",
    (
        "cc --alter --entity-type users --entity-name alice --add-config "
        "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=50,controller_mutation_rate=5.5"
    ),
    "cc --alter --entity-type users --entity-default --add-config producer_byte_rate=4096",
    (
        "cc --alter --entity-type users --entity-name alice --entity-type clients --entity-name app1 --add-config "
        "producer_byte_rate=512"
    ),
    "cc --alter --client app2 --add-config consumer_byte_rate=100",
    "cc --alter --ip-defaults --add-config connection_creation_rate=200",
    "cc --describe --entity-type users",
    "cc --describe --entity-type users --entity-type clients",
    "cc --describe --client app2",
    "cc --describe --ip-defaults",
    "cc --alter --user alice --add-config producer_byte_rate=-1",
    "cc --alter --user alice --add-config producer_byte_rate=1.5",
    "cc --alter --user alice --delete-config producer_byte_rate,consumer_byte_rate",
    "cc --alter --user alice --delete-config request_percentage,controller_mutation_rate",
    "cc --alter --user-defaults --delete-config producer_byte_rate",
    "cc --alter --user alice --client app1 --delete-config producer_byte_rate",
    "cc --alter --client app2 --delete-config consumer_byte_rate",
    "cc --alter --ip-defaults --delete-config connection_creation_rate",
    "cc --describe --entity-type users --entity-type clients",
)
"""The same for quotas; what is set is deleted again."""

MORE_QUOTAS: Sequence[str] = (
    "cc --alter --user alice --client-defaults --add-config request_percentage=25",
    "cc --alter --user-defaults --client app3 --add-config request_percentage=12.5",
    "cc --alter --client-defaults --add-config consumer_byte_rate=200",
    "cc --alter --client a/b%2Fc=<default> --add-config consumer_byte_rate=300",
    "cc --alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=100",
    "cc --describe --entity-type users --entity-name alice",
    "cc --describe --entity-type users --entity-default",
    "cc --describe --entity-type users --entity-name alice --entity-type clients",
    "cc --describe --user alice --client app1",
    "cc --describe --user alice --client-defaults",
    "cc --describe --user-defaults --client app3",
    "cc --describe --entity-type clients",
    "cc --describe --client a/b%2Fc=<default>",
    "cc --describe --client-defaults",
    "cc --describe --entity-type ips",
    "cc --describe --ip 127.0.0.1",
    "cc --describe --entity-type users --entity-name nosuch",
    "cc --alter --user alice --add-config bogus_rate=1",
    "cc --alter --user alice --add-config producer_byte_rate=0",
    "cc --alter --user alice --add-config producer_byte_rate=1e30",
    "cc --alter --user alice --add-config producer_byte_rate=much",
    "cc --alter --user alice --add-config connection_creation_rate=1",
    "cc --alter --ip 127.0.0.1 --add-config connection_creation_rate=3e9",
    "cc --alter --ip 127.0.0.1 --add-config producer_byte_rate=1",
    "cc --alter --ip not-an-ip --add-config connection_creation_rate=1",
    "cc --alter --user alice --delete-config consumer_byte_rate",
    "cc --describe --user alice",
    "cc --alter --user alice --client-defaults --delete-config request_percentage",
    "cc --alter --user-defaults --client app3 --delete-config request_percentage",
    "cc --alter --client a/b%2Fc=<default> --delete-config consumer_byte_rate",
    "cc --alter --client-defaults --delete-config consumer_byte_rate",
    "cc --alter --ip 127.0.0.1 --delete-config connection_creation_rate",
)
"""More of each kind."""

USERS: Sequence[str] = (
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=4095,password=secret]",
    "cc --describe --entity-type users",
    "cc --alter --user bob --delete-config SCRAM-SHA-256",
    "cc --alter --user bob --delete-config SCRAM-SHA-256",
)
"""The same for the users of SASL/SCRAM."""

MORE_USERS: Sequence[str] = (
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    "cc --alter --user bob --add-config SCRAM-SHA-512=[password=secret2]",
    "cc --alter --user carol --add-config SCRAM-SHA-256=[iterations=8192,password=b],SCRAM-SHA-512=[password=c]",
    "cc --alter --user bob --add-config producer_byte_rate=1024",
    "cc --describe --user bob",
    "cc --describe --user carol",
    "cc --describe --user nosuch",
    "cc --describe --entity-type users",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=4095,password=secret]",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=16385,password=secret]",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=many,password=secret]",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[iterations=4096]",
    "cc --alter --user bob --add-config SCRAM-SHA-256=[password=]",
    "cc --alter --user bob --add-config SCRAM-SHA-1=[password=secret]",
    "cc --alter --user-defaults --add-config SCRAM-SHA-256=[password=secret]",
    "cc --alter --user nosuch --delete-config SCRAM-SHA-256",
    "cc --alter --user bob --delete-config SCRAM-SHA-256",
    "cc --alter --user bob --delete-config SCRAM-SHA-256",
    "cc --describe --user bob",
    "cc --alter --user bob --delete-config SCRAM-SHA-512,producer_byte_rate",
    "cc --alter --user bob --delete-config SCRAM-SHA-512",
    "cc --alter --user bob --delete-config producer_byte_rate",
    "cc --alter --user carol --delete-config SCRAM-SHA-256,SCRAM-SHA-512",
    "cc --alter --user carol --delete-config SCRAM-SHA-256",
    "cc --alter --user carol --delete-config SCRAM-SHA-512",
    "cc --describe --entity-type users",
)
"""More of each kind."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node without subscriptions, as a new broker is."""
    if MISSING:
        pytest.skip(MISSING)
    with Node(tmp_path_factory.mktemp("node")) as started:
        yield started


@pytest.fixture
def _undone(broker: KafkaBroker, node: Node) -> Iterator[None]:
    """A test that fails leaves no quotas and no users for the next, at the broker that others use as well."""
    yield
    for port in (broker.port, node.port):
        with AdminClient(port) as admin:
            admin.alter_quotas(*((entity, dict.fromkeys(values)) for entity, values in quotas_of(admin).items()))
            admin.alter_scram(
                delete=[(user, each) for user, (_, _, found) in admin.scram().items() for each in found],
            )
            wait_for(partial(quotas_and_users_of, admin), "both to be removed", until=lambda found: found == ({}, {}))


def quotas_of(admin: AdminClient) -> Mapping[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return admin.quotas()[2]


def quotas_and_users_of(admin: AdminClient) -> tuple[object, object]:
    return quotas_of(admin), admin.scram()


_MECHANISMS = re.compile(r"(SCRAM-SHA-512=iterations=\d+), (SCRAM-SHA-256=iterations=\d+)")


def words(command: str) -> list[str]:
    return ["" if word == "''" else word for word in command.split()]


def outcome(tools: AdminTools, port: int, command: str) -> Printed:
    """What a command prints; resources and mechanisms, whose order Kafka leaves to a hash, in alphabetical order."""
    printed = tools.run(port, *words(command))
    if command == "cm --list":
        return Printed(printed.exit_code, tuple(sorted(printed.lines)))
    blocks: list[list[str]] = []
    for line in printed.lines:
        line = _MECHANISMS.sub(r"\2, \1", line)
        if line.startswith("  ") and blocks:
            blocks[-1].append(line)
        else:
            blocks.append([line])
    is_describe = "--describe" in command
    return Printed(
        printed.exit_code, tuple(line for block in (sorted(blocks) if is_describe else blocks) for line in block)
    )


ALL = (*KIP_EXAMPLES, *SESSION, *QUOTAS, *MORE_QUOTAS, *USERS, *MORE_USERS)


def may_be_late(command: str, there: Printed) -> bool:
    """Whether a broker may answer otherwise later. A tool looks at what there is before it changes that, and refuses by
    itself what does not fit."""
    return "--alter" not in command or there.exit_code != 0


@pytest.mark.usefixtures("_undone")
@pytest.mark.parametrize(
    ("version", "commands"),
    [
        pytest.param("4.3.1", (*KIP_EXAMPLES, *SESSION, *QUOTAS, *USERS), id="4.3.1"),
        pytest.param("4.3.1", ALL, id="4.3.1-all", marks=pytest.mark.soak),
        pytest.param("3.9.2", ALL, id="3.9.2-all", marks=pytest.mark.soak),
    ],
)
def test_the_tools_print_the_same_at_a_node_as_at_a_broker(
    broker: KafkaBroker, node: Node, version: str, commands: Sequence[str]
) -> None:
    clear(broker.port)
    clear(node.port)  # its built-in subscription, too, which a broker does not have
    with AdminTools(version) as tools:
        differing = []
        for command in commands:
            here = outcome(tools, node.port, command)
            there = agreed(
                partial(outcome, tools, broker.port, command),
                here,
                may_ask_again=partial(may_be_late, command),
            )
            if here != there:
                differing.append(f"{command}\n  broker {there}\n  node   {here}")
        assert not differing, "\n".join(differing)
    assert clear(node.port) == clear(broker.port)


def test_a_name_that_the_tool_generates_is_a_uuid_of_type_4(node: Node) -> None:
    """KIP-714's example, as it stands there."""
    clear(node.port)
    with AdminTools("4.3.1") as tools:
        metrics = f"{PRODUCER}node.request.latency.,org.apache.kafka.consumer.node.request.latency."
        printed = tools.run(node.port, "cm", "--alter", "--generate-name", "--metrics", metrics, "--interval", "60000")
        assert printed.exit_code == 0, printed
        (name,) = tools.run(node.port, "cm", "--list").lines
        described = tools.run(node.port, "cm", "--describe", "--name", name).lines
    clear(node.port)
    assert uuid_of(name).version == 4
    assert [line.split()[0] for line in described if line.startswith("  ")] == [
        "interval.ms=60000",
        "match=",
        f"metrics={metrics}",
    ]


def uuid_of(name: str) -> uuid.UUID:
    """A UUID in Kafka's own form of text, or the usual one."""
    return parse_instance_id(name) if len(name) == 22 else uuid.UUID(name)


ALICE: Entity = [("user", "alice")]
REFUSED_QUOTAS: Sequence[tuple[Entity, Mapping[str, float | None]]] = (
    ([], {"request_percentage": 1.0}),
    ([("topic", "t")], {"request_percentage": 1.0}),
    ([("user", "")], {"request_percentage": 1.0}),
    ([("client-id", "")], {"request_percentage": 1.0}),
    ([("user", "a"), ("ip", "127.0.0.1")], {"request_percentage": 1.0}),
    ([("ip", "127.0.0.1"), ("client-id", "c"), ("user", "a")], {"request_percentage": 1.0}),
    (ALICE, {"bogus": 1.0}),
    (ALICE, {"": 1.0}),
    (ALICE, {"connection_creation_rate": 1.0}),
    ([("ip", "127.0.0.1")], {"request_percentage": 1.0}),
    ([("ip", "999.1.1.1")], {"connection_creation_rate": 1.0}),
    ([("ip", "127.0.0.1")], {"connection_creation_rate": 1.5}),
    ([("ip", "127.0.0.1")], {"connection_creation_rate": 3e9}),
    (ALICE, {"request_percentage": 0.0}),
    (ALICE, {"request_percentage": -1.0}),
    (ALICE, {"producer_byte_rate": 1.5}),
    (ALICE, {"producer_byte_rate": 1e30}),
    (ALICE, {"request_percentage": 5.0, "bogus": 1.0}),
    (ALICE, {"request_percentage": 5.0, "request_percentage ": 6.0}),
    (ALICE, {"bogus": None}),
    (ALICE, {"producer_byte_rate": None}),
    (ALICE, {}),
)
"""Alterations that no tool would send, and their values; a space behind a key makes it another one of a dict."""

KEPT: Sequence[tuple[Entity, Mapping[str, float | None]]] = (
    (ALICE, {"request_percentage": 5.5}),
    ([("user", None)], {"producer_byte_rate": 10.0}),
    ([("client-id", "app"), ("user", "alice")], {"consumer_byte_rate": 11.0}),
    ([("client-id", None), ("user", "alice")], {"consumer_byte_rate": 12.0}),
    ([("client-id", "app")], {"consumer_byte_rate": 13.0}),
    ([("ip", None)], {"connection_creation_rate": 14.0}),
    ([("ip", "127.0.0.1")], {"connection_creation_rate": 15.0}),
)
"""What filters are asked about."""

FILTERS: Sequence[tuple[list[tuple[str, int, str | None]], bool]] = (
    ([], False),
    ([], True),
    ([("user", 0, "alice")], False),
    ([("user", 0, "alice")], True),
    ([("user", 1, None)], True),
    ([("user", 2, None)], False),
    ([("user", 2, None)], True),
    ([("client-id", 2, None)], False),
    ([("user", 2, None), ("client-id", 0, "app")], True),
    ([("user", 2, None), ("client-id", 1, None)], False),
    ([("ip", 2, None)], True),
    ([("ip", 0, "127.0.0.1")], True),
    ([("ip", 0, "not-an-ip")], True),
    ([("", 0, "x")], True),
    ([("topic", 0, "x")], True),
    ([("user", 0, None)], True),
    ([("user", 1, "x")], True),
    ([("user", 2, "x")], True),
    ([("user", 3, "x")], True),
    ([("user", 0, "x"), ("user", 0, "y")], True),
    ([("user", 2, None), ("ip", 2, None)], False),
)
"""Filters of DescribeClientQuotas, with `strict`."""


@pytest.mark.usefixtures("_undone")
def test_requests_that_no_tool_sends_are_answered_as_by_a_broker(broker: KafkaBroker, node: Node) -> None:
    differing: list[object] = []

    def compare(what: object, here: object, there: object) -> None:
        if here != there:
            differing.append((what, here, there))

    with AdminClient(broker.port) as there, AdminClient(node.port) as here:
        for version in (0, 1):
            for entity, values in REFUSED_QUOTAS:
                for validate in (False, True):
                    answers = [
                        each.alter_quotas((entity, values), validate=validate, version=version)
                        for each in (here, there)
                    ]
                    compare((entity, values, validate, version), *answers)
            for each in (here, there):
                assert {code for code, _, _ in each.alter_quotas(*KEPT, validate=True)} == {0}
                wait_for(partial(quotas_of, each), "no quota", until=lambda found: not found)
                assert {code for code, _, _ in each.alter_quotas(*KEPT)} == {0}
                wait_for(partial(quotas_of, each), "all quotas", until=lambda found: len(found) == len(KEPT))
            for components, strict in FILTERS:
                found = [each.quotas(*components, strict=strict, version=version) for each in (here, there)]
                compare((components, strict, version), *found)
            gone = [(entity, dict.fromkeys(values)) for entity, values in KEPT]
            for each in (here, there):
                assert {code for code, _, _ in each.alter_quotas(*gone)} == {0}
                wait_for(partial(quotas_of, each), "no quota", until=lambda found: not found)
        twice = [(ALICE, {"request_percentage": 5.5}), (ALICE, {"request_percentage": 6.5})]
        compare(twice, here.alter_quotas(*twice), there.alter_quotas(*twice))
    assert not differing, "\n".join(map(str, differing))


SCRAMS: Sequence[dict[str, Any]] = (
    {"upsert": [("", 1, 4096, b"salt", b"salted")]},
    {"upsert": [("bob", 0, 4096, b"salt", b"salted")]},
    {"upsert": [("bob", 3, 4096, b"salt", b"salted")]},
    {"upsert": [("bob", 1, 4095, b"salt", b"salted")]},
    {"upsert": [("bob", 1, 16385, b"salt", b"salted")]},
    {"delete": [("", 1), ("bob", 0), ("carol", 1)]},
    {"upsert": [("bob", 1, 4096, b"salt", b"salted"), ("bob", 2, 4096, b"salt", b"salted")]},
    {"upsert": [("bob", 1, 4096, b"salt", b"salted"), ("carol", 2, 1, b"salt", b"salted")]},
    {"delete": [("bob", 1)], "upsert": [("bob", 1, 4096, b"salt", b"salted")]},
    {"delete": [("bob", 2), ("bob", 1)]},
    {"delete": [("bob", 1), ("bob", 1)]},
    {"delete": [("bob", 1)]},
    {},
)
"""Alterations of credentials; what is made is deleted again."""


@pytest.mark.usefixtures("_undone")
def test_credentials_that_no_tool_sends_are_answered_as_by_a_broker(broker: KafkaBroker, node: Node) -> None:
    with AdminClient(broker.port) as there, AdminClient(node.port) as here:
        for asked in SCRAMS:
            assert here.alter_scram(**asked) == there.alter_scram(**asked), asked
            names = ("bob", "nosuch", "bob", "carol")
            expected = here.scram(), here.scram(*names)
            agreed_on = agreed(
                lambda: (there.scram(), there.scram(*names)),  # noqa: B023  called within this round
                expected,
                may_ask_again=lambda _: True,
            )
            assert agreed_on == expected, asked
        assert here.scram() == {}


@pytest.mark.usefixtures("_undone")
def test_fleetgauge_quotas_plans_and_applies_the_same_at_a_broker_and_at_a_node(
    broker: KafkaBroker, node: Node, tmp_path: Path
) -> None:
    file = tmp_path / "quotas.toml"
    ports = (broker.port, node.port)

    def run(command: str, *words: str, text: str = "") -> list[tuple[int, str]]:
        file.write_text(text)
        given = [] if command == "list" else ["-f", str(file)]
        outcomes = []
        for port in ports:
            ran = CliRunner().invoke(quotas, [command, *given, "--bootstrap-server", f"127.0.0.1:{port}", *words])
            outcomes.append((ran.exit_code, ran.stdout + str(ran.exception or "")))
        return outcomes

    def same(command: str, *words: str, text: str = "") -> tuple[int, str]:
        there, here = run(command, *words, text=text)
        assert here == there
        return here

    both = '[quotas."users/alice"]\nproducer_byte_rate = 1048576\nrequest_percentage = 12.5\n'
    more = both + '[quotas."users/<default>/clients/a%2Fb.c"]\nconsumer_byte_rate = 5\n'
    with AdminClient(broker.port) as there:
        wait_for(partial(quotas_of, there), "what a test before has removed", until=lambda found: not found)
    assert same("plan", text=more) == (
        4,
        (
            "+ users/<default>/clients/a%2Fb.c  consumer_byte_rate  5  (add)\n"
            "+ users/alice  producer_byte_rate  1048576  (add)\n"
            "+ users/alice  request_percentage  12.5  (add)\n4"
        ),
    )
    assert same("apply", "--yes", text=more)[1].endswith("Applied.\n")
    with AdminClient(broker.port) as there:
        wait_for(partial(quotas_of, there), "the applied quotas", until=lambda found: len(found) == 2)
    assert same("plan", text=more) == (0, same("plan", text=more)[1])
    assert len(json.loads(same("list", "--format", "json")[1])) == 3
    code, shown = same("plan", "--prune", "--format", "json", text=both.replace("12.5", "13"))
    found = [(each["entity"], each["action"], each["after"]) for each in json.loads(shown.removesuffix("4"))["changes"]]
    assert code == 4
    assert found == [
        ("users/<default>/clients/a%2Fb.c", "delete", None),
        ("users/alice", "keep", 1048576.0),
        ("users/alice", "change", 13.0),
    ]
    assert same("apply", "--prune", "--yes", text='[quotas."ips/<default>"]\nconnection_creation_rate = 50\n')[0] == 0
    with AdminClient(broker.port) as there:
        wait_for(partial(quotas_of, there), "one quota", until=lambda found: list(found) == [(("ip", None),)])
    assert "--prune would delete all" in same("plan", "--prune", text="")[1]
    assert "must be greater than 0" in same("plan", text='[quotas."users/a"]\nproducer_byte_rate = 0\n')[1]


def clear(port: int) -> list[str]:
    """Deletes all subscriptions; returns their names."""
    with AdminClient(port) as admin:
        names = sorted(admin.names())
        keys: list[tuple[str, int, str | None]] = [(key, DELETE, "") for key in ("interval.ms", "match", "metrics")]
        for name in names:
            assert admin.incremental((CLIENT_METRICS, name, keys)) == [(0, None)]
    return names


def test_the_tools_show_the_files_subscriptions_and_are_refused_where_they_cannot_change_them(tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(MISSING)
    config = '[client-metrics.S1]\nmetrics = "org.apache.kafka.consumer."\n'
    with Node(tmp_path, config=config) as node, AdminTools("4.3.1") as tools:
        assert tools.run(node.port, "cm", "--list").lines == ("S1",)
        refused = tools.run(node.port, "cm", "--delete", "--name", "S1")
        assert refused.exit_code == 1
        assert "S1 is declared in the configuration file of this node" in refused.lines[0]
        assert tools.run(node.port, "cm", "--alter", "--name", "S1", "--interval", "5000").exit_code == 0
        shown = tools.run(node.port, "cc", "--describe", "--client-metrics", "S1", "--all").lines
        assert shown[1:] == (
            "  interval.ms=5000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=5000}",
            "  match= sensitive=false synonyms={}",
            (
                "  metrics=org.apache.kafka.consumer. sensitive=false "
                "synonyms={STATIC_BROKER_CONFIG:metrics=org.apache.kafka.consumer.}"
            ),
        )
        everything = tools.run(node.port, "cc", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
        assert any(
            line.startswith("  log.dirs=") and "STATIC_BROKER_CONFIG:log.dirs=" in line for line in everything.lines
        )


def test_the_tools_are_refused_on_a_listener_that_does_not_serve_them(tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(MISSING)
    with Node(tmp_path, "admin.listeners=") as node, AdminTools("4.3.1") as tools:
        listed = tools.run(node.port, "cm", "--list")
        assert (listed.exit_code, listed.lines[0].endswith("Cluster authorization failed.")) == (1, True), listed
        altered = tools.run(node.port, "cm", "--alter", "--name", "S1", "--metrics", "*")
        assert altered.exit_code == 1
        assert "this listener does not serve Kafka's admin APIs" in altered.lines[0]
        assert "admin.request_refused" in node.output()
        assert node.status()["telemetry"]["subscriptions"] == ["default"]
