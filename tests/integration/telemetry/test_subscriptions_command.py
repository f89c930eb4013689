"""`fleetgauge subscriptions` with a real broker and real clients: what is applied is what they push."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from support.brokers.broker_pipeline import PACKAGE, PUSH_TOPIC, REPORTERS, create_topic, url_of
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.brokers.kafka_jars import bridge_jar, kafka_jars
from support.built import ROOT
from support.certificates import Authority
from support.http import get_url
from support.ports import free_ports
from support.programs.export import Export
from support.programs.node import run_cli
from support.waiting import PATIENCE_S, pause, wait_for

from fleetgauge.cli.cluster.resource_file import read_file
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.canary import sample
from fleetgauge.cluster.subscriptions.cluster import Cluster
from fleetgauge.cluster.subscriptions.deadlines import deadlines
from fleetgauge.cluster.subscriptions.resources import SUBSCRIPTIONS, Resource
from fleetgauge.telemetry.subscriptions.match import parse_match

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

_VERSION = "4.3.1"
_STANDING = """
[client-metrics.standing]
metrics = "org.apache.kafka.producer.node."
interval.ms = 1000
"""
_MORE = '\n[client-metrics.more]\nmetrics = "org.apache.kafka.producer.connection."\ninterval.ms = 1000\n'
_ASKED_FOR = b"org.apache.kafka.producer.connection.creation.total"
_CLIENTS = 8


@dataclass
class Pipeline:
    """A broker with the plugin, some librdkafka producers, and an export."""

    broker: KafkaBroker
    directory: Path
    authority: Authority
    sasl_port: int
    config: Path
    cluster: Cluster
    producers: dict[str, Producer] = field(default_factory=dict)
    export: Export = field(init=False)

    def run(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command, *rest = arguments
        return run_cli("subscriptions", command, "--bootstrap-server", self.broker.bootstrap, *rest, check=check)

    def planned(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """A command that looks at the live clients."""
        return self.run(*arguments, "--log-dirs", str(self.export.data), check=check)

    def end_export(self) -> None:
        self.export.__exit__()

    def file(self, text: str) -> str:
        file = self.directory / "subscriptions.toml"
        file.write_text(text)
        return str(file)

    def listed(self) -> dict[str, Resource]:
        return self.cluster.list()

    def wait_listed(self, *names: str) -> None:
        """Waits until these are listed: brokers answer a change before their own lists show it."""
        wait_for(lambda: list(self.listed()), f"the list of {names}", until=lambda found: found == [*names])

    def deadlines(self) -> list[str]:
        """Subscriptions that have one."""
        return [each.name for each in deadlines(self.cluster.list())]

    def wait_deadlines(self, *names: str) -> None:
        wait_for(self.deadlines, f"deadlines of {names}", until=lambda found: found == [*names])

    def known(self) -> list[str]:
        """Clients that the export knows."""
        listed = run_cli("clients", "--log-dirs", str(self.export.data), "--format", "json", check=False)
        return [json.loads(line)["client_id"] for line in listed.stdout.splitlines()]

    def who_pushes(self, name: bytes, wanted: Callable[[dict[str, bool]], bool]) -> dict[str, bool]:
        """By instance id: whether the latest push names the metric, once that is as wanted."""
        found: dict[str, bool] = {}
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "w", "enable.metrics.push": False, "log_level": 3}
        )
        partitions = consumer.list_topics(PUSH_TOPIC, timeout=PATIENCE_S).topics[PUSH_TOPIC].partitions
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(PUSH_TOPIC, each), timeout=PATIENCE_S)[1]
            for each in partitions
        }
        consumer.assign([TopicPartition(PUSH_TOPIC, each, end) for each, end in ends.items()])

        def latest() -> dict[str, bool]:
            for producer in self.producers.values():
                producer.poll(0)
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                key, value = message.key(), message.value()
                if key and value:
                    found[key.decode()] = name in value
            return found

        try:
            return wait_for(
                latest,
                f"pushes of {_CLIENTS} clients, with {name.decode()} where it is wanted",
                until=lambda found: len(found) == _CLIENTS and wanted(found),
            )
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    directory = tmp_path_factory.mktemp("subscriptions")
    authority = Authority(directory / "ca")
    (sasl_port,) = free_ports(1)
    broker = KafkaBroker(directory / "kafka", _VERSION, jars=[bridge_jar()], properties={}, heap="384m")
    config = directory / "kafka" / "server.properties"
    lines = dict(line.split("=", 1) for line in config.read_text().splitlines())
    lines |= {
        "metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{PACKAGE}.{REPORTERS[_VERSION]}",
        "fleetgauge.topic.partitions": "3",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin;User:scram",
        "listeners": f"{lines['listeners']},SASL_SSL://127.0.0.1:{sasl_port}",
        "advertised.listeners": f"{lines['advertised.listeners']},SASL_SSL://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker", "/CN=broker").keystore),
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required user_admin="admin-secret" user_reader="reader-secret" user_exporter="exporter-secret";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram."
        "ScramLoginModule required;",
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    with ExitStack() as stack:
        stack.enter_context(broker)
        create_topic(broker.bootstrap)
        cluster = stack.enter_context(Cluster(ClusterSettings(bootstrap_servers=broker.bootstrap)))
        export_config = _export_config(broker, directory)
        made = Pipeline(broker, directory, authority, sasl_port, export_config, cluster)
        made.run("apply", "-f", made.file(_STANDING), "--yes")
        made.producers |= {
            f"orders-{number}": Producer(
                {"bootstrap.servers": broker.bootstrap, "client.id": f"orders-{number}", "log_level": 3}
            )
            for number in range(_CLIENTS)
        }
        made.export = Export(directory, made.config)
        stack.callback(made.end_export)
        made.who_pushes(_ASKED_FOR, lambda found: not any(found.values()))
        wait_for(made.known, "every client at the export", until=lambda known: len(known) == _CLIENTS)
        yield made
        made.producers.clear()


def _export_config(broker: KafkaBroker, directory: Path) -> Path:
    config = directory / "export.toml"
    config.write_text(
        f'push.log.type = "kafka"\npush.log.kafka.bootstrap.servers = "{broker.bootstrap}"\n'
        'http.listeners = "http://127.0.0.1:0"\n'
        f'[exporters.landing]\ntype = "landing"\npath = "{directory / "landing"}"\nlinger.ms = 500\n'
    )
    return config


@pytest.fixture(autouse=True)
def _only_standing(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "pipeline" not in request.fixturenames:
        return
    pipeline: Pipeline = request.getfixturevalue("pipeline")
    wanted = read_file(Path(pipeline.file(_STANDING)), SUBSCRIPTIONS)
    SUBSCRIPTIONS.apply(pipeline.cluster, SUBSCRIPTIONS.plan(pipeline.cluster.list(), wanted, prune=True))
    pipeline.wait_listed("standing")


def test_a_plan_changes_nothing_and_apply_makes_the_named_clients_push_it(pipeline: Pipeline) -> None:
    file = pipeline.file(_STANDING + _MORE + 'match = "client_id=orders-[0-3]"\n')
    planned = pipeline.planned("plan", "-f", file, "--format", "json", "--show", check=False)
    assert planned.returncode == 4, planned.stderr
    (change,) = [each for each in json.loads(planned.stdout)["changes"] if each["action"] != "keep"]
    assert (change["name"], change["action"], change["clients"]) == ("more", "add", 4)
    chosen = {each["client_instance_id"] for each in change["matching"]}
    assert {each["client_id"] for each in change["matching"]} == {f"orders-{number}" for number in range(4)}
    assert list(pipeline.listed()) == ["standing"]
    applied = pipeline.planned("apply", "-f", file, "--yes")
    assert "matches 4 of 8 live clients" in applied.stdout
    assert applied.stdout.endswith("Applied.\n")
    pipeline.wait_listed("more", "standing")
    found = pipeline.who_pushes(_ASKED_FOR, lambda found: {each for each, has in found.items() if has} == chosen)
    assert len(found) == _CLIENTS
    again = pipeline.run("plan", "-f", file, check=False)
    assert (again.returncode, "No change." in again.stdout) == (0, True)


def test_apply_leaves_alone_what_it_does_not_own_and_asks_first(pipeline: Pipeline) -> None:
    # It matches everybody, since clients that nothing asks for metrics come back after five minutes.
    file = pipeline.file(_STANDING.replace("standing", "own"))
    refused = pipeline.run("apply", "-f", file, check=False)  # standard input ends, which is no yes
    assert refused.returncode == 1
    assert list(pipeline.listed()) == ["standing"]
    pipeline.run("apply", "-f", file, "--yes")
    pipeline.wait_listed("own", "standing")
    pipeline.run("apply", "-f", file, "--yes", "--prune")
    pipeline.wait_listed("own")


@pytest.mark.soak
def test_a_canary_is_pushed_by_its_sample_alone_until_it_is_promoted(pipeline: Pipeline) -> None:
    file = pipeline.file(_MORE)
    compared = pipeline.planned("canary", "50%", "more", "-f", file, "--yes", "--intervals", "2")
    assert "50.000% of all" in compared.stdout
    assert "gone since (all)" in compared.stdout
    (selector,) = parse_match(pipeline.listed()["more.canary"].match)

    def is_sampled(instance_id: str) -> bool:
        return selector.pattern.fullmatch(instance_id) is not None

    pipeline.who_pushes(_ASKED_FOR, lambda found: all(has == is_sampled(each) for each, has in found.items()))
    pipeline.planned("canary", "more", "--promote", "--yes")
    listed = pipeline.listed()
    assert (list(listed), listed["more"].match) == (["more", "standing"], "")
    pipeline.who_pushes(_ASKED_FOR, lambda found: all(found.values()))
    assert "has no canary" in pipeline.run("canary", "more", "--abort", check=False).stderr


def test_an_aborted_canary_leaves_nothing(pipeline: Pipeline) -> None:
    pipeline.run("canary", "5%", "more", "-f", pipeline.file(_MORE), "--yes", "--intervals", "0")
    pipeline.wait_listed("more.canary", "standing")
    pipeline.run("canary", "more", "--abort", "--yes")
    pipeline.wait_listed("standing")


@pytest.mark.parametrize("share", [0.01, 0.05, 0.37])
def test_a_sample_has_its_share_of_100_000_of_kafkas_ids_and_re2_agrees_with_java(share: float) -> None:
    chosen = sample(share, "orders")
    program = str(ROOT / "tests/kafka/SampledIds.java")
    command = ["java", "-cp", f"{kafka_jars(_VERSION)}/*", program, chosen.pattern, "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    (selector,) = parse_match(f"client_instance_id={chosen.pattern}")
    assert all((selector.pattern.fullmatch(each) is not None) == (mark == "1") for mark, each in lines)
    matched = sum(mark == "1" for mark, _ in lines)
    deviation = (len(lines) * chosen.share * (1 - chosen.share)) ** 0.5
    assert len(lines) == 100_000
    assert abs(matched - len(lines) * chosen.share) <= 5 * deviation


@pytest.mark.soak
def test_a_deadline_outlives_the_export_and_is_kept_by_the_next_one(pipeline: Pipeline) -> None:
    pipeline.export.kill()
    pipeline.run("expire", "1s", "more", "-f", pipeline.file(_MORE), "--yes")
    pipeline.wait_deadlines("more")
    pause(1, "the deadline passes while no export runs")
    assert pipeline.deadlines() == ["more"]
    pipeline.export = Export(pipeline.directory, pipeline.config)
    pipeline.wait_listed("standing")
    pipeline.who_pushes(_ASKED_FOR, lambda found: not any(found.values()))
    pipeline.run("expire", "1s", "more", "-f", pipeline.file(_MORE), "--yes")  # while it runs
    pipeline.wait_listed("standing")

    status = wait_for(
        lambda: pipeline.export.status()["exporter_process"]["subscription_deadlines"],
        "the count of what was taken back",
        until=lambda status: status["taken_back"] == 2,
    )
    assert status["problem"] is None
    assert "taken back" in run_cli("status", "--log-dirs", str(pipeline.export.data)).stdout


def test_the_export_of_a_topic_takes_back_the_subscriptions_of_its_brokers_by_default(pipeline: Pipeline) -> None:
    pipeline.run("expire", "1s", "more", "-f", pipeline.file(_MORE), "--yes")
    pipeline.wait_listed("standing")
    (row,) = json.loads(get_url(url_of(pipeline.export), "/api/subscriptions").body)["subscriptions"]
    assert (row["name"], row["until"]) == ("standing", None)


def test_a_deadline_is_set_after_a_yes_alone(pipeline: Pipeline) -> None:
    refused = pipeline.run("expire", "1h", "more", "-f", pipeline.file(_MORE), check=False)
    assert (refused.returncode, "Apply?" in refused.stderr) == (1, True)
    assert list(pipeline.listed()) == ["standing"]


def test_a_deadline_is_kept_by_a_scheduler_or_cancelled(pipeline: Pipeline) -> None:
    pipeline.run("expire", "1h", "more", "-f", pipeline.file(_MORE), "--yes")
    pipeline.wait_deadlines("more")
    assert pipeline.run("expire", "--due").stdout == ""
    (row,) = [each for each in json.loads(pipeline.run("list", "--format", "json").stdout) if each["name"] == "more"]
    assert row["until"] is not None
    assert row["overdue"] is False
    pipeline.run("expire", "--cancel", "more")
    pipeline.wait_deadlines()
    assert list(pipeline.listed()) == ["more", "standing"]
    assert "has no deadline" in pipeline.run("expire", "--cancel", "more", check=False).stderr


def secured(pipeline: Pipeline, **keys: str) -> list[str]:
    """Options for the SASL_SSL listener, with a file in the form of Kafka's tools."""
    file = pipeline.directory / "admin.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pipeline.authority.certificate),
        "sasl.mechanism": "PLAIN",
        **{key.replace("_", "."): value for key, value in keys.items()},
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return [
        "--bootstrap-server",
        f"127.0.0.1:{pipeline.sasl_port}",
        "--command-config",
        str(file),
        "--timeout",
        "20000",
    ]


