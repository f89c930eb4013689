import re

from fleetgauge.telemetry.catalogue.java_metrics import JAVA_METRICS
from fleetgauge.telemetry.catalogue.meanings import _QUANTITIES, meaning_of, split, unit_of
from fleetgauge.telemetry.catalogue.standard_metrics import known_metrics


def test_every_metric_but_streams_own_has_a_unit_and_a_meaning() -> None:
    without = {
        (metric.kafka_group, metric.kafka_name)
        for metric in known_metrics()
        if None in (metric.unit, metric.quantity, metric.meaning)
    }
    assert {group for group, _ in without if not group.startswith("stream-")} == set()
    assert all(metric.unit for metric in known_metrics() if metric.is_standard)


def test_every_quantity_is_one_that_some_client_measures() -> None:
    measured = {split(name)[0] for metrics in JAVA_METRICS for name in metrics.names.split()}
    assert set(_QUANTITIES) - measured == set()


def test_units_follow_from_kafkas_names() -> None:
    units = {
        "connection-creation-rate": "1/s",
        "rebalance-rate-per-hour": "1/h",
        "incoming-byte-rate": "B/s",
        "bytes-consumed-total": "B",
        "compression-rate-avg": "1",
        "io-wait-time-ns-avg": "ns",
        "bufferpool-wait-time-ns-total": "ns",
        "produce-throttle-time-max": "ms",
        "rebalance-latency-total": "ms",
        "last-poll-seconds-ago": "s",
        "poll-idle-ratio-avg": "1",
        "records-lag-max": "records",
        "assigned-partitions": "1",
    }
    assert {name: unit_of("some-metrics", name) for name in units} == units


def test_a_time_is_in_a_unit_of_time_and_a_rate_is_per_something() -> None:
    for metric in known_metrics():
        if metric.unit is None:
            continue
        if re.search(r"-(latency|throttle-time|queue-time)-", metric.kafka_name):
            assert metric.unit == "ms", metric.kafka_name
        if metric.kafka_name.endswith("-rate") and metric.kafka_name != "compression-rate":
            assert metric.unit.endswith("/s"), metric.kafka_name


def test_streams_own_metrics_are_said_to_be_unknown() -> None:
    assert (unit_of("stream-task-metrics", "process-rate"), meaning_of("stream-task-metrics", "process-rate")) == (
        None,
        None,
    )
