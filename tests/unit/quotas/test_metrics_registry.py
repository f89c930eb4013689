import logging
from collections.abc import Sequence

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import Avg, CumulativeSum, Max, Rate, Value
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics


class Reporter:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def init(self, metrics: Sequence[KafkaMetric]) -> None:
        self.seen.extend(f"init {metric.metric_name.name}" for metric in metrics)

    def metric_change(self, metric: KafkaMetric) -> None:
        self.seen.append(f"add {metric.metric_name.name}")

    def metric_removal(self, metric: KafkaMetric) -> None:
        self.seen.append(f"remove {metric.metric_name.name}")

    def close(self) -> None:
        self.seen.append("close")


class FailingReporter(Reporter):
    def metric_change(self, metric: KafkaMetric) -> None:
        raise RuntimeError("no")

    metric_removal = metric_change


def names(metrics: Metrics) -> set[str]:
    return {name.name for name in metrics.metrics()} - {"count"}


def test_names_are_equal_by_name_group_and_tags() -> None:
    name = MetricName("rate", "Produce", "a description", {"user": "alice", "client-id": "a"})
    assert name == MetricName("rate", "Produce", "another", {"client-id": "a", "user": "alice"})
    assert hash(name) == hash(MetricName("rate", "Produce", "another", {"client-id": "a", "user": "alice"}))
    assert name != MetricName("rate", "Produce", "a description", {"user": "bob", "client-id": "a"})
    assert name != MetricName("rate", "Fetch", "a description", dict(name.tags))
    assert name != "rate"


def test_a_name_does_not_change_with_the_tags_that_it_was_made_from() -> None:
    tags = {"user": "alice"}
    name = MetricName("rate", "Produce", "", tags)
    tags["user"] = "bob"
    assert name.tags == {"user": "alice"}
    with pytest.raises(TypeError):
        name.tags["user"] = "bob"  # type: ignore[index]


def test_the_registrys_tags_are_on_every_name_and_the_names_own_win() -> None:
    metrics = Metrics(MetricConfig(tags={"node": "1", "zone": "a"}), MockTime())
    assert metrics.metric_name("m", "g", tags={"zone": "b"}).tags == {"node": "1", "zone": "b"}


def test_a_sensor_is_made_once() -> None:
    metrics = Metrics(time=MockTime())
    sensor = metrics.sensor("s")
    assert metrics.sensor("s", MetricConfig(samples=5)) is sensor
    assert metrics.get_sensor("s") is sensor
    assert metrics.get_sensor("t") is None


def test_the_registry_counts_its_metrics() -> None:
    metrics = Metrics(time=MockTime())
    count = metrics.metric(MetricName("count", "kafka-metrics-count"))
    assert count is not None
    assert count.metric_value() == 1.0
    metrics.sensor("s").add(metrics.metric_name("m", "g"), Avg())
    assert count.metric_value() == 2.0


def test_a_gauge_is_read_when_it_is_asked() -> None:
    clock = MockTime()
    metrics = Metrics(time=clock)
    connections = [1, 2]
    gauge = metrics.add_metric(metrics.metric_name("connections", "g"), lambda config, now_ms: len(connections))
    asked_at = metrics.add_metric(metrics.metric_name("asked-at", "g"), lambda config, now_ms: now_ms)
    connections.append(3)
    assert gauge.metric_value() == 3
    assert asked_at.metric_value() == clock.hi_res_clock_ms()
    assert asked_at.metric_value(17) == 17
    with pytest.raises(TypeError, match="is a gauge"):
        gauge.measurable_value(0)


def test_a_measurable_without_a_sensor_is_a_metric_too() -> None:
    metrics = Metrics(time=MockTime())
    level = Value()
    metric = metrics.add_metric(metrics.metric_name("level", "g"), level)
    level.record(metric.config, 4.0, 0)
    assert metric.metric_value() == metric.measurable_value(0) == 4.0


