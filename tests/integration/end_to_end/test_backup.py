"""`examples/backup.sh`: a copy made while clients push has every push that was acknowledged before it began."""

import operator
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.receivers.webhook import Webhook
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs sqlite3: apt-get install sqlite3"),
]

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_copy_of_a_running_node_has_every_push_that_was_acknowledged_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    acknowledged: list[str] = []
    ended = threading.Event()

    def push(port: int) -> None:
        while not ended.is_set():
            with RawClient(port) as client:
                subscription = client.get()
                if client.push(subscription, metrics_data()).error_code == 0:
                    acknowledged.append(format_instance_id(subscription.client_instance_id))

    with Webhook() as hook:
        config = (
            '[exporters.hook]\ntype = "webhook_exporter:webhook_exporter"\n'
            f'url = "{hook.url}"\n"linger.ms" = 20\n"retry.backoff.max.ms" = 100\n'
        )
        limits = ("push.log.segment.bytes=1048576", "telemetry.max.new.instance.rate.per.ip=0")
        source, restored = tmp_path / "source", tmp_path / "restored"
        source.mkdir()
        restored.mkdir()
        with Node(source, *limits, config=config) as node:
            pushing = threading.Thread(target=push, args=(node.port,))
            pushing.start()
            try:
                wait_for(lambda: len(hook.received), "some pushes to be delivered", until=lambda count: count > 50)
                hook.status = 503  # the rest waits in the log
                backlog = len(acknowledged) + 300
                wait_for(lambda: len(acknowledged), "a backlog", until=lambda count: count > backlog)
                before, delivered = list(acknowledged), set(hook.received)
                assert len(set(before) - delivered) > 200
                copy = ["sh", str(EXAMPLES / "backup.sh"), str(node.data), str(restored / "data")]
                done = subprocess.run(copy, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                assert (done.returncode, done.stderr) == (0, "")
                during = len(acknowledged) - len(before)
            finally:
                ended.set()
                pushing.join(PATIENCE_S)
            assert during > 0, "no push came while the copy was made"
            identity = (node.data / "meta.properties").read_text()
        assert not [each for each in (restored / "data").rglob("*") if each.stat().st_mode & 0o077]
        hook.status, hook.pushes = 200, []
        with Node(restored, *limits, config=config) as node:
            wait_for(
                lambda: set(before) - delivered - set(hook.received), "every acknowledged push", until=operator.not_
            )
            assert (node.data / "meta.properties").read_text() == identity
            assert "corrupt" not in node.output()
            node.wait_for(
                lambda s: s["exporter_process"]["exporters"]["hook"]["lost_records"] == 0,
                what="the exporter without a loss",
            )
    again = subprocess.run(copy, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert again.returncode != 0, "a copy never overwrites another"
