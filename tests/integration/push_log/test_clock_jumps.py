"""A node whose wall clock is set while it runs: nothing undelivered is dropped, and what waits has an age."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from support.clients.raw_client import RawClient
from support.fleet.landing import landed
from support.payloads.payloads import metrics_data
from support.programs.node import Node

pytestmark = pytest.mark.integration

SHIFTED = Path(__file__).parents[2] / "support" / "shifted_clock"
DAY_MS = 24 * 3_600_000
CONFIG = """
[client-metrics.all]
metrics = "*"
interval.ms = 100
[exporters.landing]
type = "landing"
path = "{path}"
linger.ms = 500
"""


def exporter(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = status["exporter_process"]["exporters"]["landing"]
    return found


def push(node: Node, count: int, points: int = 3) -> None:
    with RawClient(node.port) as client:
        for _ in range(count):
            assert client.push(client.get(uuid.uuid4()), metrics_data(points)).error_code == 0


def test_setting_the_wall_clock_drops_no_push_and_hides_no_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight days ahead, beyond the retention of seven; eight days back; and right again."""
    offset, away = tmp_path / "offset", tmp_path / "away"
    monkeypatch.setenv("PYTHONPATH", str(SHIFTED))
    monkeypatch.setenv("SHIFTED_CLOCK", str(offset))

    def set_clock(days: int) -> None:
        new = offset.with_suffix(".new")
        new.write_text(str(days * DAY_MS * 1_000_000))
        new.replace(offset)

    set_clock(0)
    away.touch()  # a file where the landing zone's folder is to be
    bounds = ("push.log.segment.ms=1000", "push.log.segment.bytes=1048576")
    with Node(tmp_path, *bounds, config=CONFIG.format(path=away / "zone")) as node:
        node.wait_for(lambda s: exporter(s)["lag_records"] == 0, what="a log that was seen without a backlog")
        push(node, 20, points=2_000)  # 180 kB each: some segments
        waiting = node.wait_for(
            lambda s: exporter(s)["lag_records"] == 20 and s["push_log"]["segments"] >= 3,
            what="a backlog of several segments",
        )
        set_clock(8)
        known_for_ms = exporter(waiting)["lag_ms"]
        ahead = node.wait_for(lambda s: exporter(s)["lag_ms"] > known_for_ms + 1_500, what="a backlog that ages")
        assert exporter(ahead)["lag_ms"] < DAY_MS
        killed = node.kill_exporter()
        node.wait_for(
            lambda s: s["exporter_process"]["pid"] not in (None, killed) and exporter(s)["state"] != "starting",
            what="the first status of another exporter process, before its first upkeep",
        )
        push(node, 5)
        node.wait_for(lambda s: exporter(s)["lag_records"] == 25, what="a status after the upkeep, of all pushes")
        set_clock(-8)
        push(node, 5)
        back = node.wait_for(lambda s: exporter(s)["lag_records"] == 30, what="a backlog of all pushes")
        node.wait_for(lambda s: exporter(s)["lag_ms"] > 1_000, what="an age of the backlog")
        set_clock(0)
        away.unlink()
        done = node.wait_for(lambda s: exporter(s)["lag_records"] == 0, what="no backlog")
        assert exporter(done)["lost_records"] == exporter(back)["lost_records"] == 0
        assert node.stop() == 0, node.output()
    assert len({row["push_id"] for row in landed(away / "zone")}) == 30
