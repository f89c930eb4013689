"""`benchmarks/fleet/sweep.py`: what counts as a lasting change, and which verdicts name it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.fleet.sweep import changes, is_named
from fleetgauge.fleet.explain.over_time import OverTime, Series
from fleetgauge.fleet.explain.subjects import Subject

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLIENT = Subject(
    kind="client",
    name="orders",
    cluster_id="c",
    clients=pa.table({"client_instance_id": ["orders-1"], "client_id": ["orders"], "group_id": pa.nulls(1)}),
)


def shown(values: Sequence[float | None]) -> OverTime:
    """Latencies by windows of five minutes."""
    series = Series(
        name="request latency", metric="request_latency_avg_ms", unit="ms", values=list(values),
        peer_values=[None] * len(values), now=None, before=None, peers=None,
    )  # fmt: skip
    windows = [NOON + timedelta(minutes=5 * number) for number in range(len(values))]
    return OverTime(
        windows=windows, window_s=300, of="", sampled=1, peers_are="", series=[series], sent=[], trend=None
    )  # fmt: skip


def test_a_change_that_lasts_is_found_and_a_spike_or_a_noisy_figure_is_none() -> None:
    steady = np.random.default_rng(1).uniform(9.5, 10.5, 40).tolist()
    raised = steady[:20] + [3 * each for each in steady[20:]]
    found = list(changes(CLIENT, shown(raised)))
    assert {NOON + timedelta(minutes=100)} <= {each.at for each in found}
    assert max(each.ratio for each in found) > np.log(2.2)
    spike: list[float | None] = [*steady[:20], 90.0, None, *steady[22:]]
    assert list(changes(CLIENT, shown(spike))) == []
    noisy = np.random.default_rng(2).lognormal(3, 1, 40).tolist()
    assert list(changes(CLIENT, shown(noisy))) == []


def test_a_verdict_about_the_client_or_its_instances_names_a_change_at_its_time() -> None:
    (change, *_) = changes(CLIENT, shown([10.0] * 20 + [40.0] * 20))
    row: dict[str, Any] = {
        "subject": "orders", "client_id": "orders", "group_id": None, "node_id": None, "instances": ["orders-1"],
        "cluster_id": "c", "opened_at": change.at, "cleared_at": None, "last_seen_at": change.at,
    }  # fmt: skip
    other = {"subject": "3", "client_id": None, "node_id": 3}
    assert is_named(change, [row])
    assert is_named(change, [row | other])
    assert not is_named(change, [row | other | {"instances": ["audit-1"]}])
    assert not is_named(change, [row | {"opened_at": change.at + timedelta(hours=1)}])
    assert not is_named(change, [row | {"cluster_id": "d"}])
