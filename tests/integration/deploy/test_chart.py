"""The Helm chart with each set of values in docs/operate/kubernetes.md: what Kubernetes and Fleetgauge make of it."""

import json
import re
import subprocess
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml
from support.brokers.kafka_broker import KafkaBroker
from support.built import ROOT
from support.certificates import Authority
from support.helm import (
    CHART,
    KUBERNETES,
    MISSING,
    STRIMZI,
    documented_values,
    helm,
    pod_templates,
    rendered,
    resources,
)
from support.http import get, get_at
from support.ports import free_port
from support.programs.export import Export
from support.programs.node import Node
from support.receivers.prometheus_server import MISSING as NO_PROMETHEUS
from support.waiting import wait_for
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from fleetgauge.cli import app as fleetgauge
from fleetgauge.cli.fleet.app import app as fleet
from fleetgauge.node.config.load import load_config
from fleetgauge.node.gateway_node import gateway_settings
from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

VALUES = documented_values()
MONITORED = VALUES["brokers with the plugin, SASL, a collector and Prometheus"]


@pytest.fixture(scope="module", params=VALUES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is rendered of one set of values."""
    return resources(rendered(values_file(tmp_path_factory.mktemp("values"), VALUES[request.param])))


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [*template["spec"]["containers"], *template["spec"].get("initContainers", ())]


def values_file(directory: Path, values: dict[str, Any]) -> Path:
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def configurations(found: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Part and text of each rendered configuration."""
    for each in found:
        if each["kind"] == "ConfigMap" and "fleetgauge.toml" in each["data"]:
            yield each["metadata"]["labels"]["app.kubernetes.io/component"], each["data"]["fleetgauge.toml"]


def environment(found: list[dict[str, Any]], part: str) -> dict[str, str]:
    """The variables of a part's first pod, as Kubernetes fills them in."""
    known = {"metadata.name": f"fleetgauge-{part}-0", "metadata.labels['apps.kubernetes.io/pod-index']": "0"}
    (template,) = (each for name, each in pod_templates(found) if name == f"fleetgauge-{part}")
    filled: dict[str, str] = {}
    for each in template["spec"]["containers"][0]["env"]:
        value = each.get("value") or known[each["valueFrom"]["fieldRef"]["fieldPath"]]
        filled[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: filled[name[1]], value)
    return filled


@pytest.mark.parametrize("title", VALUES)
def test_the_chart_is_linted_without_a_finding(title: str, tmp_path: Path) -> None:
    done = helm(
        "lint", "--strict", CHART, "--kube-version", f"{KUBERNETES[0]}.0", "-f", values_file(tmp_path, VALUES[title])
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_resource_is_one_of_kubernetes(found: list[dict[str, Any]], version: str) -> None:
    for each in found:
        if not each["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(each, version, strict=True)


def test_pods_keep_the_restricted_security_standard(found: list[dict[str, Any]]) -> None:
    templates = list(pod_templates(found))
    assert templates
    for _, template in templates:
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not spec["automountServiceAccountToken"]
        for container in containers(template):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]
        for volume in spec["volumes"]:
            assert volume.keys() - {"name"} <= {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}


def test_no_service_of_the_namespace_becomes_a_configuration_key(found: list[dict[str, Any]]) -> None:
    """Service links would be variables such as FLEETGAUGE_EXPORT_PORT, which stop the start as unknown keys."""
    assert all(template["spec"]["enableServiceLinks"] is False for _, template in pod_templates(found))


def test_selectors_ports_and_volumes_fit_together(found: list[dict[str, Any]]) -> None:
    templates = dict(pod_templates(found))
    services = {each["metadata"]["name"]: each for each in found if each["kind"] == "Service"}
    for each in found:
        kind, spec = each["kind"], each.get("spec", {})
        if kind == "Service":
            (template,) = (t for t in templates.values() if spec["selector"].items() <= t["metadata"]["labels"].items())
            offered = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} <= offered
        if kind == "StatefulSet":
            assert services[spec["serviceName"]]["spec"]["clusterIP"] == "None"
        if kind in ("NetworkPolicy", "PodDisruptionBudget", "StatefulSet", "Deployment"):
            labels = (spec.get("podSelector") or spec["selector"])["matchLabels"]
            assert [t for t in templates.values() if labels.items() <= t["metadata"]["labels"].items()]
        if kind == "ServiceMonitor":
            wanted = spec["selector"]["matchLabels"].items()
            (service,) = (s for s in services.values() if wanted <= s["metadata"]["labels"].items())
            assert {e["port"] for e in spec["endpoints"]} <= {port["name"] for port in service["spec"]["ports"]}
    for name, template in templates.items():
        sets = (e["spec"] for e in found if e["kind"] == "StatefulSet" and e["metadata"]["name"] == name)
        claims = [claim["metadata"]["name"] for each in sets for claim in each.get("volumeClaimTemplates", ())]
        volumes = sorted([volume["name"] for volume in template["spec"]["volumes"]] + claims)
        for container in containers(template):
            assert sorted(mount["name"] for mount in container["volumeMounts"]) == volumes


def test_every_command_of_a_container_is_taken(found: list[dict[str, Any]]) -> None:
    for _, template in pod_templates(found):
        for container in containers(template):
            command, words = get_command(fleetgauge), container["args"]
            if words[0] == "fleet":
                command, words = get_command(fleet), words[1:]
            assert isinstance(command, TyperGroup)
            name, chosen, rest = command.resolve_command(Context(command), list(words))
            assert chosen is not None
            chosen.make_context(name, rest)


def test_fleetgauge_reads_every_configuration(found: list[dict[str, Any]], tmp_path: Path) -> None:
    templates = dict(pod_templates(found))
    made = Authority(tmp_path / "authority").issue("export", "/CN=export")
    users = f'["prometheus"]\nrole = "read"\ntoken-sha-256 = "{"0" * 64}"\n'
    secrets = {".crt": made.certificate.read_text(), ".key": made.key.read_text(), ".toml": users}
    for part, text in configurations(found):
        mounts = {m["mountPath"] for m in templates[f"fleetgauge-{part}"]["spec"]["containers"][0]["volumeMounts"]}
        for path in re.findall(r"/etc/fleetgauge/secrets/[\w./-]+", text):
            assert str(Path(path).parent) in mounts
            secret = tmp_path / path.lstrip("/")
            secret.parent.mkdir(parents=True, exist_ok=True)
            secret.write_text(secrets.get(secret.suffix, "a password\n"))
        file = tmp_path / f"{part}.toml"
        file.write_text(text.replace("/etc/fleetgauge", f"{tmp_path}/etc/fleetgauge"))
        config = load_config(file, environment=environment(found, part))
        assert [str(each) for each in config.http_listeners] == ["http://0.0.0.0:9465"]
        if part in ("serve", "gateway"):
            assert config.node_id == 0
            address = f"fleetgauge-{part}-0.fleetgauge-{part}-pods.kafka.svc"
            assert f"{address}:9092" in str(config.advertised_listeners[0])
        if part == "gateway":
            gateway = gateway_settings(config)
            assert (gateway.host, gateway.port) == ("kafka-0.kafka-headless", 9092)
            assert gateway.addresses is not None
            assert gateway.addresses.of(0, "kafka-0", 9092) == (address, 9092)
        elif part != "serve":
            assert config.push_log == "kafka"


def test_gateways_have_the_ids_of_brokers_and_addresses_that_an_operator_gives(tmp_path: Path) -> None:
    given = {"gateway.nodes": ["*=kafka.example.com:19000+id"], "cluster.id": "c"}
    values = {"enabled": True, "firstBroker": 4, "broker": "k-$(BROKER_ID):1", "config": given}
    found = resources(rendered(values_file(tmp_path, {"export": {"enabled": False}, "gateway": values})))
    (pods,) = (each["spec"] for each in found if each["kind"] == "StatefulSet")
    assert (pods["replicas"], pods["ordinals"]) == (3, {"start": 4})
    file = tmp_path / "gateway.toml"
    ((_, text),) = configurations(found)
    file.write_text(text)
    settings = gateway_settings(load_config(file, environment=environment(found, "gateway")))
    assert settings.addresses is not None
    assert settings.addresses.of(4, "k-4", 1) == ("kafka.example.com", 19004)


def test_rules_and_dashboards_are_the_files_themselves(tmp_path: Path) -> None:
    found = resources(rendered(values_file(tmp_path, MONITORED)))
    rules = [each["spec"] for each in found if each["kind"] == "PrometheusRule"]
    files = sorted((CHART / "rules").glob("*.yml"))
    assert sorted(map(str, rules)) == sorted(str(yaml.safe_load(file.read_text())) for file in files)
    texts = {name: text for each in found if each["kind"] == "ConfigMap" for name, text in each["data"].items()}
    assert {name: text for name, text in texts.items() if name.endswith(".json")} == {
        file.name: file.read_text() for file in (CHART / "dashboards").glob("*.json")
    }


def test_the_page_has_the_labels_that_the_rules_read(tmp_path: Path) -> None:
    comment = (CHART / "rules/fleetgauge-clients.rules.yml").read_text().split("\ngroups:")[0]
    (wanted,) = re.findall(r"labels = (\[.*?\])", comment.replace("\n# ", " "))
    pages = dict(configurations(resources(rendered(values_file(tmp_path, MONITORED)))))
    compose = (ROOT / "deploy/compose/export.toml").read_text()
    for text in (pages["export"], compose):
        page = tomllib.loads(text)["exporters"]["prometheus"]
        assert set(json.loads(wanted)) <= set(page["labels"])


@pytest.mark.skipif(bool(NO_PROMETHEUS), reason=NO_PROMETHEUS)
def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    found = resources(rendered(values_file(tmp_path, MONITORED)))
    for number, each in enumerate(e for e in found if e["kind"] == "PrometheusRule"):
        file = tmp_path / f"{number}.yml"
        file.write_text(yaml.safe_dump(each["spec"]))
        subprocess.run(["promtool", "check", "rules", file], check=True, capture_output=True)


def test_the_example_for_strimzi_names_one_topic_user_and_secret() -> None:
    """The plugin's own keys, the topic, the user's rights and the chart's values fit together."""
    kafka = next(each for each in resources((STRIMZI / "kafka.yaml").read_text()) if each["kind"] == "Kafka")
    topic, user = resources((STRIMZI / "topic.yaml").read_text())
    config = kafka["spec"]["kafka"]["config"]
    assert config["fleetgauge.topic"] == topic["metadata"]["name"]
    # Bounds of a topic that the plugin would have made itself.
    assert topic["spec"]["config"]["max.message.bytes"] >= KafkaTopicSettings(bootstrap_servers="-").max_record_bytes
    values = VALUES["strimzi"]["export"]
    assert set(values["secrets"]) == {f"{kafka['metadata']['name']}-cluster-ca-cert", user["metadata"]["name"]}
    listeners = {listener["port"] for listener in kafka["spec"]["kafka"]["listeners"]}
    host, port = values["config"]["push.log.kafka.bootstrap.servers"].split(":")
    assert host == f"{kafka['metadata']['name']}-kafka-bootstrap"
    assert int(port) in listeners
    named = {acl["resource"]["type"]: acl["resource"]["name"] for acl in user["spec"]["authorization"]["acls"]}
    assert named["topic"] == topic["metadata"]["name"]
    assert f"{KafkaTopicSettings(bootstrap_servers='-').group_prefix}-".startswith(named["group"])
    tls = values["config"]["push.log.kafka.client"]
    assert {Path(tls[key]).parent.name for key in tls if key.endswith(".location")} == set(values["secrets"])


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"export": {"replicas": "two"}}, "replicas"),
        ({"exprot": {"enabled": True}}, "exprot"),
        ({"export": {"secrets": ["../etc"]}}, "secrets"),
        ({"networkPolicy": {"monitoring": "everyone"}}, "monitoring"),
        ({}, "bootstrap.servers"),
        ({"export": {"enabled": False}, "gateway": {"enabled": True}}, "gateway.broker"),
        ({"export": {"enabled": False}, "fleet": {"enabled": True}}, "fleet.source"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], problem: str, tmp_path: Path) -> None:
    done = helm(
        "template", "fleetgauge", CHART, "--kube-version", f"{KUBERNETES[-1]}.0", "-f", values_file(tmp_path, values)
    )
    assert done.returncode != 0
    assert problem in done.stderr


