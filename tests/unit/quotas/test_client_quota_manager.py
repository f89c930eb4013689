import math
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from support.quotas.quotas import CONFIG, DEFAULT, Channel, session, set_quota, value_of

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.client_quota import MAX_REMEMBERED_CLIENTS, ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.default_quota_callback import DefaultQuotaCallback
from fleetgauge.quotas.entity import DEFAULT_CLIENT_ID_ENTITY, UserEntity
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import ClientQuotaType, QuotaType

ALICE = session("alice")


@pytest.fixture
def manager(metrics: Metrics, clock: MockTime) -> ClientQuotaManager:
    return ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock)


def test_without_any_quota_nothing_is_recorded_or_registered(manager: ClientQuotaManager, metrics: Metrics) -> None:
    before = set(metrics.metrics())
    assert manager.maybe_record_and_get_throttle_time_ms(ALICE, "app", 1e9) == 0
    assert manager.max_value_in_quota_window(ALICE, "app") == sys.float_info.max
    assert set(metrics.metrics()) == before
    set_quota(manager, "alice", None, 1)
    assert manager.maybe_record_and_get_throttle_time_ms(ALICE, "app", 1e9) > 0


def test_a_rate_over_its_limit_is_delayed_by_what_dilutes_it_to_the_limit(
    manager: ClientQuotaManager, clock: MockTime
) -> None:
    set_quota(manager, None, DEFAULT, 500)
    for _ in range(10):
        assert manager.record_and_get_throttle_time_ms(ALICE, "app", 400) == 0
        clock.sleep(1_000)
    # 10 windows went by with 4,000 bytes; 2,300 more are 6,300 in 10.5 s, 600 bytes/s.
    clock.sleep(500)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 2_300) == 2_100, "(600 - 500) / 500 * 10,500 ms"


class NothingIsAllowed(DefaultQuotaCallback):
    """A callback may say 0, which `update_quota` refuses."""

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float:
        return 0.0


def test_a_limit_of_zero_waits_as_long_as_the_wire_can_say(metrics: Metrics, clock: MockTime) -> None:
    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock, NothingIsAllowed())
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1) == 2**31 - 1


def test_clients_share_what_their_level_says_and_nothing_else(manager: ClientQuotaManager) -> None:
    set_quota(manager, "alice", None, 100)
    set_quota(manager, None, "app", 100)
    assert manager.record_and_get_throttle_time_ms(ALICE, "one", 1_000) == 0
    assert manager.record_and_get_throttle_time_ms(ALICE, "two", 1) > 0, "alice's clients share alice's quota"
    assert manager.record_and_get_throttle_time_ms(session("bob"), "app", 1_000) == 0
    assert manager.record_and_get_throttle_time_ms(session("carol"), "app", 1) > 0, "all apps share the app's quota"
    assert manager.record_and_get_throttle_time_ms(session("bob"), "other", 1_000_000) == 0