def test_a_metric_whose_name_is_taken_is_refused_or_left() -> None:
    metrics = Metrics(time=MockTime())
    name = metrics.metric_name("m", "g")
    first = metrics.add_metric(name, lambda config, now_ms: 1)
    with pytest.raises(ValueError, match="already exists"):
        metrics.add_metric(name, lambda config, now_ms: 2)
    assert metrics.add_metric_if_absent(name, lambda config, now_ms: 3) is first
    assert metrics.metric(name) is first
    other = metrics.add_metric_if_absent(metrics.metric_name("n", "g"), lambda config, now_ms: 4)
    assert other.metric_value() == 4


def test_a_removed_metric_frees_its_name() -> None:
    metrics = Metrics(time=MockTime())
    name = metrics.metric_name("m", "g")
    metric = metrics.add_metric(name, Value())
    assert metrics.remove_metric(name) is metric
    assert metrics.remove_metric(name) is None
    metrics.add_metric(name, Value())


def test_removing_a_sensor_removes_its_metrics_and_its_children() -> None:
    metrics = Metrics(time=MockTime())
    parent = metrics.sensor("parent")
    child = metrics.sensor("child", parents=[parent])
    other = metrics.sensor("other")
    for sensor in (parent, child, other):
        sensor.add(metrics.metric_name(sensor.name, "g"), CumulativeSum())
    metrics.remove_sensor("parent")
    assert names(metrics) == {"other"}
    assert [metrics.get_sensor(name) for name in ("parent", "child", "other")] == [None, None, other]
    metrics.remove_sensor("parent")


def test_a_parent_forgets_a_child_that_was_removed() -> None:
    metrics = Metrics(time=MockTime())
    parent = metrics.sensor("parent")
    metrics.sensor("child", parents=[parent])
    metrics.remove_sensor("child")
    again = metrics.sensor("child")
    metrics.remove_sensor("parent")
    assert metrics.get_sensor("child") is again, "the new sensor of that name is no child of the parent"


def test_only_expired_sensors_are_removed_and_counted() -> None:
    clock = MockTime()
    metrics = Metrics(time=clock)
    for name, seconds in (("minute", 60), ("hour", 3_600)):
        metrics.sensor(name, None, seconds).add(metrics.metric_name(name, "g"), Rate())
    metrics.sensor("forever").add(metrics.metric_name("forever", "g"), Max())
    start_ms = clock.hi_res_clock_ms()
    assert metrics.remove_expired_sensors(start_ms + 60_000) == 0
    assert metrics.remove_expired_sensors(start_ms + 60_001) == 1
    assert names(metrics) == {"hour", "forever"}
    assert metrics.remove_expired_sensors(start_ms + 10**12) == 1
    assert names(metrics) == {"forever"}


def test_a_sensor_that_returns_after_its_expiry_starts_anew() -> None:
    clock = MockTime()
    metrics = Metrics(time=clock)
    name = metrics.metric_name("total", "g")
    metrics.sensor("s", None, 60).add(name, CumulativeSum())
    metrics.sensor("s").record(5.0)
    clock.sleep(60_001)
    metrics.remove_expired_sensors(clock.hi_res_clock_ms())
    again = metrics.sensor("s", None, 60)
    assert again.add(name, CumulativeSum())
    again.record(2.0)
    assert again.metrics[0].metric_value() == 2.0


def test_a_reporter_hears_of_what_is_there_what_comes_and_what_goes() -> None:
    reporter, late = Reporter(), Reporter()
    metrics = Metrics(time=MockTime(), reporters=[reporter])
    metrics.sensor("s").add(metrics.metric_name("m", "g"), Avg())
    metrics.add_reporter(late)
    metrics.remove_sensor("s")
    metrics.remove_reporter(late)
    metrics.remove_reporter(late)
    metrics.close()
    assert reporter.seen == ["add count", "add m", "remove m", "close"]
    assert late.seen == ["init count", "init m", "remove m", "close"]


def test_a_reporter_that_fails_costs_neither_the_metric_nor_the_next_reporter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reporter = Reporter()
    with caplog.at_level(logging.ERROR):
        metrics = Metrics(time=MockTime(), reporters=[FailingReporter(), reporter])
        metrics.add_metric(metrics.metric_name("m", "g"), Value())
    assert reporter.seen == ["add count", "add m"]
    assert "a metrics reporter failed on MetricName [name=m" in caplog.text
