"""The node's own metrics as readings: every sample of `/metrics` is one, whatever its family."""

from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from fleetgauge.node.status.own_metrics import own_metrics


def test_a_histogram_is_told_as_its_buckets_its_count_and_its_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    took = HistogramMetricFamily("took_seconds", "How long.", labels=["exporter"])
    took.add_metric(["a"], [("0.1", 2.0), ("+Inf", 3.0)], sum_value=0.7)
    families = [CounterMetricFamily("done", "So far.", value=5), GaugeMetricFamily("lag", "Now.", value=1), took]
    monkeypatch.setattr("fleetgauge.node.status.own_metrics.read_status", lambda _: {})
    monkeypatch.setattr("fleetgauge.node.status.exposition.families", lambda *_: families)
    told = {reading.name: reading for reading in own_metrics(Path("status"))()}
    assert {name: reading.is_counter for name, reading in told.items()} == {
        "done": True,
        "lag": False,
        "took_seconds_bucket": True,
        "took_seconds_count": True,
        "took_seconds_sum": True,
    }
    assert told["took_seconds_bucket"].samples == (
        ({"exporter": "a", "le": "0.1"}, 2.0),
        ({"exporter": "a", "le": "+Inf"}, 3.0),
    )
    assert told["took_seconds_sum"].samples == (({"exporter": "a"}, 0.7),)
