"""SASL that ends at the gateway: its users' clients, and its own user at a real broker."""

import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.consumer import KafkaConsumer
from kafka.producer import KafkaProducer
from support.brokers.kafka_broker import KafkaBroker
from support.certificates import Authority
from support.gateway.gateway import GatewayBefore, consumed, round_trip
from support.ports import free_ports
from support.programs.node import credential_lines
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.cli.node.doctor.finding import Finding
from fleetgauge.cli.node.doctor.gateway import check_gateway
from fleetgauge.node.config.load import load_config

pytestmark = pytest.mark.integration
PASSWORD = "alice-secret"
OWN_USER = (
    "gateway.security.protocol=SASL_PLAINTEXT",
    "gateway.sasl.mechanism=PLAIN",
    "gateway.sasl.username=gateway",
    "gateway.sasl.password=gateway-secret",
)


@pytest.fixture(scope="module")
def gateway(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayBefore]:
    """Its clients, and itself at the broker, have to log in again every few seconds."""
    (port,) = free_ports(1)
    keys = (
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "connections.max.reauth.ms=3000",
        *OWN_USER,
    )
    directory, users = tmp_path_factory.mktemp("own-user"), credential_lines("alice", PASSWORD)
    with GatewayBefore(directory, broker.ports["LOGIN"], *keys, port=port, config=users) as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"own-user-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    return name


def alice(gateway: GatewayBefore, mechanism: str = "SCRAM-SHA-256", /, **settings: Any) -> dict[str, Any]:
    """Settings of a librdkafka client."""
    return {
        "bootstrap.servers": gateway.bootstrap,
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        **settings,
    }


def round_trip_of(topic: str, settings: dict[str, Any]) -> Producer:
    """Writes records and reads them back; the producer, which pushes its metrics as long as it is kept."""
    producer = Producer({**settings, "enable.idempotence": True})
    expected = [str(number).encode() for number in range(500)]
    for value in expected:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    assert consumed(topic, 500, **settings) == expected
    return producer


def clients_seen(gateway: GatewayBefore) -> set[str]:
    """The users whose requests passed."""
    return {each["principal"] for each in gateway.status()["gateway"]["traffic"]["by_client"].values()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_of_the_gateway_works_at_a_broker_that_knows_the_gateway_alone(
    gateway: GatewayBefore, topic: str, mechanism: str
) -> None:
    before = gateway.status()["telemetry"]["push_answers"].get("NONE", 0)
    producer = round_trip_of(topic, alice(gateway, mechanism))
    gateway.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > before, what="a push")
    producer.close()
    assert gateway.principals() == {"User:alice"}
    assert "alice" in clients_seen(gateway)


def test_java_clients_log_in_at_the_gateway(gateway: GatewayBefore, topic: str) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = [
        "-Dclient.security.protocol=SASL_PLAINTEXT",
        "-Dclient.sasl.mechanism=SCRAM-SHA-512",
        f"-Dclient.sasl.jaas.config={module} required username=alice password={PASSWORD};",
    ]
    printed = round_trip("4.4.0", gateway.bootstrap, topic, 1_000, "classic", "consumer", options=options)
    assert printed == ["classic all 1500", "consumer all 1500"]


def test_kafka_python_logs_in_at_the_gateway(gateway: GatewayBefore, topic: str) -> None:
    settings = {
        "bootstrap_servers": gateway.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**settings, acks="all")
    for number in range(100):
        producer.send(topic, str(number).encode())
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=int(PATIENCE_S * 1_000)
    )
    got = [next(consumer).value for _ in range(100)]
    consumer.close()
    assert got == [str(number).encode() for number in range(100)]


def test_sessions_of_clients_and_of_the_gateway_are_renewed_while_records_flow(
    gateway: GatewayBefore, topic: str
) -> None:
    producer = Producer(alice(gateway, **{"enable.idempotence": True, "linger.ms": 0}))
    expected: list[bytes] = []

    def renewals(status: dict[str, Any]) -> tuple[int, int]:
        connections = status["connections"][0]
        broker_logins = status["gateway"]["broker_logins"] - connections["accepted"]
        return broker_logins, connections["successful_reauthentications"]

    before = renewals(gateway.status())

    def is_renewed_thrice(status: dict[str, Any]) -> bool:
        for _ in range(20):
            expected.append(str(len(expected)).encode())
            producer.produce(topic, expected[-1])
        producer.poll(0)
        return all(now >= then + 3 for now, then in zip(renewals(status), before, strict=True))

    gateway.wait_for(is_renewed_thrice, what="renewals")
    assert producer.flush(PATIENCE_S) == 0
    assert consumed(topic, len(expected), **alice(gateway)) == expected


def test_a_wrong_password_is_refused_by_the_gateway_and_does_not_reach_the_broker(gateway: GatewayBefore) -> None:
    said: list[int] = []
    wrong = alice(gateway, **{"sasl.password": "wrong", "error_cb": lambda error: said.append(error.code())})
    before = gateway.status()["connections"][0]["failed_authentications"]
    producer = Producer(wrong)
    wait_for(
        lambda: producer.poll(0.1) >= 0 and said,
        "the refusal",
        until=lambda codes: codes and KafkaError._AUTHENTICATION in codes,
    )
    gateway.wait_for(lambda status: status["connections"][0]["failed_authentications"] > before, what="a failure")