def test_values_with_quotes_and_line_breaks_stay_values(tmp_path: Path) -> None:
    """No value can add a key: the configuration is written by an encoder, not by joining text."""
    hostile = 'a"\nworkers = 7\n[exporters.x]\n</script>\u202e\\'
    config = {"push.log.kafka.bootstrap.servers": "b:1", "cluster.id": hostile}
    found = resources(rendered(values_file(tmp_path, {"export": {"config": config}})))
    ((_, text),) = configurations(found)
    (tmp_path / "hostile.toml").write_text(text)
    read = load_config(tmp_path / "hostile.toml")
    assert read.cluster_id == hostile
    assert read.workers == 1


def test_serve_runs_by_what_is_rendered(tmp_path: Path) -> None:
    values = VALUES["a listener for telemetry alone, for test clients of the namespace apps (no application)"]
    ((_, text),) = configurations(resources(rendered(values_file(tmp_path, values))))
    page = free_port()
    with Node(tmp_path, "http.listeners=http://127.0.0.1:0", config=on_loopback(text, page)) as node:
        exporters = {"prometheus", "collector"}
        node.wait_for(
            lambda s: s["exporter_process"]["exporters"].keys() == exporters and s["http"]["listeners"],
            what="a status of every exporter, and the HTTP port",
        )
        wait_for(lambda: get(node, "/readyz").status, "a node that is ready", until=is_ok)
        assert get(node, "/healthz").status == 200
        wait_for(
            lambda: get_at("127.0.0.1", page, "/metrics").status,
            "the page of clients",
            until=is_ok,
            ignoring=(OSError,),
        )


def is_ok(status: int) -> bool:
    return status == 200


def test_export_runs_by_what_is_rendered(broker: KafkaBroker, tmp_path: Path) -> None:
    settings = KafkaTopicSettings(bootstrap_servers=broker.bootstrap, topic=f"pushes-{uuid.uuid4().hex}")
    ensure_topic(make_admin(settings), settings)
    config = {"push.log.kafka.bootstrap.servers": broker.bootstrap, "push.log.kafka.topic.name": settings.topic}
    ((_, text),) = configurations(resources(rendered(values_file(tmp_path, {"export": {"config": config}}))))
    file = tmp_path / "export.toml"
    file.write_text(on_loopback(text, free_port()))
    port = free_port()
    with Export(tmp_path, file, f"http.listeners=http://127.0.0.1:{port}") as export:
        export.wait_for("prometheus", lambda exporter: exporter["state"] == "running", "a page that is served")
        wait_for(
            lambda: get_at("127.0.0.1", port, "/readyz").status,
            "an export that is ready",
            until=is_ok,
            ignoring=(OSError,),
        )


def on_loopback(text: str, page: int) -> str:
    """The configuration with the page of clients on a free port of loopback."""
    return text.replace("0.0.0.0:9464", f"127.0.0.1:{page}")
