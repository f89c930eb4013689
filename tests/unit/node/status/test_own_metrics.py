"""The node's own metrics: every sample of `/metrics` is in one, whatever its family."""

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
    told = {metric.name: metric for metric in own_metrics(Path("status"))()}
    assert {name: metric.type for name, metric in told.items()} == {
        "done": "counter",
        "lag": "gauge",
        "took_seconds_bucket": "counter",
        "took_seconds_count": "counter",
        "took_seconds_sum": "counter",
    }
    assert [(each.labels, each.value) for each in told["took_seconds_bucket"].samples] == [
        ({"exporter": "a", "le": "0.1"}, 2.0),
        ({"exporter": "a", "le": "+Inf"}, 3.0),
    ]
    assert [(each.labels, each.value) for each in told["took_seconds_sum"].samples] == [({"exporter": "a"}, 0.7)]
