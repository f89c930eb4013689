"""A destination that is away for longer: within the log's bounds nothing is lost, beyond them it is counted exactly."""

import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.delivery import PATIENCE_MS
from support.programs.node import Node
from support.programs.push_log import RecordWriter, push_record
from support.receivers.webhook import Webhook
from support.rss import RssWatch
from support.waiting import wait_for

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.registry import build_exporter, drain_rate_bytes
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples"
MIB = 1 << 20
RETENTION_BYTES = 20 * MIB
FLAT_BYTES = 12 * MIB
"""What the exporter process may grow by while almost twice as much waits [B]: some batches of 1 MB."""


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))


def push(node: Node, count: int, payload: bytes) -> list[str]:
    """Pushes so often, each time as another instance, and returns whose pushes were acknowledged."""
    instances = [uuid.uuid4() for _ in range(count)]
    with RawClient(node.port) as client:
        return [
            format_instance_id(instance)
            for instance in instances
            if client.push(client.get(instance), payload).error_code == 0
        ]


def test_an_outage_within_the_bounds_loses_nothing_and_one_beyond_them_what_is_counted(tmp_path: Path) -> None:
    payload = metrics_data(2_000)
    with Webhook() as hook:
        hook.stop()
        config = f"""
[exporters.hook]
type = "webhook_exporter:webhook_exporter"
url = "{hook.url}"
"linger.ms" = 50
"""
        bounds = (f"push.log.retention.bytes={RETENTION_BYTES}", f"push.log.segment.bytes={MIB}")
        with Node(tmp_path, *bounds, config=config) as node:
            hook.start()
            first = push(node, 20, payload)
            node.wait_for(
                lambda s: s["exporter_process"]["exporters"]["hook"]["delivered_records"] == len(first),
                what="the delivery of the first pushes",
            )
            hook.stop()
            with RssWatch(node.exporter_pid()) as memory:
                outages(node, hook, payload)
            assert node.stop() == 0, node.output()
        print(f"the exporter process grew by {(memory.peak - memory.at_start) / MIB:.1f} MiB")
        assert memory.peak - memory.at_start < FLAT_BYTES, f"{(memory.peak - memory.at_start) / MIB:.0f} MiB more"


def outages(node: Node, hook: Webhook, payload: bytes) -> None:
    """One within the bounds of the log, and one beyond them; the destination is away at first."""
    before = len(hook.received)
    within = push(node, 80, payload)
    assert len(within) == 80
    backlog = node.wait_for(
        lambda s: s["exporter_process"]["exporters"]["hook"]["lag_records"] == 80, what="a backlog of 80 pushes"
    )
    assert backlog["exporter_process"]["exporters"]["hook"]["lag_bytes"] == 80 * len(payload)
    hook.start()
    node.wait_for(lambda s: s["exporter_process"]["exporters"]["hook"]["lag_records"] == 0, what="the drain")
    assert hook.received[before:] == within, "all of it, in order, once"

    hook.stop()
    beyond = push(node, 160, payload)
    assert len(beyond) == 160
    told = []

    def state_of(status: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = status["exporter_process"]["exporters"]["hook"]
        told.append(state["lost_records"])
        return state

    node.wait_for(
        lambda s: state_of(s)["lost_records"] > 0 and s["push_log"]["disk_bytes"] <= RETENTION_BYTES,
        what="the retention",
    )
    hook.start()

    def is_over(status: dict[str, Any]) -> bool:
        """What was read before retention deleted it is on its way when the log is empty already."""
        state = state_of(status)
        told_of = state["lost_records"] + len(hook.received) - before - 80
        return bool(state["lag_records"] == 0 and told_of == len(beyond))

    state = state_of(node.wait_for(is_over, what="every push to be delivered or counted as lost"))
    assert told == sorted(told), "a counter that falls would read as one that began anew"
    arrived = hook.received[before + 80 :]
    missing = set(beyond) - set(arrived)
    assert state["lost"] == {"retention": len(missing), "damage": 0}, "counted exactly"
    assert len(missing) > 30
    # A batch was on its way when segments began to go: it is the oldest, and arrives all the same.
    assert arrived == [instance for instance in beyond if instance not in missing]
    assert arrived[-60:] == beyond[-60:], "the oldest goes first"


def test_a_backlog_drains_in_order_and_no_faster_than_it_may(tmp_path: Path) -> None:
    """200 pushes of an hour ago with 4 kB each at 200 kB/s: some four seconds of traffic, by a clock moved by hand."""
    settings = PushLogSettings(dir=tmp_path / "log", min_free_bytes=0)
    clock = MockTime()
    long_ago_us = clock.microseconds() - 3_600_000_000
    with closing(RecordWriter(settings)) as writer:
        for number in range(200):
            writer.append(push_record(number, b"m" * 4_000, received_at=long_ago_us + number))
        writer.commit()
    with Webhook() as hook:
        keys = {
            "type": "webhook_exporter:webhook_exporter",
            "url": hook.url,
            "batch.max.bytes": 40_000,
            "linger.ms": 0,
            "drain.rate.bytes": 200_000,
        }
        rate = drain_rate_bytes("hook", keys)
        reader = SqlitePushLogReader(settings, "hook")
        pipeline = Pipeline(reader, build_exporter("hook", keys), time=clock, drain_rate_bytes=rate, pause=clock.sleep)
        began_us = clock.microseconds()
        pipeline.start()
        stats = wait_for(pipeline.stats, "the drain", until=lambda stats: stats.delivered_records == 200)
        assert pipeline.stop(PATIENCE_MS)
        assert [each["push_id"] for each in hook.pushes] == [f"{number:032x}" for number in range(200)]
        # The first window may be filled at once; after it, no more than the rate.
        assert stats.last_delivered_at is not None
        assert stats.last_delivered_at - began_us > 1_500_000
