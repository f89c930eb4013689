import sys
import threading
from collections.abc import Iterator

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import Avg, CumulativeCount, CumulativeSum, Max, Meter, Rate, TokenBucket, WindowedSum
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor

UPPER_TEN = MetricConfig(samples=2, time_window_ms=1_000, quota=Quota.upper_bound(10))


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def metrics(clock: MockTime) -> Metrics:
    return Metrics(time=clock)


def value_of(metrics: Metrics, name: str) -> object:
    metric = metrics.metric(metrics.metric_name(name, "g"))
    assert metric is not None
    return metric.metric_value()


def test_a_record_reaches_every_statistic_of_the_sensor(metrics: Metrics) -> None:
    sensor = metrics.sensor("s")
    sensor.add(metrics.metric_name("avg", "g"), Avg())
    sensor.add(metrics.metric_name("max", "g"), Max())
    sensor.add(Meter(metrics.metric_name("rate", "g"), metrics.metric_name("total", "g")))
    sensor.record(3.0)
    sensor.record()
    assert [value_of(metrics, name) for name in ("avg", "max", "total")] == [2.0, 3.0, 4.0]
    assert value_of(metrics, "rate") == pytest.approx(4 / 30)


def test_a_record_without_a_time_uses_the_monotonic_clock(metrics: Metrics, clock: MockTime) -> None:
    sensor = metrics.sensor("s", MetricConfig(samples=2, time_window_ms=1_000))
    sensor.add(metrics.metric_name("sum", "g"), WindowedSum())
    sensor.record(1.0)
    clock.jump_wall_clock(3_600_000)
    sensor.record(2.0)
    assert value_of(metrics, "sum") == 3.0, "an operator's change of the wall clock loses nothing"
    clock.sleep(2_000)
    assert value_of(metrics, "sum") == 0.0


