import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import Avg, MeasurableStat, Rate, TokenBucket
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.stat import TimeUnit
from fleetgauge.quotas.metrics.throttle_time import (
    MAX_THROTTLE_TIME_MS,
    bounded_throttle_time,
    throttle_time,
    token_bucket_throttle_time,
)

MUTATIONS = MetricConfig(samples=100, time_window_ms=1_000, quota=Quota.upper_bound(5))
BYTES = MetricConfig(samples=11, time_window_ms=1_000, quota=Quota.upper_bound(100))


def sensor_of(stat: MeasurableStat, config: MetricConfig) -> Sensor:
    metrics = Metrics(time=MockTime())
    sensor = metrics.sensor("s", config)
    sensor.add(metrics.metric_name("m", "g"), stat)
    return sensor


def violation(sensor: Sensor, value: float, time_ms: int) -> QuotaViolationError:
    with pytest.raises(QuotaViolationError) as caught:
        sensor.record(value, time_ms)
    return caught.value


def test_560_mutations_against_a_burst_of_500_leave_minus_60_tokens_and_wait_12_seconds() -> None:
    sensor = sensor_of(TokenBucket(), MUTATIONS)
    error = violation(sensor, 560, 5_000)
    assert error.value == -60.0
    assert token_bucket_throttle_time(error) == 12_000
    sensor.check_quotas(17_000)
    with pytest.raises(QuotaViolationError):
        sensor.check_quotas(16_999)


def test_a_bucket_is_full_however_young_the_clock_is() -> None:
    for now_ms in (0, 1, -5_000, 10**12):
        assert TokenBucket().measure(MUTATIONS, now_ms) == 500.0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket()
    bucket.record(MUTATIONS, 1.0, 0)
    assert bucket.measure(MUTATIONS, 100) == 499.5
    assert bucket.measure(MUTATIONS, 3_600_000) == 500.0
    bucket.record(MUTATIONS, -50.0, 3_600_000)
    assert bucket.measure(MUTATIONS, 3_600_000) == 500.0, "what is given back does not overflow it either"
    bucket.record(MUTATIONS, -50.0, 3_600_000)
    raised = MUTATIONS.with_quota(Quota.upper_bound(10))
    assert bucket.measure(raised, 3_600_000) == 500.0, "nor is it kept for a higher limit"


def test_a_bucket_at_exactly_zero_is_not_exhausted() -> None:
    sensor = sensor_of(TokenBucket(), MUTATIONS)
    sensor.record(500, 0)
    assert violation(sensor, 1, 0).value == -1.0


def test_a_bucket_without_a_quota_neither_spends_nor_violates() -> None:
    sensor = sensor_of(TokenBucket(), MetricConfig())
    sensor.record(10**9, 0)
    assert sensor.metrics[0].measurable_value(0) == float(UNBOUNDED)


def test_another_limit_keeps_the_tokens_that_were_spent() -> None:
    sensor = sensor_of(TokenBucket(), MUTATIONS)
    violation(sensor, 560, 0)
    metric = sensor.metrics[0]
    metric.config = MUTATIONS.with_quota(Quota.upper_bound(10))
    assert metric.measurable_value(0) == -60.0
    assert metric.measurable_value(6_000) == 0.0, "the new limit refills it twice as fast"
    metric.config = MUTATIONS.with_quota(Quota.upper_bound(0))
    assert metric.measurable_value(9_000) == 0.0


def test_a_bucket_refills_per_its_unit() -> None:
    per_minute = MetricConfig(samples=10, time_window_ms=60_000, quota=Quota.upper_bound(6))
    error = violation(sensor_of(TokenBucket(TimeUnit.MINUTES), per_minute), 63, 0)
    assert error.value == -3.0
    assert token_bucket_throttle_time(error) == 30_000


def test_the_wait_dilutes_the_observed_rate_to_the_bound() -> None:
    sensor = sensor_of(Rate(), BYTES)
    error = violation(sensor, 1_500, 0)
    assert (error.value, error.bound) == (150.0, 100.0)
    assert throttle_time(error, 0) == 5_000  # (150 - 100) / 100 * 10 s
    assert 150.0 * 10_000 / (10_000 + 5_000) == 100.0


def test_the_wait_uses_the_window_of_the_moment() -> None:
    sensor = sensor_of(Rate(), BYTES)
    sensor.record(0, 0)
    error = violation(sensor, 2_100, 500)
    assert error.value == 200.0
    assert throttle_time(error, 500) == 10_500


def test_a_wait_is_rounded_half_up_as_java_does() -> None:
    metric = sensor_of(TokenBucket(), MUTATIONS).metrics[0]
    waits = [token_bucket_throttle_time(QuotaViolationError(metric, -ms, 1_000)) for ms in (0.4, 0.5, 1.5, 2.5, 2.6)]
    assert waits == [0, 1, 2, 3, 3]


def test_a_bounded_wait_is_one_window_at_most() -> None:
    sensor = sensor_of(Rate(), BYTES)
    error = violation(sensor, 1_500, 0)
    assert bounded_throttle_time(error, 1_000, 0) == 1_000
    assert bounded_throttle_time(error, 60_000, 0) == 5_000


@pytest.mark.parametrize(("value", "bound"), [(1e300, 1e-300), (float("inf"), 1.0), (1.0, 0.0), (1e15, 1.0)])
def test_no_wait_exceeds_an_int32(value: float, bound: float) -> None:
    rate = sensor_of(Rate(), BYTES).metrics[0]
    bucket = sensor_of(TokenBucket(), MUTATIONS).metrics[0]
    assert throttle_time(QuotaViolationError(rate, value, bound), 0) == MAX_THROTTLE_TIME_MS == 2**31 - 1
    assert token_bucket_throttle_time(QuotaViolationError(bucket, -value, bound)) == MAX_THROTTLE_TIME_MS
    assert bounded_throttle_time(QuotaViolationError(rate, value, bound), 2**40, 0) == MAX_THROTTLE_TIME_MS


def test_a_rate_that_is_too_low_waits_for_nothing() -> None:
    metric = sensor_of(Rate(), BYTES).metrics[0]
    assert throttle_time(QuotaViolationError(metric, 5.0, 100.0), 0) == 0


def test_a_wait_is_only_known_for_its_kind_of_metric() -> None:
    average, rate = sensor_of(Avg(), BYTES).metrics[0], sensor_of(Rate(), BYTES).metrics[0]
    with pytest.raises(TypeError, match="is not a Rate metric"):
        throttle_time(QuotaViolationError(average, 2.0, 1.0), 0)
    with pytest.raises(TypeError, match="is not a TokenBucket metric"):
        token_bucket_throttle_time(QuotaViolationError(rate, 2.0, 1.0))
