import math
import threading
from typing import Any

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import Sensor
from fleetgauge.quotas.replication import (
    ALL_REPLICAS,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    ReplicationQuotaManager,
    ReplicationQuotaManagerConfig,
    parse_throttled_replicas,
)

LEADER = LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(clock: MockTime) -> Metrics:
    return Metrics(time=clock)


@pytest.fixture
def manager(metrics: Metrics, clock: MockTime) -> ReplicationQuotaManager:
    config = ReplicationQuotaManagerConfig(num_quota_samples=10, quota_window_size_seconds=1)
    return ReplicationQuotaManager(config, metrics, "FollowerReplication", clock)


def value_of(metrics: Metrics, name: str) -> object:
    metric = metrics.metric(metrics.metric_name(name, "FollowerReplication"))
    assert metric is not None
    return metric.metric_value()


def byte_rate(metrics: Metrics) -> object:
    return value_of(metrics, "byte-rate")


@pytest.mark.parametrize(("bound", "shown"), [(-1, "-1"), (-0.5, "-0.5"), (-math.inf, "-inf")])
def test_a_negative_throttle_is_refused_in_kafkas_words_and_zero_is_taken(
    manager: ReplicationQuotaManager, bound: float, shown: str
) -> None:
    manager.update_quota(Quota.upper_bound(0))
    key = "follower.replication.throttled.rate"
    with pytest.raises(InvalidConfigError, match=f"^Invalid value {shown} for configuration {key}: Value must be"):
        manager.update_quota(Quota.upper_bound(bound))
    with pytest.raises(TypeError, match="Quota"):
        manager.update_quota(1_000)  # type: ignore[arg-type]
    assert manager.upper_bound == 0


def test_only_the_partitions_that_are_marked_are_throttled(manager: ReplicationQuotaManager) -> None:
    manager.mark_throttled("orders", [1, 2])
    assert [manager.is_throttled("orders", partition) for partition in range(4)] == [False, True, True, False]
    assert not manager.is_throttled("invoices", 1)
    manager.mark_throttled("orders", [3])
    assert [manager.is_throttled("orders", partition) for partition in range(4)] == [False, False, False, True]
    manager.remove_throttle("orders")
    manager.remove_throttle("orders")
    assert not manager.is_throttled("orders", 3)


def test_a_topic_marked_as_a_whole_has_every_partition_throttled(manager: ReplicationQuotaManager) -> None:
    manager.mark_throttled("orders")
    assert manager.is_throttled("orders", 0)
    assert manager.is_throttled("orders", 2**31 - 1)


def test_the_quota_is_exceeded_by_the_rate_over_the_windows_and_kept_again_when_they_pass(
    manager: ReplicationQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    """Kafka's own numbers: 100 bytes/s, a record a second."""
    manager.update_quota(Quota.upper_bound(100))
    manager.record(100)
    assert not manager.is_quota_exceeded(), "100 in the first second is the bound itself"
    clock.sleep(1_000)
    manager.record(101)
    assert byte_rate(metrics) == 201, "201 bytes in the second that went by"
    assert value_of(metrics, "quota-utilization") == pytest.approx(201)
    assert manager.is_quota_exceeded()
    clock.sleep(1_000)
    assert byte_rate(metrics) == pytest.approx(201 / 2)
    assert manager.is_quota_exceeded()
    clock.sleep(1_000)
    assert byte_rate(metrics) == pytest.approx(201 / 3)
    assert not manager.is_quota_exceeded()


def test_without_a_quota_nothing_is_exceeded(manager: ReplicationQuotaManager) -> None:
    assert manager.upper_bound == UNBOUNDED
    manager.record(2**62)
    assert not manager.is_quota_exceeded()


def test_a_changed_quota_holds_for_what_was_recorded_before(manager: ReplicationQuotaManager, metrics: Metrics) -> None:
    manager.update_quota(Quota.upper_bound(1_000))
    manager.record(500)
    assert not manager.is_quota_exceeded()
    manager.update_quota(Quota.upper_bound(499))
    assert manager.upper_bound == 499
    assert manager.is_quota_exceeded()
    assert byte_rate(metrics) == 500
    manager.update_quota(None)
    assert not manager.is_quota_exceeded()


def test_an_unused_sensor_goes_after_an_hour_and_comes_back_with_the_quota(
    manager: ReplicationQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    manager.update_quota(Quota.upper_bound(10))
    manager.record(100)
    clock.sleep(3_600_000)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 0
    clock.sleep(1)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 1
    manager.record(100)
    assert manager.is_quota_exceeded()


def test_a_config_names_the_partitions_of_one_broker() -> None:
    value = "0:101,0:102,1:101,1:102, 7:102 "
    assert parse_throttled_replicas(LEADER, value, 102) == {0, 1, 7}
    assert parse_throttled_replicas(LEADER, value, 103) == frozenset()
    assert parse_throttled_replicas(LEADER, " * ", 103) is ALL_REPLICAS
    assert parse_throttled_replicas(LEADER, "", 103) == frozenset()
    assert parse_throttled_replicas(LEADER, "5:103,,", 103) == {5}


@pytest.mark.parametrize(
    "value",
    [
        *("5", "5:", ":5", "5:5:5", "5:5,,6:6", ",5:5", "*,*", "*,5:5", "5:5,*", "**"),
        *("-1:5", "5:2147483648", "\u0663:5", "a:b", "1" * 5_000 + ":5"),
    ],
)
def test_a_config_of_any_other_form_is_refused_and_changes_nothing(
    manager: ReplicationQuotaManager, value: str
) -> None:
    manager.mark_throttled("orders", [1])
    with pytest.raises(InvalidConfigError, match=r"must be the literal '\*' or a list of replicas"):
        manager.update_throttled_replicas("orders", FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG, value, 5)
    assert manager.is_throttled("orders", 1)


def test_a_topics_config_marks_replaces_and_removes(manager: ReplicationQuotaManager) -> None:
    manager.update_throttled_replicas("orders", LEADER, "0:1,1:1,2:9", 1)
    assert [manager.is_throttled("orders", partition) for partition in range(3)] == [True, True, False]
    manager.update_throttled_replicas("orders", LEADER, "*", 1)
    assert manager.is_throttled("orders", 2)
    manager.update_throttled_replicas("orders", LEADER, "", 1)
    assert not manager.is_throttled("orders", 0)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        ReplicationQuotaManagerConfig(num_quota_samples=0)


@pytest.mark.replaces
def test_two_first_records_at_once_make_one_sensor_with_its_metric(
    manager: ReplicationQuotaManager, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second thread comes while the first has made the sensor and not yet its metric: it must wait."""
    manager.update_quota(Quota.upper_bound(1))
    seen: list[bool] = []
    add = Sensor.add

    def exceed() -> None:
        manager.record(100)  # the first thread has perhaps not recorded its own yet
        seen.append(manager.is_quota_exceeded())

    def add_slowly(self: Sensor, *arguments: Any, **named: Any) -> bool:
        other = threading.Thread(target=exceed)
        if not seen:
            threads.append(other)
            other.start()
            other.join(0.2)  # without the lock it is done by now
        return bool(add(self, *arguments, **named))

    threads: list[threading.Thread] = []
    monkeypatch.setattr(Sensor, "add", add_slowly)
    manager.record(100)
    for thread in threads:
        thread.join()
    assert seen == [True], "the other saw a sensor without its quota"