def findings(broker: KafkaBroker, *keys: str) -> dict[str, Finding]:
    own = ("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=OAUTHBEARER", *OWN_USER)
    jwks = "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere"
    overrides = [f"gateway.broker=127.0.0.1:{broker.ports['LOGIN']}", *own, jwks, "node.id=1", *keys]
    return {each.check.split(" ")[0]: each for each in check_gateway(load_config(overrides=overrides))}


def test_the_doctor_logs_in_as_the_gateway_and_then_sees_the_cluster(broker: KafkaBroker) -> None:
    found = findings(broker)
    assert found["gateway.sasl.username"].detail == "the broker accepts it"
    assert found["address"].level == "warning", "the broker's address is not the gateway's"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("gateway.sasl.password=wrong", "refuses the user gateway of gateway.sasl.username: Authentication failed"),
        ("gateway.sasl.mechanism=SCRAM-SHA-256", "its listener has PLAIN, SCRAM-SHA-512, and gateway.sasl.mechanism"),
    ],
)
def test_the_doctor_tells_why_the_broker_does_not_take_the_gateway(broker: KafkaBroker, key: str, problem: str) -> None:
    found = findings(broker, key)["gateway.broker"]
    assert found.level == "error"
    assert problem in found.detail


@pytest.fixture
def scram_at_the_broker(broker: KafkaBroker) -> Iterator[None]:
    """The gateway's user by SCRAM; removed after the test, since others compare all users of the shared broker."""
    set_scram_password(broker, "scram-secret")
    yield
    change_scram(broker, UserScramCredentialDeletion("gateway", ScramMechanism.SCRAM_SHA_512), [])


def set_scram_password(broker: KafkaBroker, password: str) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    change_scram(broker, UserScramCredentialUpsertion("gateway", credential, password.encode()), ["gateway"])


def change_scram(
    broker: KafkaBroker, to: UserScramCredentialUpsertion | UserScramCredentialDeletion, shown: list[str]
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.alter_user_scram_credentials([to])["gateway"].result(PATIENCE_S)

    def users() -> list[str]:
        described = admin.describe_user_scram_credentials()
        assert isinstance(described, Future)
        return list(described.result(PATIENCE_S))

    wait_for(users, "the change of the broker's users", until=lambda found: found == shown)


@pytest.mark.usefixtures("scram_at_the_broker")
@pytest.mark.parametrize(("protocol", "principal"), [("SSL", "CN=orders"), ("SASL_SSL", "alice")])
def test_tls_at_the_gateway_and_scram_at_the_broker(
    broker: KafkaBroker, topic: str, tmp_path: Path, protocol: str, principal: str
) -> None:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("server", "/CN=localhost")
    orders = authority.issue("orders", "/CN=orders")
    (port,) = free_ports(1)
    keys = (
        f"listeners={protocol}://127.0.0.1:{port}",
        f"ssl.keystore.location={server.keystore}",
        f"ssl.truststore.location={authority.certificate}",
        "ssl.client.auth=required",
        *OWN_USER,
        "gateway.sasl.mechanism=SCRAM-SHA-512",
        "gateway.sasl.password=scram-secret",
    )
    users = credential_lines("alice", PASSWORD)
    with GatewayBefore(tmp_path / "gateway", broker.ports["LOGIN"], *keys, port=port, config=users) as gateway:
        own = {"ssl.certificate.location": str(orders.certificate), "ssl.key.location": str(orders.key)}
        settings = alice(gateway) if protocol == "SASL_SSL" else {"bootstrap.servers": gateway.bootstrap, **own}
        settings |= {"security.protocol": protocol, "ssl.ca.location": str(authority.certificate), "log_level": 0}
        round_trip_of(topic, settings)
        assert clients_seen(gateway) - {"ANONYMOUS"} == {principal}


@pytest.mark.usefixtures("scram_at_the_broker")
def test_a_new_password_of_the_gateway_is_taken_over_while_clients_stay_connected(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    password = tmp_path / "password"
    password.write_text("scram-secret")
    keys = (
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "gateway.security.protocol=SASL_PLAINTEXT",
        "gateway.sasl.username=gateway",
        f"gateway.sasl.password=${{file:{password}}}",
    )
    users = credential_lines("alice", PASSWORD)
    with GatewayBefore(tmp_path / "gateway", broker.ports["LOGIN"], *keys, port=port, config=users) as gateway:
        assert gateway.process is not None
        connected = Producer(alice(gateway))
        connected.list_topics(topic, PATIENCE_S)
        set_scram_password(broker, "another-secret")

        def is_refused(status: dict[str, Any]) -> bool:
            Producer(alice(gateway)).poll(0.1)
            return bool(status["connections"][0]["closed"].get("broker_refuses_login"))

        gateway.wait_for(is_refused, what="a refusal: the broker has another password")
        password.unlink()
        gateway.process.send_signal(signal.SIGHUP)
        wait_for(gateway.log.read_text, "a file that is refused", until=lambda text: "config.refused" in text)
        password.write_text("another-secret")
        gateway.reread(gateway.config_file.read_text())
        assert "config.restart_needed" not in gateway.log.read_text()
        round_trip_of(topic, alice(gateway))
        connected.list_topics(topic, PATIENCE_S)
        assert "-secret" not in gateway.log.read_text()
