"""What the quota managers promise, over any sequence of requests, limits and time; the clock is moved by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.quotas.quotas import DEFAULT, Channel, session, set_quota, value_of

from fleetgauge.base.clock import MockTime
from fleetgauge.quotas import Avg, MeasurableStat, Rate, SimpleRate, TokenBucket, WindowedCount, WindowedSum
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.controller_mutation import ControllerMutationQuotaManager
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    KafkaQuotaEntity,
    UserEntity,
)
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper

ALICE = session("alice")
SAMPLING = st.builds(
    ClientQuotaManagerConfig,
    num_quota_samples=st.integers(2, 12),
    quota_window_size_seconds=st.integers(1, 3),
)
REQUESTS = st.lists(st.tuples(st.integers(0, 6_000), st.integers(0, 20_000)), min_size=1, max_size=60)
"""Milliseconds between the end of the last throttle and a request, and its size."""


def produce_manager(config: ClientQuotaManagerConfig) -> tuple[ClientQuotaManager, Metrics, MockTime]:
    clock = MockTime()
    metrics = Metrics(time=clock)
    return ClientQuotaManager(config, metrics, QuotaType.PRODUCE, clock), metrics, clock


@settings(max_examples=300)
@given(config=SAMPLING, bound=st.integers(1, 3_000), requests=REQUESTS)
def test_a_client_that_waits_out_every_throttle_keeps_its_limit_over_any_span(
    config: ClientQuotaManagerConfig, bound: int, requests: list[tuple[int, int]]
) -> None:
    """Over k windows, as many as are retained at most: bound * (k + samples) * window + the largest record.

    Over longer spans Kafka's sampled rate forgets: who was delayed until the last sample is dropped finds all windows
    empty, and may fill them anew. With 4 samples of 1 s and a limit of 1, the records 7, and 4 s later 3 and 7, are 17
    in 5 windows. That can happen once in `samples` windows, for `samples - 1` windows.
    """
    manager, _, clock = produce_manager(config)
    set_quota(manager, "alice", None, bound)
    recorded: list[tuple[int, int]] = []
    for idle_ms, value in requests:
        clock.sleep(idle_ms)
        now_ms = clock.hi_res_clock_ms()
        recorded.append((now_ms, value))
        clock.sleep(manager.record_and_get_throttle_time_ms(ALICE, "app", value, now_ms))
    samples, window_s = config.num_quota_samples, config.quota_window_size_seconds
    rounding = bound * 0.0005 * len(recorded)  # each wait is rounded to the nearest millisecond
    for first, (start_ms, _) in enumerate(recorded):
        total = largest = 0
        for at_ms, value in recorded[first:]:
            total, largest = total + value, max(largest, value)
            windows = (at_ms - start_ms) // (window_s * 1_000) + 1  # the fewest full ones, from the first record on
            forgotten = (windows - 1) // samples
            at_once = samples if windows <= samples else samples + 1 + (samples - 1) * forgotten
            assert total <= bound * (windows + at_once) * window_s + largest + rounding


@given(
    config=SAMPLING,
    bound=st.integers(1, 3_000),
    requests=st.lists(st.tuples(st.integers(0, 6_000), st.integers(0, 100_000)), min_size=1, max_size=60),
)
def test_a_bucket_never_holds_more_than_its_burst_and_waits_exactly_for_its_refill(
    config: ClientQuotaManagerConfig, bound: int, requests: list[tuple[int, int]]
) -> None:
    clock = MockTime()
    metrics = Metrics(time=clock)
    manager = ControllerMutationQuotaManager(config, metrics, clock)
    set_quota(manager, "alice", None, bound)
    burst = bound * config.num_quota_samples * config.quota_window_size_seconds
    for idle_ms, permits in requests:
        clock.sleep(idle_ms)
        quota = manager.new_permissive_quota_for(ALICE, "app")
        quota.record(permits)
        tokens = value_of(metrics, "tokens", "ControllerMutation", "alice", "")
        assert tokens <= burst
        wait_ms = quota.throttle_time()
        assert wait_ms == pytest.approx(max(-tokens, 0) / bound * 1_000, abs=0.5 + 1e-6)
        if wait_ms > 0:
            clock.sleep(wait_ms + 1)  # the wait is rounded to the nearest millisecond
            assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") >= -1e-6


LIMITS = st.lists(
    st.tuples(
        st.sampled_from(["alice", DEFAULT, None]),
        st.sampled_from(["app", DEFAULT, None]),
        st.one_of(st.none(), st.integers(1, 5_000)),
    ).filter(lambda limit: limit[:2] != (None, None)),
    max_size=12,
)


@given(requests=REQUESTS, limits=LIMITS)
def test_changing_limits_keeps_the_usage_of_everyone(
    requests: list[tuple[int, int]], limits: list[tuple[str | None, str | None, int | None]]
) -> None:
    """A client may come to share another quota; what each quota has measured is never touched."""
    manager, metrics, clock = produce_manager(ClientQuotaManagerConfig())
    set_quota(manager, None, DEFAULT, 1)

    def rates() -> dict[object, object]:
        now_ms = clock.hi_res_clock_ms()
        return {
            name: metric.metric_value(now_ms) for name, metric in metrics.metrics().items() if name.name == "byte-rate"
        }

    for number, (idle_ms, value) in enumerate(requests):
        clock.sleep(idle_ms)
        manager.record_no_throttle(ALICE, "app", value)
        if number < len(limits):
            before = rates()
            set_quota(manager, *limits[number])
            assert rates() == before
        assert manager.quota("alice", "app").bound == _bound_of_the_metric_in_use(manager, metrics)


ENTITIES = (
    st.tuples(
        st.sampled_from([None, DEFAULT_USER_ENTITY, UserEntity("alice"), UserEntity("CN=bob, O=me")]),
        st.sampled_from([None, DEFAULT_CLIENT_ID_ENTITY, ClientIdEntity("app"), ClientIdEntity("web")]),
    )
    .filter(lambda parts: parts != (None, None))
    .map(lambda parts: KafkaQuotaEntity(*parts))
)
QUOTAS: st.SearchStrategy[Quota | None] = st.none() | st.integers(1, 9).map(Quota.upper_bound)
SENDERS = st.tuples(st.sampled_from(["alice", "CN=bob, O=me", "carol"]), st.sampled_from(["app", "web", ""]))


@settings(max_examples=300)
@given(st.lists(st.one_of(SENDERS, st.dictionaries(ENTITIES, QUOTAS, min_size=1, max_size=4)), max_size=20))
def test_every_metric_has_the_limit_of_its_level_after_any_changes(
    steps: list[tuple[str, str] | dict[KafkaQuotaEntity, Quota | None]],
) -> None:
    """A change without a default looks at one metric; so a look at all of them afterwards changes nothing."""
    manager, metrics, _ = produce_manager(ClientQuotaManagerConfig())
    for step in steps:
        if isinstance(step, dict):
            manager.update_quotas(step)
        else:
            manager.record_and_get_throttle_time_ms(session(step[0]), step[1], 1.0)
        of_rates = [metric for name, metric in metrics.metrics().items() if name.name == "byte-rate"]
        found = [metric.config.quota for metric in of_rates]
        manager.update_quota_metric_configs()
        assert [metric.config.quota for metric in of_rates] == found


def _bound_of_the_metric_in_use(manager: ClientQuotaManager, metrics: Metrics) -> float:
    tags = manager.get_or_create_quota_sensors(ALICE, "app").metric_tags
    metric = metrics.metric(manager.client_quota_metric_name(tags))
    assert metric is not None
    assert metric.config.quota is not None
    return metric.config.quota.bound


@given(config=SAMPLING, bound=st.integers(1, 3_000), requests=REQUESTS, value=st.integers(0, 10**9))
def test_unrecording_at_the_same_time_is_as_if_nothing_had_been_recorded(
    config: ClientQuotaManagerConfig, bound: int, requests: list[tuple[int, int]], value: int
) -> None:
    with_it, without_it = produce_manager(config), produce_manager(config)
    for manager, _, clock in (with_it, without_it):
        set_quota(manager, "alice", None, bound)
        for idle_ms, recorded in requests:
            clock.sleep(idle_ms)
            manager.record_no_throttle(ALICE, "app", recorded)
    now_ms = with_it[2].hi_res_clock_ms()
    with_it[0].record_and_get_throttle_time_ms(ALICE, "app", value, now_ms)
    with_it[0].unrecord_quota_sensor(ALICE, "app", value, now_ms)
    left, right = (value_of(metrics, "byte-rate", "Produce", "alice", "") for _, metrics, _ in (with_it, without_it))
    assert left == pytest.approx(right)
    with_it[2].sleep(500)
    without_it[2].sleep(500)
    waits = [manager.record_and_get_throttle_time_ms(ALICE, "app", 7) for manager, _, _ in (with_it, without_it)]
    assert waits[0] == pytest.approx(waits[1], abs=1)


class Throttling(RuleBasedStateMachine):
    """Channels throttled, time, reaping and shutdown in any order: mutes and unmutes always balance."""

    @initialize()
    def begin(self) -> None:
        self.size = 0
        self.now_ms = 0
        self.held: list[tuple[int, Channel]] = []
        self.channels: list[Channel] = []
        self.is_shut_down = False
        self.reaper = ThrottledChannelReaper("reaper", self.size_changed)

    def size_changed(self, change: int) -> None:
        self.size += change
        assert self.size >= 0

    @rule(throttle_time_ms=st.integers(1, 1_000), again=st.booleans())
    def throttle(self, throttle_time_ms: int, again: bool) -> None:
        channel = self.channels[-1] if again and self.channels else Channel()
        self.channels.append(channel)
        self.reaper.throttle(channel, throttle_time_ms, self.now_ms)
        if not self.is_shut_down:
            self.held.append((self.now_ms + throttle_time_ms, channel))

    @rule(passed_ms=st.integers(0, 700))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def reap(self) -> None:
        due = [end_ms for end_ms, _ in self.held if self.is_shut_down or end_ms <= self.now_ms]
        assert self.reaper.reap(self.now_ms) == len(due)
        self.held = [] if self.is_shut_down else [entry for entry in self.held if entry[0] > self.now_ms]

    @rule()
    def shut_down(self) -> None:
        self.reaper.initiate_shutdown()
        self.is_shut_down = True

    @invariant()
    def every_channel_is_muted_as_often_as_it_is_held(self) -> None:
        for channel in self.channels:
            holds = sum(held is channel for _, held in self.held)
            assert channel.starts - channel.ends == holds
        assert self.size == len(self.held) == len(self.reaper.delay_queue)
        first = min((end_ms for end_ms, _ in self.held), default=None)
        assert self.reaper.delay_queue.next_end_time_ms == first

    def teardown(self) -> None:
        self.reaper.initiate_shutdown()
        self.reaper.reap(self.now_ms)
        assert all(channel.starts == channel.ends for channel in self.channels)


TestThrottling = Throttling.TestCase
TestThrottling.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


STATS = st.sampled_from([WindowedSum, WindowedCount, Rate, SimpleRate, TokenBucket, Avg])
STEPS = st.lists(
    st.tuples(st.integers(-40, 5_000), st.integers(-1_000, 1_000), st.integers(0, 500)), min_size=1, max_size=60
)
"""Milliseconds since the step before (threads may come late), the value recorded, and the limit."""


@settings(max_examples=200)
@given(kinds=st.lists(STATS, min_size=1, max_size=3), samples=st.integers(1, 12), steps=STEPS)
def test_checking_while_recording_says_the_same_as_recording_and_then_checking(
    kinds: list[type[MeasurableStat]], samples: int, steps: list[tuple[int, int, int]]
) -> None:
    config = MetricConfig(samples=samples, time_window_ms=1_000)
    at_once, in_turn = sensor_of(kinds, config), sensor_of(kinds, config)
    now_ms = 5_000
    for number, (passed_ms, value, bound) in enumerate(steps):
        now_ms += passed_ms
        for sensor in (at_once, in_turn):
            sensor.metrics[number % len(kinds)].config = config.with_quota(Quota.upper_bound(bound))
        said: list[tuple[object, ...] | None] = []
        for sensor, together in ((at_once, True), (in_turn, False)):
            try:
                sensor.record(value, now_ms, together)
                if not together:
                    sensor.check_quotas(now_ms)
                said.append(None)
            except QuotaViolationError as error:
                said.append((error.metric.metric_name, error.value, error.bound))
        assert said[0] == said[1]
        assert windows_of(at_once) == windows_of(in_turn), "what is measured, and so discarded, is the same too"
    values = [[metric.measurable_value(now_ms) for metric in sensor.metrics] for sensor in (at_once, in_turn)]
    assert values[0] == pytest.approx(values[1], nan_ok=True)


def windows_of(sensor: Sensor) -> list[tuple[float, int, int]]:
    stats = [getattr(metric.provider, "stat", metric.provider) for metric in sensor.metrics]
    samples = [sample for stat in stats for sample in getattr(stat, "_samples", ())]
    return [(sample.value, sample.start_time_ms, sample.last_event_ms) for sample in samples]


def sensor_of(kinds: list[type[MeasurableStat]], config: MetricConfig) -> Sensor:
    metrics = Metrics(time=MockTime())
    sensor = metrics.sensor("s", config)
    for number, kind in enumerate(kinds):
        sensor.add(metrics.metric_name(f"m{number}", "g"), kind())
    return sensor


class GeneralSum(WindowedSum):
    """A sum that a rate does not record in place, since it is a subclass."""


@pytest.mark.replaces
@settings(max_examples=200)
@given(
    samples=st.integers(1, 12),
    event_window=st.sampled_from([3, 2**63 - 1]),
    steps=st.lists(st.tuples(st.integers(-40, 5_000), st.integers(-1_000, 1_000), st.booleans()), max_size=80),
)
def test_a_rate_that_records_in_place_has_the_windows_and_values_of_one_that_does_not(
    samples: int, event_window: int, steps: list[tuple[int, int, bool]]
) -> None:
    config = MetricConfig(
        samples=samples, time_window_ms=1_000, event_window=event_window, quota=Quota.upper_bound(10**9)
    )
    metrics = Metrics(time=MockTime())
    in_place, in_general = metrics.sensor("p", config), metrics.sensor("g", config)
    for sensor, stat in ((in_place, WindowedSum()), (in_general, GeneralSum())):
        sensor.add(metrics.metric_name(sensor.name, "g"), Rate(stat=stat))
    now_ms = 5_000
    for passed_ms, value, check_quotas in steps:
        now_ms += passed_ms
        for sensor in (in_place, in_general):
            sensor.record(value, now_ms, check_quotas)
        assert windows_of(in_place) == windows_of(in_general)
        assert in_place.metrics[0].measurable_value(now_ms) == in_general.metrics[0].measurable_value(now_ms)