def test_metrics_have_kafkas_names_and_the_tags_of_the_level(
    manager: ClientQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    set_quota(manager, "CN=a", None, 100)
    manager.record_and_get_throttle_time_ms(session("CN=a"), "app", 500)
    channel = Channel()
    for throttle_time_ms in (1_000, 3_000):
        manager.throttle("app", session("CN=a"), channel, throttle_time_ms)
    assert value_of(metrics, "byte-rate", "Produce", "CN%3Da", "") == 50
    assert value_of(metrics, "throttle-time", "Produce", "CN%3Da", "") == 2_000
    assert value_of(metrics, "quota-utilization", "Produce", "CN%3Da", "") == 50
    queue_size = metrics.metric(metrics.metric_name("queue-size", "Produce"))
    assert queue_size is not None
    assert queue_size.metric_value() == 2
    clock.sleep(3_000)
    manager.reaper.reap(clock.hi_res_clock_ms())
    assert queue_size.metric_value() == 0
    assert {sensor for sensor in ("Produce-CN%3Da:", "ProduceThrottleTime-CN%3Da:") if metrics.get_sensor(sensor)} == {
        "Produce-CN%3Da:",
        "ProduceThrottleTime-CN%3Da:",
    }


def test_utilization_goes_with_the_limit_and_is_not_a_number_without_one(
    manager: ClientQuotaManager, metrics: Metrics
) -> None:
    set_quota(manager, "alice", None, 100)
    manager.record_no_throttle(ALICE, "app", 1_500)

    def utilization() -> float:
        return value_of(metrics, "quota-utilization", "Produce", "alice", "")

    assert utilization() == 150
    set_quota(manager, "alice", None, 300)
    assert utilization() == 50
    set_quota(manager, "alice", None, None)
    assert math.isnan(utilization())


@pytest.mark.parametrize("bound", [0, -1, -math.inf])
@pytest.mark.parametrize(
    ("quota_type", "key"),
    [
        (QuotaType.PRODUCE, "producer_byte_rate"),
        (QuotaType.CONTROLLER_MUTATION, "controller_mutation_rate"),
        (QuotaType.TELEMETRY_PUSH, "telemetry_push_rate"),
    ],
)
def test_a_limit_that_is_not_above_zero_is_refused_and_the_one_before_stays(
    metrics: Metrics, clock: MockTime, bound: float, quota_type: QuotaType, key: str
) -> None:
    manager = ClientQuotaManager(CONFIG, metrics, quota_type, clock)
    set_quota(manager, "alice", None, 100)
    with pytest.raises(InvalidConfigError, match=f"^Quota {key} must be greater than 0$"):
        set_quota(manager, "alice", None, bound)
    assert manager.quota("alice", "app").bound == 100


@pytest.mark.parametrize(
    ("user", "client_id", "limit", "says"),
    [
        ("alice", None, Quota.upper_bound(1), r"UserEntity\('alice'\).* not as 'alice'"),
        (None, "app", Quota.upper_bound(1), r"ClientIdEntity\('app'\).* not as 'app'"),
        (KafkaPrincipal("User", "alice"), None, Quota.upper_bound(1), r"UserEntity\("),
        pytest.param(UserEntity("alice"), None, 1_000, r"Quota\.upper_bound\(1000\)", marks=pytest.mark.replaces),
        pytest.param(UserEntity("alice"), None, "1000", r"Quota\.upper_bound\(1000\)", marks=pytest.mark.replaces),
    ],
)
def test_what_is_no_entity_or_no_quota_is_refused_with_what_is_expected(
    manager: ClientQuotaManager, user: Any, client_id: Any, limit: Any, says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        manager.update_quota(user, client_id, limit)
    assert not manager.quotas_enabled


def test_a_user_whose_name_is_encoded_in_tags_is_under_the_quota_of_the_name(
    manager: ClientQuotaManager, metrics: Metrics
) -> None:
    name = "CN=x, O=y"
    manager.update_quota(UserEntity(name), None, Quota.upper_bound(5))
    manager.update_quota(None, DEFAULT_CLIENT_ID_ENTITY, Quota.upper_bound(1e9))  # another level: names are compared
    assert manager.quota(name, "app").bound == 5
    assert manager.record_and_get_throttle_time_ms(session(name), "app", 1_000) > 0
    assert value_of(metrics, "byte-rate", "Produce", "CN%3Dx%2C%20O%3Dy", "") == 100


def test_changing_a_limit_keeps_what_was_used(manager: ClientQuotaManager, metrics: Metrics) -> None:
    set_quota(manager, "alice", None, 100)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 900) == 0
    set_quota(manager, "alice", None, 50)
    assert value_of(metrics, "byte-rate", "Produce", "alice", "") == 90
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 0) == 8_000, "(90 - 50) / 50 * 10,000 ms"
    set_quota(manager, "alice", None, 90)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 0) == 0


def test_a_default_reaches_everybody_who_has_no_limit_of_their_own(manager: ClientQuotaManager) -> None:
    set_quota(manager, DEFAULT, None, 100)
    set_quota(manager, "bob", None, 500)
    for user in ("alice", "bob", "carol"):
        assert manager.record_and_get_throttle_time_ms(session(user), "app", 1_000) == 0
    set_quota(manager, DEFAULT, None, 50)
    waits = [manager.record_and_get_throttle_time_ms(session(user), "app", 0) for user in ("alice", "bob", "carol")]
    assert waits == [10_000, 0, 10_000]


def test_a_limit_removed_gives_way_to_the_next_level(manager: ClientQuotaManager) -> None:
    set_quota(manager, "alice", "app", 50)
    set_quota(manager, "alice", None, 100)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1_000) > 0
    set_quota(manager, "alice", "app", None)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1_000) == 0, "another quota, nothing used of it yet"
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1) > 0
    set_quota(manager, "alice", None, None)
    assert manager.maybe_record_and_get_throttle_time_ms(ALICE, "app", 1e9) == 0