def jaas(user: str, password: str, module: str = "plain.Plain") -> str:
    return f'org.apache.kafka.common.security.{module}LoginModule required username="{user}" password="{password}";'


def wait_until_listed(options: list[str]) -> None:
    """Waits until a user with these options may list: brokers answer a change before it is in force."""
    wait_for(
        lambda: run_cli("subscriptions", "list", *options, check=False),
        "the list for this user",
        until=lambda done: done.returncode == 0,
    )


def test_tls_with_plain_and_scram_is_as_kafkas_tools_are_told(pipeline: Pipeline) -> None:
    listed = run_cli("subscriptions", "list", *secured(pipeline, sasl_jaas_config=jaas("admin", "admin-secret")))
    assert "standing" in listed.stdout
    admin = AdminClient({"bootstrap.servers": pipeline.broker.bootstrap, "enable.metrics.push": False})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("scram", scram, b"scram-secret", b"salt")]
    ).values():
        future.result(PATIENCE_S)
    options = secured(
        pipeline, sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas("scram", "scram-secret", "scram.Scram")
    )
    wait_until_listed(options)


def test_what_the_principal_may_not_do_names_the_acl(pipeline: Pipeline) -> None:
    options = secured(pipeline, sasl_jaas_config=jaas("reader", "reader-secret"))
    file = pipeline.file(_STANDING + _MORE)
    refused = run_cli("subscriptions", "plan", "-f", file, *options, check=False)
    assert refused.returncode == 1
    assert "needs DESCRIBE_CONFIGS on the cluster" in refused.stderr
    admin = AdminClient({"bootstrap.servers": pipeline.broker.bootstrap, "enable.metrics.push": False})
    cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
    allowed = AclBinding(*cluster, "User:reader", "*", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW)
    for future in admin.create_acls([allowed]).values():
        future.result(PATIENCE_S)
    wait_until_listed(options)
    refused = run_cli("subscriptions", "apply", "-f", file, "--yes", *options, check=False)
    assert refused.returncode == 1
    assert "needs ALTER_CONFIGS on the cluster" in refused.stderr
    assert list(pipeline.listed()) == ["standing"]


