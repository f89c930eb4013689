"""A node whose destination refuses some pushes: they are kept, listed, replayed by hand, and gone when delivered."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.receivers.webhook import Webhook
from support.waiting import PATIENCE_S
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples"


class Commands:
    """`fleetgauge` commands about one data directory, in this process."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def run(self, *arguments: str) -> Result:
        from fleetgauge.cli import app

        return CliRunner().invoke(app, [*arguments, "--log-dirs", str(self._data)])

    def letters(self, *arguments: str) -> list[dict[str, Any]]:
        listed = self.run("log", "dead", "--format", "json", *arguments)
        assert listed.exit_code == 0, listed.output
        return [json.loads(line) for line in listed.stdout.splitlines()]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    with Webhook() as served:
        yield served


def push(node: Node, client_id: str) -> None:
    with RawClient(node.port, client_id=client_id) as client:
        assert client.push(client.get(), metrics_data()).error_code == 0


def test_refused_pushes_are_kept_listed_replayed_and_gone_when_delivered(tmp_path: Path, hook: Webhook) -> None:
    hook.refuses = lambda found: found["client_id"] == "bad"
    config = f"""
[exporters.hook]
type = "webhook_exporter:webhook_exporter"
url = "{hook.url}"
"linger.ms" = 50
"""
    with Node(tmp_path, config=config) as node:
        for client_id in ("good", "bad", "bad", "good", "bad"):
            push(node, client_id)
        # A status reads the counts, the cursor and the letters one after the other: each may be ahead of the others.
        counts = {"letters": 3, "refused": {"unwanted": 3}, "delivered_records": 2, "lag_records": 0}
        state = node.wait_for(
            lambda s: counts.items() <= s["exporter_process"]["exporters"]["hook"].items(), what=str(counts)
        )["exporter_process"]["exporters"]["hook"]
        assert state["state"] == "running"
        assert [each["client_id"] for each in hook.pushes] == ["good", "good"]

        commands = Commands(node.data)
        found = commands.letters("--exporter", "hook", "--reason", "unwanted")
        assert [(each["client_id"], each["detail"], each["times"]) for each in found] == [("bad", "not here", 1)] * 3
        assert commands.letters("--limit", "1") == found[:1]
        assert "unwanted" in commands.run("log", "dead").stdout
        shown = commands.run("log", "dead", "show", str(found[0]["id"]))
        assert "org.apache.kafka" in shown.stdout, shown.output
        told = json.loads(commands.run("status", "--exporters", "--format", "json").stdout)[0]["exporters"]["hook"]
        assert (told["letters"], told["delivered_records"], told["lag_ms"]) == (3, 2, 0)
        assert told["freshness_quantiles_s"]["p99"] > 0
        table = commands.run("status", "--exporters")
        assert "unwanted 3" in table.stdout, table.output

        again = commands.run("log", "dead", "replay", "--exporter", "hook", "--wait", str(round(PATIENCE_S)))
        assert (again.exit_code, again.stdout) == (1, "delivered 0, refused again 3, waiting 0\n")
        assert {each["times"] for each in commands.letters()} == {2}

        hook.refuses = lambda found: False
        one = commands.run("log", "dead", "replay", "--exporter", "hook", "--id", str(found[2]["id"]))
        assert (one.exit_code, one.stdout) == (0, "delivered 1, refused again 0, waiting 0\n")
        assert hook.pushes[-1]["push_id"] == found[2]["push_id"], "the oldest"
        hook.stop()
        away = commands.run("log", "dead", "replay", "--exporter", "hook", "--wait", "0")
        assert (away.exit_code, away.stdout) == (1, "delivered 0, refused again 0, waiting 2\n")
        node.kill_exporter()
        hook.start()
        node.wait_for(lambda s: s["exporter_process"]["exporters"]["hook"]["letters"] == 0, what="the replay")
        assert commands.letters() == []
        got = [each["push_id"] for each in hook.pushes if each["client_id"] == "bad"]
        assert set(got) == {each["push_id"] for each in found}
        gone = commands.run("log", "dead", "drop", "--exporter", "hook", "--all")
        assert "there are no dead letters of exporter hook" in str(gone.exception)
        assert node.stop() == 0, node.output()
