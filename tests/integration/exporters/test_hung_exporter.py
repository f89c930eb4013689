"""An exporter that hangs is ended and started again, and loses nothing; one that waits for its destination is not."""

import os
import signal
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.proxies.trickling import BODY, trickling
from support.receivers.webhook import Webhook
from support.waiting import ticking, wait_for

pytestmark = pytest.mark.integration

HANG_S = 8
EXAMPLES = Path(__file__).parents[3] / "examples"
BLOCKING = """
import pathlib, time
from webhook_exporter import webhook_exporter

def blocking(name, values):
    exporter = webhook_exporter(name, {key: value for key, value in values.items() if key != "blocks"})
    deliver, blocks = exporter.export, pathlib.Path(values["blocks"])

    def export(batch):
        while blocks.exists():
            time.sleep(0.05)
        return deliver(batch)

    exporter.export = export
    return exporter
"""


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Webhook:
    (tmp_path / "blocking_exporter.py").write_text(BLOCKING)
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLES}:{tmp_path}")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(tmp_path))
    return Webhook()


def config(hook: Webhook, blocks: Path) -> str:
    return (
        f'"exporter.hang.timeout.seconds" = {HANG_S}\n[exporters.hook]\ntype = "blocking_exporter:blocking"\n'
        f'url = "{hook.url}"\nblocks = "{blocks}"\n"linger.ms" = 50\n"retry.backoff.max.ms" = 200\n'
    )


def push(node: Node) -> str:
    with RawClient(node.port) as client:
        subscription = client.get()
        assert client.push(subscription, metrics_data()).error_code == 0
        return str(subscription.client_instance_id)


def wait_for_pushes(hook: Webhook, number: int) -> None:
    """Waits until so many different pushes have come."""
    wait_for(lambda: set(hook.received), f"{number} pushes", until=lambda pushes: len(pushes) == number)


def test_a_hung_exporter_is_started_again_and_delivers_every_push(tmp_path: Path, hook: Webhook) -> None:
    blocks = tmp_path / "blocks"
    with hook, Node(tmp_path, config=config(hook, blocks)) as node:
        push(node)
        wait_for_pushes(hook, 1)
        first = node.exporter_pid()
        blocks.touch()
        push(node)
        node.wait_for(lambda s: s["exporter_process"]["hangs"] == 1, what="the end of a call that hangs")
        blocks.unlink()
        wait_for_pushes(hook, 2)
        second = node.exporter_pid()
        assert second != first
        os.kill(second, signal.SIGSTOP)
        push(node)
        wait_for_pushes(hook, 3)
        assert node.status()["exporter_process"]["hangs"] == 2
        assert "exporter hook has not returned from a call for" in node.output()


def test_a_landing_zone_in_s3_whose_answers_have_no_end_is_a_hung_exporter_and_delays_no_stop(tmp_path: Path) -> None:
    with trickling(BODY) as store:
        path = f"s3://a:b@lake/zone?region=r&scheme=http&endpoint_override={store.address}"
        exporter = f'[exporters.lake]\ntype = "landing"\npath = "{path}"\n"linger.ms" = 50\n'
        config = f'"exporter.hang.timeout.seconds" = {HANG_S}\n{exporter}'
        with Node(tmp_path, "shutdown.timeout.ms=2000", config=config) as node:
            push(node)
            node.wait_for(lambda s: s["exporter_process"]["hangs"] == 1, what="the end of a call that hangs")
            asked = store.asked
            wait_for(lambda: store.asked, "a request of the next process", until=lambda now: now > asked)
            assert node.stop() == 0


def test_an_exporter_that_waits_for_its_destination_is_left_alone(tmp_path: Path, hook: Webhook) -> None:
    with hook, Node(tmp_path, config=config(hook, tmp_path / "blocks")) as node:
        hook.status = 503
        push(node)
        node.wait_for(lambda s: s["exporter_process"]["exporters"]["hook"]["retried"], what="a retry")
        for _ in ticking(2 * HANG_S, every_s=0.5):
            process = node.status()["exporter_process"]
            assert (process["hangs"], process["restarts"]) == (0, 0)
        hook.status = 200
        wait_for_pushes(hook, 1)
