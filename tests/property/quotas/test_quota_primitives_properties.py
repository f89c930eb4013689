import math
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import Avg, Max, Min, Rate, SampledStat, TokenBucket, WindowedCount, WindowedSum
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.throttle_time import throttle_time, token_bucket_throttle_time

CONFIGS = st.builds(
    MetricConfig,
    samples=st.integers(1, 12),
    time_window_ms=st.integers(1, 3_000),
    event_window=st.one_of(st.just(2**63 - 1), st.integers(1, 4)),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 5_000) | st.integers(-40, 0), st.integers(-1_000, 1_000), st.booleans()),
    min_size=1,
    max_size=80,
)
"""Milliseconds since the step before, the value recorded, and whether the statistic is measured afterwards.

A step may go back a little: threads read the clock before they wait for the lock.
"""


class Window:
    """One window of the model: everything that was recorded in it."""

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.values: list[int] = []


class PlainWindows:
    """What Kafka's windows mean, said without a ring, an index or anything kept for speed."""

    def __init__(self, config: MetricConfig) -> None:
        self.config = config
        self.windows: deque[Window] = deque(maxlen=config.samples + 1)

    def record(self, value: int, now_ms: int) -> None:
        if not self.windows or self._is_full(self.windows[-1], now_ms):
            self.windows.append(Window(now_ms))
        self.windows[-1].values.append(value)
        self.windows[-1].last_ms = now_ms

    def _is_full(self, window: Window, now_ms: int) -> bool:
        aged = now_ms - window.start_ms >= self.config.time_window_ms
        return aged or len(window.values) >= self.config.event_window

    def purge(self, now_ms: int) -> None:
        """An obsolete window is emptied and counts as begun now; it stays in its place."""
        for window in self.windows:
            if now_ms - window.last_ms >= self.config.samples * self.config.time_window_ms:
                window.values = []
                window.start_ms = window.last_ms = now_ms

    def live(self, now_ms: int) -> list[int]:
        self.purge(now_ms)
        return [value for window in self.windows for value in window.values]

    def rate(self, now_ms: int) -> float:
        values = self.live(now_ms)
        elapsed_ms = now_ms - min((window.start_ms for window in self.windows), default=now_ms)
        missing = max(self.config.samples - 1 - int(elapsed_ms / self.config.time_window_ms), 0)
        return sum(values) / (max(elapsed_ms + missing * self.config.time_window_ms, 1) / 1_000)


def model_value(stat: SampledStat | Rate, model: PlainWindows, now_ms: int) -> float:
    if isinstance(stat, Rate):
        return model.rate(now_ms)
    values = model.live(now_ms)
    if isinstance(stat, WindowedCount):
        return len(values)
    if isinstance(stat, WindowedSum):
        return sum(values)
    if not values:
        return math.nan
    if isinstance(stat, Avg):
        return sum(values) / len(values)
    return max(values) if isinstance(stat, Max) else min(values)


@pytest.mark.parametrize("kind", [WindowedSum, WindowedCount, Avg, Max, Min, Rate])
@given(config=CONFIGS, steps=STEPS)
def test_a_windowed_statistic_agrees_with_a_plain_model(
    kind: Callable[[], SampledStat | Rate], config: MetricConfig, steps: list[tuple[int, int, bool]]
) -> None:
    stat = kind()
    model = PlainWindows(config)
    now_ms = 5_000
    for passed_ms, value, measured in steps:
        now_ms += passed_ms
        stat.record(config, value, now_ms)
        model.record(value, now_ms)
        if measured:
            assert stat.measure(config, now_ms) == pytest.approx(model_value(stat, model, now_ms), nan_ok=True)
    later_ms = now_ms + config.time_window_ms
    assert stat.measure(config, later_ms) == pytest.approx(model_value(stat, model, later_ms), nan_ok=True)


@given(config=CONFIGS, steps=STEPS, passed_ms=st.integers(0, 5_000), value=st.integers(-(10**9), 10**9))
def test_recording_the_negative_at_the_same_time_takes_a_value_back(
    config: MetricConfig, steps: list[tuple[int, int, bool]], passed_ms: int, value: int
) -> None:
    config = MetricConfig(samples=config.samples, time_window_ms=config.time_window_ms)
    with_it, without_it = Rate(), Rate()
    now_ms = 0
    for step_ms, recorded, _ in steps:
        now_ms += step_ms
        for rate in (with_it, without_it):
            rate.record(config, recorded, now_ms)
    now_ms += passed_ms
    with_it.record(config, value, now_ms)
    with_it.record(config, -value, now_ms)
    without_it.record(config, 0, now_ms)
    assert with_it.measure(config, now_ms) == pytest.approx(without_it.measure(config, now_ms))