def test_a_violation_says_what_was_measured_against_what(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    name = metrics.metric_name("byte-rate", "Produce", "bytes", {"user": "alice"})
    sensor.add(name, Rate())
    with pytest.raises(QuotaViolationError) as caught:
        sensor.record(12.5)
    error = caught.value
    assert (error.metric.metric_name, error.value, error.bound) == (name, 12.5, 10.0)
    assert str(error) == (
        "'MetricName [name=byte-rate, group=Produce, description=bytes, tags={user=alice}]' violated quota. "
        "Actual: 12.500000, Threshold: 10.000000"
    )


def test_a_value_that_violates_stays_recorded_and_can_be_taken_back(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("rate", "g"), Rate())
    sensor.record(8.0)
    with pytest.raises(QuotaViolationError):
        sensor.record(8.0)
    assert value_of(metrics, "rate") == 16.0
    sensor.record(-8.0, check_quotas=False)
    assert value_of(metrics, "rate") == 8.0
    sensor.check_quotas()


def test_recording_without_a_check_never_violates(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("rate", "g"), Rate())
    sensor.record(1_000.0, check_quotas=False)
    with pytest.raises(QuotaViolationError):
        sensor.check_quotas()


def test_a_lower_bound_is_violated_from_below(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", MetricConfig(quota=Quota.lower_bound(2)))
    sensor.add(metrics.metric_name("sum", "g"), CumulativeSum())
    with pytest.raises(QuotaViolationError):
        sensor.record(1.0)
    sensor.record(1.0)


def test_parents_take_every_value_of_their_children(metrics: Metrics) -> None:
    grandparent = metrics.sensor("grandparent")
    parent = metrics.sensor("parent", parents=[grandparent])
    children = [metrics.sensor(f"child{number}", parents=[parent]) for number in range(2)]
    for sensor in (grandparent, parent, *children):
        sensor.add(metrics.metric_name(sensor.name, "g"), CumulativeSum())
    children[0].record(1.0)
    children[1].record(2.0)
    parent.record(4.0)
    assert {name: value_of(metrics, name) for name in ("child0", "child1", "parent", "grandparent")} == {
        "child0": 1.0,
        "child1": 2.0,
        "parent": 7.0,
        "grandparent": 7.0,
    }


def family(metrics: Metrics, child_bound: float, parent_bound: float) -> Sensor:
    limits = {"parent": parent_bound, "child": child_bound}
    made: dict[str, Sensor] = {}
    for name, bound in limits.items():
        config = UPPER_TEN.with_quota(Quota.upper_bound(bound))
        made[name] = metrics.sensor(name, config, parents=list(made.values()))
        made[name].add(metrics.metric_name(name, "g"), Rate())
    return made["child"]


def test_a_parents_quota_is_checked_with_the_childs_record(metrics: Metrics) -> None:
    child = family(metrics, child_bound=100, parent_bound=10)
    with pytest.raises(QuotaViolationError) as caught:
        child.record(11.0)
    assert caught.value.metric.metric_name.name == "parent"
    child.record(1_000.0, check_quotas=False)
    child.record(-1_001.0, check_quotas=True)


def test_a_sensors_own_violation_comes_before_its_parents(metrics: Metrics) -> None:
    child = family(metrics, child_bound=10, parent_bound=10)
    with pytest.raises(QuotaViolationError) as caught:
        child.record(11.0)
    assert caught.value.metric.metric_name.name == "child"


def test_a_value_over_the_childs_quota_does_not_reach_the_parent(metrics: Metrics) -> None:
    child = family(metrics, child_bound=10, parent_bound=1_000)
    with pytest.raises(QuotaViolationError):
        child.record(11.0)
    assert (value_of(metrics, "child"), value_of(metrics, "parent")) == (11.0, 0.0)
    child.record(-2.0)
    assert (value_of(metrics, "child"), value_of(metrics, "parent")) == (9.0, -2.0)


def test_checking_looks_at_the_sensors_own_quotas_alone(metrics: Metrics) -> None:
    child = family(metrics, child_bound=100, parent_bound=10)
    child.record(11.0, check_quotas=False)
    child.check_quotas()


def test_parents_that_share_an_ancestor_are_refused_and_leave_no_sensor(metrics: Metrics) -> None:
    top = metrics.sensor("top")
    first, second = metrics.sensor("first", parents=[top]), metrics.sensor("second", parents=[top])
    with pytest.raises(ValueError, match="Circular dependency in sensors: top is its own parent"):
        metrics.sensor("bottom", parents=[first, second])
    with pytest.raises(ValueError, match="Circular dependency"):
        metrics.sensor("twice", parents=[top, top])
    assert metrics.get_sensor("bottom") is None
    assert metrics.get_sensor("twice") is None


def test_changing_the_limit_keeps_the_usage(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("rate", "g"), Rate())
    sensor.record(9.0)
    metric = sensor.metrics[0]
    metric.config = UPPER_TEN.with_quota(Quota.upper_bound(5))
    assert metric.measurable_value() == 9.0
    with pytest.raises(QuotaViolationError):
        sensor.check_quotas()
    metric.config = UPPER_TEN.with_quota(None)
    sensor.record(1_000.0)


def test_adding_a_name_twice_keeps_the_first_statistic(metrics: Metrics) -> None:
    sensor = metrics.sensor("s")
    name = metrics.metric_name("count", "g")
    assert sensor.add(name, CumulativeCount())
    sensor.record()
    assert sensor.add(name, CumulativeSum())
    sensor.record(5.0)
    assert value_of(metrics, "count") == 2.0


def test_a_name_that_another_sensor_has_is_refused(metrics: Metrics) -> None:
    name = metrics.metric_name("count", "g")
    metrics.sensor("first").add(name, CumulativeCount())
    second = metrics.sensor("second")
    with pytest.raises(ValueError, match="already exists, can't register another one"):
        second.add(name, CumulativeCount())
    second.record()
    assert not second.has_metrics
    assert value_of(metrics, "count") == 0.0


def test_a_compound_statistic_of_which_one_name_is_taken_is_not_added_at_all(metrics: Metrics) -> None:
    rate, total = metrics.metric_name("rate", "g"), metrics.metric_name("total", "g")
    metrics.sensor("first").add(rate, Rate())
    second = metrics.sensor("second")
    second.add(metrics.metric_name("other", "g"), CumulativeCount())
    with pytest.raises(ValueError, match="already exists"):
        second.add(Meter(rate, total))
    assert metrics.metric(total) is None
    assert [metric.metric_name.name for metric in second.metrics] == ["other"]
    assert second.add(Meter(metrics.metric_name("rate2", "g"), total))


def test_a_name_without_a_statistic_is_refused(metrics: Metrics) -> None:
    with pytest.raises(TypeError, match="needs a statistic"):
        metrics.sensor("s").add(metrics.metric_name("m", "g"))  # type: ignore[call-overload]


def test_a_metrics_own_config_comes_before_the_sensors(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("free", "g"), Rate(), MetricConfig())
    sensor.record(1_000.0)
    assert metrics.sensor("t").metrics == ()


def test_a_sensor_expires_after_more_than_its_time_without_a_record(metrics: Metrics, clock: MockTime) -> None:
    sensor = metrics.sensor("s", inactive_sensor_expiration_time_seconds=60)
    now_ms = clock.hi_res_clock_ms()
    assert not sensor.has_expired(now_ms + 60_000)
    assert sensor.has_expired(now_ms + 60_001)
    sensor.record(1.0, now_ms + 60_001)
    assert not sensor.has_expired(now_ms + 120_001)


def test_an_expired_sensor_takes_no_more_statistics(metrics: Metrics, clock: MockTime) -> None:
    sensor = metrics.sensor("s", inactive_sensor_expiration_time_seconds=60)
    clock.sleep(60_001)
    assert not sensor.add(metrics.metric_name("m", "g"), Avg())
    assert not sensor.add(Meter(metrics.metric_name("rate", "g"), metrics.metric_name("total", "g")))
    assert not sensor.has_metrics


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Makes the interpreter change threads after almost every instruction that may be interrupted."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class _InterruptedSum:
    """Lets other threads run between reading and writing, as a window that opens would."""

    def __init__(self) -> None:
        self._total = 0.0

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        before = self._total
        threading.Event().wait(0)
        self._total = before + value

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        return self._total


@pytest.mark.usefixtures("impatient_threads")
def test_no_record_of_many_threads_is_lost(metrics: Metrics) -> None:
    total = metrics.sensor("total")
    total.add(metrics.metric_name("total", "g"), _InterruptedSum())
    sensors = [metrics.sensor(f"s{number}", parents=[total]) for number in range(2)]
    for sensor in sensors:
        sensor.add(metrics.metric_name(sensor.name, "g"), _InterruptedSum())

    def record(sensor: Sensor) -> None:
        for _ in range(300):
            sensor.record(1.0, 0)

    threads = [threading.Thread(target=record, args=(sensors[number % 2],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [value_of(metrics, name) for name in ("s0", "s1", "total")] == [600.0, 600.0, 1_200.0]


def test_a_record_and_its_check_are_one_step(metrics: Metrics) -> None:
    """While one thread is between its record and its check, another thread's record waits."""
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("rate", "g"), Rate())
    other = threading.Thread(target=sensor.record, args=(6.0,), kwargs={"check_quotas": False})
    with sensor.lock:
        sensor.check_quotas()
        other.start()
        other.join(0.05)
        assert other.is_alive()
        sensor.record(6.0)
    other.join()
    with pytest.raises(QuotaViolationError):
        sensor.check_quotas()


@pytest.mark.replaces
def test_a_statistic_of_ones_own_is_recorded_and_checked_by_its_own_rules(metrics: Metrics) -> None:
    class Doubled(WindowedSum):
        def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
            super().record(config, 2 * value, time_ms)

    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("sum", "g"), Doubled())
    sensor.record(5.0)
    assert value_of(metrics, "sum") == 10.0
    with pytest.raises(QuotaViolationError):
        sensor.record(1.0)


def test_checking_before_recording_takes_nothing_from_an_exhausted_bucket(metrics: Metrics) -> None:
    sensor = metrics.sensor("s", UPPER_TEN)
    sensor.add(metrics.metric_name("tokens", "g"), TokenBucket())
    sensor.check_and_record(21, 5_000)
    with pytest.raises(QuotaViolationError):
        sensor.check_and_record(1, 5_000)
    assert value_of(metrics, "tokens") == -1


def test_a_gauge_of_a_sensor_goes_with_it_and_is_never_checked(metrics: Metrics, clock: MockTime) -> None:
    sensor = metrics.sensor("s", UPPER_TEN, inactive_sensor_expiration_time_seconds=1)
    name = metrics.metric_name("gauge", "g")
    assert sensor.add_gauge(name, lambda config, now_ms: 1e9)
    assert sensor.add_gauge(name, lambda config, now_ms: 5.0), "it is there already"
    sensor.record(5.0)
    assert value_of(metrics, "gauge") == 1e9
    clock.sleep(1_001)
    assert not sensor.add_gauge(metrics.metric_name("late", "g"), lambda config, now_ms: 1.0)
    metrics.remove_expired_sensors(clock.hi_res_clock_ms())
    assert metrics.metric(name) is None