def findings(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code and findings of `fleetgauge doctor`, by the name of the check."""
    done = run_cli("doctor", "--format", "json", *options, check=False)
    assert not done.stderr
    return done.returncode, {each["check"]: each for each in map(json.loads, done.stdout.splitlines())}


def test_doctor_finds_no_error_beside_a_running_export(pipeline: Pipeline) -> None:
    code, found = findings("--config", str(pipeline.config))
    assert code == 0, found
    broker = found[f"broker 1 at {pipeline.broker.bootstrap}"]
    assert broker["level"] == "ok"
    assert "4.3" in broker["detail"]
    assert "receives telemetry" in broker["detail"]
    assert found[f"topic {PUSH_TOPIC}"]["detail"] == "3 partitions; READ, DESCRIBE allowed"
    assert found[f"pushes on {PUSH_TOPIC}"]["level"] == "ok"
    assert found["subscriptions"]["detail"] == "standing"


def test_doctor_names_what_a_principal_may_not_do_on_topic_and_groups(pipeline: Pipeline, tmp_path: Path) -> None:
    options = secured(pipeline, sasl_jaas_config=jaas("exporter", "exporter-secret"))[:-2]
    code, found = findings(*options)
    assert code == 1
    refused = found[f"topic {PUSH_TOPIC}"]
    assert refused["level"] == "error"
    assert f"kafka-acls.sh --add --topic {PUSH_TOPIC} --operation Read --operation Describe" in refused["remedy"]
    admin = AdminClient({"bootstrap.servers": pipeline.broker.bootstrap, "enable.metrics.push": False})
    topic = (ResourceType.TOPIC, PUSH_TOPIC, ResourcePatternType.LITERAL)
    for future in admin.create_acls(
        [AclBinding(*topic, "User:exporter", "*", AclOperation.READ, AclPermissionType.ALLOW)]
    ).values():
        future.result(PATIENCE_S)
    config = tmp_path / "export.toml"
    config.write_text(
        f'log.dirs = "{tmp_path}"\nhttp.listeners = ""\npush.log.type = "kafka"\n'
        f'push.log.kafka.bootstrap.servers = "127.0.0.1:{pipeline.sasl_port}"\n[push.log.kafka.client]\n'
        f'"security.protocol" = "SASL_SSL"\n"ssl.ca.location" = "{pipeline.authority.certificate}"\n"linger.ms" = 5\n'
        '"sasl.mechanism" = "PLAIN"\n"sasl.username" = "exporter"\n"sasl.password" = "exporter-secret"\n'
        f'[exporters.landing]\ntype = "landing"\npath = "{tmp_path / "landing"}"\n'
    )
    code, found = wait_for(
        lambda: findings("--config", str(config)),
        "the topic to be readable",
        until=lambda seen: seen[1][f"topic {PUSH_TOPIC}"]["level"] == "ok",
    )
    assert code == 1
    assert "--group fleetgauge-landing --operation Read" in found["group fleetgauge-landing"]["remedy"]
    assert "exporter-secret" not in json.dumps(found)


def test_doctor_says_that_no_broker_answers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    code, found = findings("--override", f"log.dirs={tmp_path}", "--bootstrap-server", f"127.0.0.1:{port}")
    assert code == 1
    assert "no broker" in found[f"brokers 127.0.0.1:{port}"]["detail"]


def test_what_is_wrong_with_the_connection_is_one_sentence_without_secrets(pipeline: Pipeline) -> None:
    def refused(options: list[str]) -> str:
        done = run_cli("subscriptions", "list", *options, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "secret" not in done.stderr
        return done.stderr

    other = Authority(pipeline.directory / "other")
    assert "credentials" in refused(secured(pipeline, sasl_jaas_config=jaas("admin", "wrong-secret")))
    password = jaas("admin", "admin-secret")
    assert "certificate verify failed" in refused(
        secured(pipeline, sasl_jaas_config=password, ssl_truststore_location=str(other.certificate))
    )
