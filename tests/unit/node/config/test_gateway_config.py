"""The keys of `[gateway]`: what they become, and the errors of an operator."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.certificates import Authority

from fleetgauge.base.errors import ConfigError
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config.load import load_config
from fleetgauge.node.gateway_node import GatewayNode, gateway_settings
from fleetgauge.node.node_class import node_class
from fleetgauge.node.reconfiguration import changeable_fields, log_reread
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.sasl.login import Login

BROKER = "gateway.broker=broker1.example.com:9092"


def test_a_node_with_a_broker_is_a_gateway() -> None:
    assert node_class(load_config(overrides=[BROKER])) is GatewayNode
    assert node_class(load_config()) is FleetgaugeNode


@pytest.mark.parametrize("broker", ["override", "file", "variable"])
def test_a_gateway_asks_no_client_for_metrics_unless_it_is_told_to(tmp_path: Path, broker: str) -> None:
    """As a broker does; `fleetgauge serve` has a subscription of its own for trying it out."""
    file = tmp_path / "gateway.toml"
    file.write_text('gateway.broker = "kafka:9092"\n' if broker == "file" else "")
    variables = {"FLEETGAUGE_GATEWAY_BROKER": "kafka:9092"} if broker == "variable" else {}
    overrides = ["gateway.broker=kafka:9092"] if broker == "override" else []
    assert load_config(file, environment=variables, overrides=overrides).client_metrics == {}
    asked = [*overrides, "client-metrics.own.metrics=*"]
    assert load_config(file, environment=variables, overrides=asked).client_metrics == {"own": {"metrics": "*"}}


def test_the_keys_become_settings() -> None:
    overrides = ["gateway.broker=[::1]:9092", "gateway.nodes=1=g:1,*=:2", "gateway.telemetry=pass"]
    settings = gateway_settings(load_config(overrides=[*overrides, "gateway.security.protocol=SASL_PLAINTEXT"]))
    assert (settings.host, settings.port, settings.tls) == ("::1", 9092, None)
    assert settings.addresses is not None
    assert settings.addresses.of(1, "b", 9) == ("g", 1)
    assert (settings.answers_telemetry, settings.requires_sasl) == (False, True)


def test_tls_to_the_broker_trusts_the_authority_that_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    keys = ["gateway.security.protocol=SSL", f"gateway.tls.ca.file={authority.certificate}"]
    settings = gateway_settings(load_config(overrides=[BROKER, *keys, "gateway.tls.server.name=kafka"]))
    assert settings.tls is not None
    assert len(settings.tls.get_ca_certs()) == 1
    assert (settings.tls.check_hostname, settings.server_hostname) == (True, "kafka")


LOGIN = ["gateway.security.protocol=SASL_PLAINTEXT", "gateway.sasl.username=g", "gateway.sasl.password=secret"]
SASL_LISTENER = ["listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=OAUTHBEARER"]
JWKS = "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere"


def test_sasl_of_clients_ends_at_the_gateway_if_it_has_a_user_of_its_own() -> None:
    settings = gateway_settings(load_config(overrides=[BROKER, *SASL_LISTENER, JWKS, *LOGIN]))
    assert settings.login == Login(mechanism="SCRAM-SHA-512", username="g", password="secret")
    assert not settings.requires_sasl


@pytest.mark.parametrize(
    ("key", "needs_restart"),
    [
        ("gateway.sasl.password=another", []),
        ("gateway.sasl.username=h", ["gateway.sasl.username", "gateway.sasl.password"]),
        ("gateway.sasl.mechanism=PLAIN", ["gateway.sasl.mechanism", "gateway.sasl.password"]),
    ],
)
def test_a_password_of_the_same_user_alone_is_taken_over_without_a_restart(key: str, needs_restart: list[str]) -> None:
    keys = [BROKER, *SASL_LISTENER, JWKS, *LOGIN]
    old, new = load_config(overrides=keys), load_config(overrides=[*keys, "gateway.sasl.password=another", key])
    with capture_logs() as logs:
        log_reread(old, new, changeable_fields(old, new))
    assert sorted(needs_restart) == sorted(key for line in logs for key in line.get("keys", ()))


def test_sasl_of_clients_may_end_before_a_broker_without_it() -> None:
    settings = gateway_settings(load_config(overrides=[BROKER, *SASL_LISTENER, JWKS]))
    assert (settings.login, settings.requires_sasl) == (None, False)


OWN = ["listeners=PLAINTEXT://127.0.0.1:0,ADMIN://127.0.0.1:0", "admin.listeners=admin"]
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:"


def test_a_listener_of_admin_listeners_passes_nothing() -> None:
    config = load_config(overrides=[BROKER, *OWN, f"{MAP}PLAINTEXT"])
    assert config.admin_listener_names() == {"ADMIN"}
    assert config.passing_listener_names() == {"PLAINTEXT"}


def test_a_listener_on_loopback_passes_traffic_unless_it_is_named() -> None:
    config = load_config(
        overrides=[BROKER, "listeners=PLAINTEXT://127.0.0.1:0,LOOPBACK://127.0.0.1:0", f"{MAP}SSL,LOOPBACK:PLAINTEXT"]
    )
    assert config.admin_listener_names() == frozenset()
    assert config.passing_listener_names() == {"PLAINTEXT", "LOOPBACK"}


NAMED = "gateway.nodes=*=kafka-{id}.example.com:9093"


def test_a_gateway_before_several_brokers_finds_them_by_server_name() -> None:
    listeners = ["listeners=SSL://0.0.0.0:9093,ADMIN://127.0.0.1:0", "admin.listeners=ADMIN"]
    advertised = ["advertised.listeners=SSL://kafka.example.com:9093,ADMIN://admin.example.com:9094"]
    overrides = [BROKER, *listeners, *advertised, "listener.security.protocol.map=SSL:SSL,ADMIN:PLAINTEXT"]
    names = gateway_settings(load_config(overrides=[*overrides, NAMED, "gateway.brokers=*=b{id}:9092"])).server_names
    assert names is not None
    assert (names.find("kafka-7.example.com"), names.find("kafka.example.com")) == (("b7", 9092), None)
    with pytest.raises(ProtocolError, match="unknown_server_name"):
        names.find("admin.example.com")
    assert gateway_settings(load_config(overrides=[*overrides, NAMED])).server_names is None


SEVERAL = [BROKER, "gateway.brokers=1=b:9092", "listeners=SSL://127.0.0.1:0"]


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([], "gateway.broker: is not set"),
        (["gateway.broker=broker1"], "is not host:port"),
        (["gateway.broker=broker1:0"], "is not host:port"),
        ([BROKER, "gateway.nodes=1=g:1"], "no entry for other nodes"),
        ([BROKER, "admin.listeners=PLAINTEXT"], "names every listener, and a gateway passes nothing on these"),
        (
            [BROKER, "listeners=SASL_SSL://127.0.0.1:0", LOGIN[0]],
            "a gateway passes SASL to the broker: use SSL here; or set gateway.sasl.username",
        ),
        ([BROKER, *SASL_LISTENER, JWKS, *LOGIN[1:]], "gateway.security.protocol is PLAINTEXT: set SASL_SSL"),
        ([BROKER, *SASL_LISTENER, JWKS, *LOGIN[:2]], "gateway.sasl.password: or gateway.sasl.username is not usable"),
        ([BROKER, *LOGIN], "gives its rights at the broker to everyone who reaches listener PLAINTEXT"),
        ([BROKER, *LOGIN, "listeners=SSL://127.0.0.1:0"], "SSL with ssl.client.auth=required"),
        (
            [BROKER, "gateway.security.protocol=SSL", "gateway.tls.ca.file=/nope"],
            "gateway.tls.ca.file: /nope cannot be",
        ),
        (
            [*SEVERAL[:2], NAMED],
            "gateway.brokers: tells brokers apart by the server name of TLS, and listener PLAINTEXT",
        ),
        (SEVERAL, "gateway.nodes: is not set, but gateway.brokers needs a name for each node"),
        (
            [*SEVERAL, "gateway.nodes=*=:9092"],
            r"gateway.nodes: needs \{id\} in the host .* \(needed by gateway.brokers",
        ),
        ([*SEVERAL, NAMED, "gateway.brokers=*=b:9000+id"], r"gateway.brokers.* has \+id for node"),
    ],
)
def test_an_error_names_the_key_and_the_remedy(overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        gateway_settings(load_config(overrides=overrides))