def test_a_level_that_comes_later_takes_over_clients_that_were_seen_before(
    manager: ClientQuotaManager, metrics: Metrics
) -> None:
    set_quota(manager, None, "app", 1_000)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1) == 0
    set_quota(manager, "alice", None, 10)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 101) == 100
    assert value_of(metrics, "byte-rate", "Produce", "alice", "") == 10.1


def test_a_throttled_fetch_is_taken_back(metrics: Metrics, clock: MockTime) -> None:
    fetch = ClientQuotaManager(CONFIG, metrics, QuotaType.FETCH, clock)
    set_quota(fetch, "alice", None, 100)
    fetch.record_and_get_throttle_time_ms(ALICE, "app", 600)
    now_ms = clock.hi_res_clock_ms()
    assert fetch.record_and_get_throttle_time_ms(ALICE, "app", 600, now_ms) == 2_000
    fetch.unrecord_quota_sensor(ALICE, "app", 600, now_ms)
    assert value_of(metrics, "byte-rate", "Fetch", "alice", "") == 60
    assert fetch.record_and_get_throttle_time_ms(ALICE, "app", 400) == 0


def test_the_most_that_a_fetch_may_be_is_what_an_empty_window_takes(manager: ClientQuotaManager) -> None:
    set_quota(manager, "alice", None, 5)
    assert manager.max_value_in_quota_window(ALICE, "app") == 50
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 50) == 0
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1) > 0
    assert manager.max_value_in_quota_window(session("bob"), "app") == sys.float_info.max


def test_what_is_recorded_without_a_check_counts_at_the_next_one(manager: ClientQuotaManager) -> None:
    set_quota(manager, "alice", None, 100)
    manager.record_no_throttle(ALICE, "app", 2_000)
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 0) == 10_000


def test_a_delay_of_nothing_mutes_nobody(manager: ClientQuotaManager) -> None:
    channel = Channel()
    manager.throttle("app", ALICE, channel, 0)
    assert channel.starts == 0


def test_an_hour_without_a_record_forgets_usage_and_a_record_before_that_does_not(
    manager: ClientQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    set_quota(manager, "alice", None, 100)
    manager.record_no_throttle(ALICE, "app", 1)
    count = len(metrics.metrics())
    clock.sleep(3_600_000)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 0
    manager.record_no_throttle(ALICE, "app", 1)
    clock.sleep(1)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 1, "nobody was throttled for longer than an hour"
    manager.record_no_throttle(ALICE, "app", 1)
    assert len(metrics.metrics()) == count
    clock.sleep(3_600_001)
    assert metrics.remove_expired_sensors(clock.hi_res_clock_ms()) == 2
    assert metrics.get_sensor("Produce-delayQueue") is not None
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 2_000) == 10_000, "the sensor that is registered now"
    assert value_of(metrics, "byte-rate", "Produce", "alice", "") == 200


@pytest.mark.replaces
def test_more_clients_than_are_remembered_keep_their_usage(
    manager: ClientQuotaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetgauge.quotas.client_quota.MAX_REMEMBERED_CLIENTS", 3)
    set_quota(manager, None, DEFAULT, 100)
    for number in range(10):
        assert manager.record_and_get_throttle_time_ms(ALICE, f"app-{number}", 900) == 0
        assert len(manager._remembered) <= 3
    for number in range(10):
        assert manager.record_and_get_throttle_time_ms(ALICE, f"app-{number}", 200) == 1_000
    assert MAX_REMEMBERED_CLIENTS == 16_384


def test_the_limit_in_force_is_told_for_a_name_or_a_principal(manager: ClientQuotaManager) -> None:
    set_quota(manager, "alice", None, 7)
    assert manager.quota("alice", "x") == manager.quota(KafkaPrincipal("User", "alice"), "x") == Quota.upper_bound(7)
    assert manager.quota("bob", "x").bound == float(UNBOUNDED)


def test_a_quota_is_set_for_someone(manager: ClientQuotaManager) -> None:
    with pytest.raises(ValueError, match="not for neither"):
        manager.update_quota(None, None, Quota.upper_bound(1))
    assert not manager.quotas_enabled


def test_sampling_has_one_window_of_one_second_at_least() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        ClientQuotaManagerConfig(num_quota_samples=0)
    with pytest.raises(ValueError, match="at least one sample"):
        ClientQuotaManagerConfig(quota_window_size_seconds=0)


def test_only_quotas_on_clients_have_such_a_manager(metrics: Metrics, clock: MockTime) -> None:
    with pytest.raises(ValueError, match="Not a client quota type"):
        ClientQuotaManager(CONFIG, metrics, QuotaType.LEADER_REPLICATION, clock)
