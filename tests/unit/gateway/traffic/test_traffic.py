"""Counts of traffic: bounded in clients and groups, as status, and as rows of Parquet files."""

import asyncio
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import SystemTime
from fleetgauge.exporters.traffic.schema import TRAFFIC_SCHEMA, record_batch
from fleetgauge.gateway.requests.layout import request_layout
from fleetgauge.gateway.requests.walk import Walk
from fleetgauge.gateway.traffic.counts import OTHER_CLIENTS, TrafficCounts
from fleetgauge.gateway.traffic.rows import rows_of
from fleetgauge.gateway.traffic.rules import TrafficRules
from fleetgauge.gateway.traffic.status import MAX_SHOWN, traffic_status
from fleetgauge.node.processes.traffic_writer import TrafficWriter
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metrics import Metrics

HOSTILE = ["</script>", "\x1b[2J", "a\nb", "\x1f", "\u202ertl", "x" * 10_000, ""]


def test_clients_beyond_the_bound_are_counted_together() -> None:
    counts = TrafficCounts(max_clients=3)
    for number in range(100_000):
        counts.of("alice", f"client-{number}", 0).requests += 1
    minute = counts.roll()
    assert {key.client_id for key in minute} == {"client-0", "client-1", "client-2", OTHER_CLIENTS}
    assert sum(each.requests for each in minute.values()) == 100_000
    assert counts.others == 99_997


def test_names_that_no_topic_can_have_are_not_kept_with_a_request() -> None:
    layout = request_layout(0, 8)
    assert layout is not None
    walk = Walk(layout.from_header)
    names = [b"orders", *(b"%032000d" % number for number in range(99))]
    topics = b"".join(struct.pack(">h", len(name)) + name + bytes(4) for name in names)
    walk.feed(struct.pack(">hhii", -1, 1, 1_000, len(names)) + topics)
    assert walk.is_done
    assert set(walk.topics) == {"orders"}


def test_groups_beyond_the_bound_have_no_name() -> None:
    counts = TrafficCounts(max_groups=2)
    for group in ("a", "b", "c", "a"):
        counts.of("alice", "app", 8, group).requests += 1
    assert sorted((key.group_id, each.requests) for key, each in counts.roll().items()) == [("", 1), ("a", 2), ("b", 1)]


@pytest.fixture
def rules() -> TrafficRules:
    time = SystemTime()
    managers = QuotaManagers.instantiate(QuotaConfig(), Metrics(time=time), time)
    return TrafficRules(managers, Identities())


def test_a_status_lists_the_clients_with_most_bytes_and_sums_all(rules: TrafficRules) -> None:
    for number in range(300):
        counts = rules.counts.of("alice", f"client-{number}", 0)
        counts.requests, counts.request_bytes = 1, number
        counts.add_errors({6: 2})
    rules.counts.roll()
    status = traffic_status(rules)
    assert len(status["by_client"]) == MAX_SHOWN
    assert status["left_out"] == 200
    assert min(each["request_bytes"] for each in status["by_client"].values()) == 200
    assert status["by_api"]["Produce"]["requests"] == 300
    assert status["by_api"]["Produce"]["errors"] == {"NOT_LEADER_OR_FOLLOWER": 600}


def test_rows_of_hostile_clients_are_written_and_read_back(rules: TrafficRules, tmp_path: Path) -> None:
    for name in HOSTILE:
        counts = rules.counts.of("alice", name, 0)
        counts.requests, counts.compressions[4] = 2, 7
        counts.add_errors({-1: 1, 6: 3})
    rules.counts.of("alice", "member", 11, "billing").joins = 1

    async def write() -> TrafficWriter:
        writer = TrafficWriter(
            rules, path=str(tmp_path), writer="w", interval_ms=60_000, cluster_id="c", node_id=1, time=SystemTime()
        )
        writer.start()
        await writer.stop(within_s=PATIENCE_S)
        return writer

    writer = asyncio.run(write())
    assert writer.status() == {"path": str(tmp_path), "rows": len(HOSTILE) + 1, "files": 1, "lost_rows": 0}
    (file,) = (tmp_path / "traffic").rglob("*.parquet")
    table = pq.ParquetFile(file).read()
    assert table.schema.equals(TRAFFIC_SCHEMA)
    rows = {row["client_id"]: row for row in table.to_pylist()}
    assert set(rows) == {name[:256] for name in HOSTILE} | {"member"}
    assert rows["</script>"]["compressions"] == [("zstd", 7)]
    assert rows["</script>"]["errors"] == [(-1, 1), (6, 3)]
    assert (rows["member"]["group_id"], rows["member"]["group_joins"], rows["member"]["api"]) == (
        "billing",
        1,
        "JoinGroup",
    )
    assert rows["</script>"]["group_id"] is None


def test_a_storage_that_cannot_be_written_costs_nothing_else(rules: TrafficRules, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")

    async def write() -> TrafficWriter:
        writer = TrafficWriter(
            rules, path=str(tmp_path / "file"), writer="w", interval_ms=1, cluster_id="c", node_id=1, time=SystemTime()
        )
        rules.counts.of("alice", "app", 0).requests = 1
        writer.start()
        await wait_for_async(lambda: logs, "a failed write")
        await writer.stop(within_s=PATIENCE_S)
        return writer

    with capture_logs() as logs:
        assert asyncio.run(write()).status()["files"] == 0
    assert {entry["event"] for entry in logs} == {"traffic.not_written"}


def test_an_interval_without_traffic_has_no_rows() -> None:
    assert rows_of({}, window_start_us=0, window_ms=1, cluster_id="c", node_id=1) == []
    assert record_batch([]).num_rows == 0