@given(
    samples=st.integers(1, 50),
    bound=st.integers(1, 10_000),
    steps=st.lists(st.tuples(st.integers(0, 5_000), st.integers(-5_000, 20_000)), max_size=60),
)
def test_a_token_bucket_is_the_plain_sum_of_refills_and_spending_under_its_burst(
    samples: int, bound: int, steps: list[tuple[int, int]]
) -> None:
    config = MetricConfig(samples=samples, time_window_ms=1_000, quota=Quota.upper_bound(bound))
    burst_milli = samples * bound * 1_000
    bucket, now_ms, tokens_milli = TokenBucket(), 5_000, burst_milli
    for passed_ms, value in steps:
        now_ms += passed_ms
        bucket.record(config, value, now_ms)
        refilled_milli = min(burst_milli, tokens_milli + passed_ms * bound)
        tokens_milli = min(burst_milli, refilled_milli - value * 1_000)
        tokens = bucket.measure(config, now_ms)
        assert tokens == pytest.approx(tokens_milli / 1_000, abs=1e-6)
        assert tokens <= samples * bound


def sensor_of(stat: Rate | TokenBucket, config: MetricConfig) -> Sensor:
    metrics = Metrics(time=MockTime())
    sensor = metrics.sensor("s", config)
    sensor.add(metrics.metric_name("m", "g"), stat)
    return sensor


QUOTAS = st.builds(
    lambda samples, window_ms, bound: MetricConfig(
        samples=samples, time_window_ms=window_ms, quota=Quota.upper_bound(bound)
    ),
    samples=st.integers(2, 20),
    window_ms=st.sampled_from([100, 1_000, 5_000]),
    bound=st.integers(1, 5_000),
)


@given(config=QUOTAS, excess=st.integers(1, 10**6))
def test_waiting_the_throttle_time_refills_an_exhausted_bucket_and_not_a_moment_before(
    config: MetricConfig, excess: int
) -> None:
    assert config.quota is not None
    sensor = sensor_of(TokenBucket(), config)
    burst = config.samples * config.time_window_ms / 1_000 * config.quota.bound
    with pytest.raises(QuotaViolationError) as caught:
        sensor.record(burst + excess, 0)
    wait_ms = token_bucket_throttle_time(caught.value)
    slack_ms = 1  # the wait is rounded to the nearest millisecond
    sensor.check_quotas(wait_ms + slack_ms)
    if wait_ms > 2 * slack_ms:
        with pytest.raises(QuotaViolationError):
            sensor.check_quotas(wait_ms - slack_ms)


@given(config=QUOTAS, factor=st.floats(1.01, 50), at_ms=st.integers(0, 10_000))
def test_the_throttle_time_stretches_the_window_until_the_rate_is_at_its_bound(
    config: MetricConfig, factor: float, at_ms: int
) -> None:
    assert config.quota is not None
    rate = Rate()
    sensor = sensor_of(rate, config)
    span_ms = (config.samples - 1) * config.time_window_ms
    value = config.quota.bound * span_ms / 1_000 * factor
    with pytest.raises(QuotaViolationError) as caught:
        sensor.record(value, at_ms)
    wait_ms = throttle_time(caught.value, at_ms)
    stretched = value / ((rate.window_size(config, at_ms) + wait_ms) / 1_000)
    assert stretched == pytest.approx(config.quota.bound, rel=1 / span_ms)


@given(
    steps=STEPS,
    limits=st.lists(st.one_of(st.none(), st.floats(0, 1e9).map(Quota.upper_bound)), min_size=1, max_size=10),
)
def test_no_change_of_the_limit_changes_what_a_rate_measures(
    steps: list[tuple[int, int, bool]], limits: list[Quota | None]
) -> None:
    config = MetricConfig(samples=11, time_window_ms=1_000)
    changed, left = sensor_of(Rate(), config), sensor_of(Rate(), config)
    now_ms = 0
    for number, (passed_ms, value, _) in enumerate(steps):
        now_ms += passed_ms
        for sensor in (changed, left):
            sensor.record(value, now_ms, check_quotas=False)
        changed.metrics[0].config = config.with_quota(limits[number % len(limits)])
        assert changed.metrics[0].measurable_value(now_ms) == left.metrics[0].measurable_value(now_ms)
