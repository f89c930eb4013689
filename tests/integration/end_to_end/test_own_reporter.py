"""docs/develop/write-a-reporter.md: its class, registered by its line, receives the pushes of node and gateway."""

import re
import tomllib
from pathlib import Path

import pytest
from support.brokers.kafka_broker import KafkaBroker
from support.clients.raw_client import RawClient
from support.gateway.gateway import GatewayBefore
from support.programs.node import Node

from fleetgauge.telemetry import format_instance_id

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[3] / "docs" / "develop" / "write-a-reporter.md"


def block(language: str) -> str:
    """The page's only block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text: str = found
    return text


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_a_reporter_is_registered_as_the_page_says(
    command: str, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((key, name),) = tomllib.loads(block("toml")).items()
    module = tmp_path / f"{name.partition('.')[0]}.py"
    module.write_text(block("python"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    registered = f"{key}={name}"
    node = Node(tmp_path, registered) if command == "serve" else GatewayBefore(tmp_path, broker.port, registered)
    with node, RawClient(node.port, client_id="own-reporter") as client:
        client.api_versions()
        subscription = client.get()
        assert client.push(subscription, b"", terminating=True).error_code == 0
        assert node.stop() == 0
    instance = format_instance_id(subscription.client_instance_id)
    assert f"own-reporter ({instance}) has left node 1: number 1" in node.output()
