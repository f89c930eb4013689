"""`fleetgauge doctor` beside a running node: the node's own ports and files are no fault."""

import json
from pathlib import Path

import pytest
from support.certificates import Authority
from support.ports import free_ports
from support.programs.node import Node, run_cli

pytestmark = pytest.mark.integration


def test_ports_of_the_running_node_are_no_fault_and_a_second_node_is_told(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        listener = f"PLAINTEXT://127.0.0.1:{node.port}"
        options = ["--override", f"listeners={listener}", "--override", "http.listeners="]
        own = run_cli("doctor", "-f", "json", "--override", f"log.dirs={node.data}", *options)
        other = run_cli("doctor", "-f", "json", "--override", f"log.dirs={tmp_path}/other", *options, check=False)
        assert not (tmp_path / "other").exists()
    found = {each["check"]: each for each in map(json.loads, own.stdout.splitlines())}
    assert found[f"port {listener}"]["detail"] == "used by the running process of this data directory"
    assert other.returncode == 1
    found = {each["check"]: each for each in map(json.loads, other.stdout.splitlines())}
    assert found[f"port {listener}"]["level"] == "error"


def gateway_findings(tmp_path: Path, broker: int, *keys: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code and findings of a gateway before the broker on this port."""
    given = (f"log.dirs={tmp_path}/gateway", "http.listeners=", f"gateway.broker=127.0.0.1:{broker}", *keys)
    done = run_cli("doctor", "-f", "json", *(word for key in given for word in ("--override", key)), check=False)
    return done.returncode, {each["check"]: each for each in map(json.loads, done.stdout.splitlines())}


def test_the_broker_of_a_gateway_and_its_addresses_are_checked(tmp_path: Path) -> None:
    """A node answers ApiVersions and Metadata as a broker does."""
    with Node(tmp_path, "node.id=1", f"cluster.id={'A' * 22}") as broker:
        own = f"listeners=PLAINTEXT://127.0.0.1:{free_ports(1)[0]}"
        address = "address of broker 1 for clients"
        code, found = gateway_findings(tmp_path, broker.port, own)
        assert code == 0
        assert found["configuration"]["detail"].endswith("fleetgauge gateway")
        assert found[f"gateway.broker 127.0.0.1:{broker.port}"]["level"] == "ok"
        assert found[f"port {own.removeprefix('listeners=')}"]["level"] == "ok"
        assert (found[address]["level"], found[address]["detail"].split(";")[0]) == (
            "warning",
            f"127.0.0.1:{broker.port}",
        )
        _, found = gateway_findings(tmp_path, broker.port, own, f"gateway.nodes=*=:{own.rpartition(':')[2]}")
        assert found[address]["level"] == "ok"
        _, found = gateway_findings(tmp_path, broker.port, own, "node.id=7", "cluster.id=another")
        assert (found["node.id"]["level"], found["cluster.id"]["level"]) == ("warning", "warning")
        assert "A" * 22 in found["cluster.id"]["remedy"]
        code, found = gateway_findings(tmp_path, broker.port, own, "gateway.security.protocol=SSL")
        assert code == 1
        assert found[f"gateway.broker 127.0.0.1:{broker.port}"]["level"] == "error"
    code, found = gateway_findings(tmp_path, broker.port, own)
    assert code == 1
    assert "refused" in found[f"gateway.broker 127.0.0.1:{broker.port}"]["detail"]


def test_a_gateway_that_sends_proxy_headers_is_checked_with_one(tmp_path: Path) -> None:
    trust = ("proxy.protocol.enable=true", "proxy.protocol.trusted.addresses=127.0.0.1")
    with Node(tmp_path, *trust) as broker:
        check = f"gateway.broker 127.0.0.1:{broker.port}"
        _, found = gateway_findings(tmp_path, broker.port, "listeners=PLAINTEXT://127.0.0.1:0")
        assert found[check]["level"] == "error"
        keys = ("listeners=PLAINTEXT://127.0.0.1:0", "gateway.proxy.protocol.enable=true")
        _, found = gateway_findings(tmp_path, broker.port, *keys)
        assert found[check]["level"] == "ok"


def test_each_broker_behind_a_gateway_is_checked_by_the_name_that_clients_use(tmp_path: Path) -> None:
    """A node answers ApiVersions and Metadata as a broker does."""
    keystore = Authority(tmp_path / "ca").issue("server", "/CN=gateway", names="DNS:*.example.com").keystore
    port, down = free_ports(2)
    with Node(tmp_path, "node.id=4") as broker:

        def findings(brokers: str, port_of_nodes: int = port, domain: str = "example.com") -> dict[str, dict[str, str]]:
            keys = [f"listeners=SSL://127.0.0.1:{port}", f"ssl.keystore.location={keystore}"]
            keys += [f"advertised.listeners=SSL://any.example.com:{port}"]
            keys += [f"gateway.nodes=*=kafka-{{id}}.{domain}:{port_of_nodes}", f"gateway.brokers={brokers}"]
            _, found = gateway_findings(tmp_path, broker.port, *keys)
            assert "node.id" not in found  # the gateway stands before all brokers: it is none of them
            return found

        def finding(brokers: str, port_of_nodes: int = port) -> dict[str, str]:
            return findings(brokers, port_of_nodes)["broker 4"]

        certificates = findings(f"4=127.0.0.1:{broker.port}", domain="brokers.example.com")
        assert certificates["certificate for any.example.com"]["level"] == "ok"
        refused = certificates["certificate for broker 4"]
        assert refused["level"] == "error"
        assert "certificate is not valid for 'kafka-4.brokers.example.com'" in refused["detail"]
        there = finding(f"4=127.0.0.1:{broker.port}")
        assert (there["level"], there["detail"].split(",")[0]) == (
            "ok",
            f"clients connect to kafka-4.example.com:{port}",
        )
        missing = finding(f"1=127.0.0.1:{broker.port}")
        assert (missing["level"], missing["remedy"]) == ("error", "Add an entry for it to gateway.brokers.")
        gone = finding(f"4=127.0.0.1:{down}")
        assert (gone["level"], gone["detail"]) == ("error", f"127.0.0.1:{down}: Connection refused")
        past = finding(f"4=127.0.0.1:{broker.port}", down)
        assert (past["level"], "gateway.nodes" in past["remedy"]) == ("warning", True)


def test_brokers_that_cannot_be_reached_are_errors_with_the_keys_of_the_configuration(tmp_path: Path) -> None:
    """The error named --command-config, an option that a configuration does not have."""
    down = f"127.0.0.1:{free_ports(1)[0]}"
    keys = (
        *(f"log.dirs={tmp_path}/node", "http.listeners=", "listeners=PLAINTEXT://127.0.0.1:0"),
        *("push.log.type=kafka", "state.store=kafka", f"push.log.kafka.bootstrap.servers={down}"),
        *("exporters.k.type=kafka_topic", f"exporters.k.bootstrap.servers={down}", "exporters.k.topic=t"),
        *(f"offsets.bootstrap.servers={down}", f"subscriptions.bootstrap.servers={down}"),
    )
    options = [word for key in keys for word in ("--override", key)]
    done = run_cli("doctor", "-f", "json", "--process", "serve", "--bootstrap-server", down, *options, check=False)
    found = [each for each in map(json.loads, done.stdout.splitlines()) if each["check"] == f"brokers {down}"]
    named = {each["detail"].partition(":")[0]: each for each in found}
    assert done.returncode == 1
    for name, servers, client in (
        ("push.log.kafka", "push.log.kafka.bootstrap.servers", "push.log.kafka.client.*"),
        ("exporters.k", "exporters.k.bootstrap.servers", "exporters.k.client.*"),
        ("offsets", "offsets.bootstrap.servers", "offsets.command.config"),
        ("subscriptions", "subscriptions.bootstrap.servers", "subscriptions.command.config"),
        ("--bootstrap-server", "--bootstrap-server", "--command-config"),
    ):
        finding = named.pop(name)
        assert finding["remedy"].startswith(f"Correct {servers} or {client}, or start the brokers")
        assert f"check the address and the security settings of {client} (" in finding["detail"]
    assert named == {}
