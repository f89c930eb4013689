import math
from typing import Any

import pytest
from support.quotas.quotas import Channel, session, set_quota

from fleetgauge.base.clock import MockTime, Time
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas import (
    IP_QUOTA_KEYS,
    QUOTA_KEYS,
    TOPIC_QUOTA_KEYS,
    USER_AND_CLIENT_QUOTA_KEYS,
    EntityQuotaKey,
    QuotaConfig,
    checked_quota_value,
)
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
from fleetgauge.quotas.drivers.reaper_thread import ReaperThread
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper

LONG_MAX, INT_MAX = 2**63 - 1, 2**31 - 1


def test_the_defaults_are_kafkas() -> None:
    assert {name: key.default for name, key in QUOTA_KEYS.items()} == {
        "quota.window.num": 11,
        "quota.window.size.seconds": 1,
        "controller.quota.window.num": 11,
        "controller.quota.window.size.seconds": 1,
        "replication.quota.window.num": 11,
        "replication.quota.window.size.seconds": 1,
        "alter.log.dirs.replication.quota.window.num": 11,
        "alter.log.dirs.replication.quota.window.size.seconds": 1,
        "client.quota.callback.class": None,
        "leader.replication.throttled.rate": LONG_MAX,
        "follower.replication.throttled.rate": LONG_MAX,
        "replica.alter.log.dirs.io.max.bytes.per.second": LONG_MAX,
        "max.connections": INT_MAX,
        "max.connections.per.ip": INT_MAX,
        "max.connections.per.ip.overrides": "",
        "max.connection.creation.rate": INT_MAX,
    }
    assert {name: key.default for name, key in TOPIC_QUOTA_KEYS.items()} == {
        "leader.replication.throttled.replicas": "",
        "follower.replication.throttled.replicas": "",
    }
    assert {name: key.default for name, key in {**USER_AND_CLIENT_QUOTA_KEYS, **IP_QUOTA_KEYS}.items()} == {
        "producer_byte_rate": LONG_MAX,
        "consumer_byte_rate": LONG_MAX,
        "request_percentage": INT_MAX,
        "controller_mutation_rate": INT_MAX,
        "connection_creation_rate": INT_MAX,
    }


def test_a_configuration_of_nothing_is_one_of_all_defaults() -> None:
    config = QuotaConfig.from_properties({})
    assert config == QuotaConfig()
    assert {name: getattr(config, name.replace(".", "_")) for name in QUOTA_KEYS} == {
        name: key.default for name, key in QUOTA_KEYS.items()
    }


def test_numbers_may_be_written_as_text() -> None:
    config = QuotaConfig.from_properties({"quota.window.num": "21", "quota.window.size.seconds": 2})
    assert config.client == ClientQuotaManagerConfig(num_quota_samples=21, quota_window_size_seconds=2)
    assert config.controller_mutation == ClientQuotaManagerConfig()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("quota.window.num", 0, "Value must be at least 1"),
        ("quota.window.num", 2**31, "Not a number of type INT"),
        ("quota.window.num", "many", "Invalid value many for configuration quota.window.num: Not a number of type INT"),
        ("quota.window.num", True, "a 32-bit integer, but it was a bool"),
        ("quota.window.num", None, "a 32-bit integer, but it was a NoneType"),
        ("quota.window.size.seconds", 0.5, "a 32-bit integer, but it was a float"),
        ("leader.replication.throttled.rate", -1, "Value must be at least 0"),
        ("leader.replication.throttled.rate", 1.0, "a 64-bit integer, but it was a float"),
        ("max.connections.per.ip", 0, "can be set to zero only if"),
        ("client.quota.callback.class", 5, "text, not 5"),
        ("quota.window.number", 5, "no such quota setting"),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_what_is_allowed(name: str, value: object, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said) as caught:
        QuotaConfig.from_properties({name: value})
    assert name in str(caught.value)


def test_a_configuration_made_by_hand_is_checked_like_one_that_is_read() -> None:
    with pytest.raises(InvalidConfigError, match=r"quota\.window\.num: Value must be at least 1"):
        QuotaConfig(quota_window_num=0)
    with pytest.raises(InvalidConfigError, match=r"max\.connections: Value must be at least 0"):
        QuotaConfig(max_connections=-1)


@pytest.mark.parametrize(
    ("keys", "name", "value", "said"),
    [
        (USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", 0, "greater than 0"),
        (USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", -1, "greater than 0"),
        (USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", math.nan, "greater than 0"),
        (USER_AND_CLIENT_QUOTA_KEYS, "consumer_byte_rate", 1.5, "cannot be a fractional value"),
        (USER_AND_CLIENT_QUOTA_KEYS, "consumer_byte_rate", 1.000002, "cannot be a fractional value"),
        (USER_AND_CLIENT_QUOTA_KEYS, "consumer_byte_rate", True, "must be a number, not True"),
        (USER_AND_CLIENT_QUOTA_KEYS, "consumer_byte_rate", "5", "must be a number, not '5'"),
        (USER_AND_CLIENT_QUOTA_KEYS, "consumer_byte_rate", 2.0**64, "too large"),
        (IP_QUOTA_KEYS, "connection_creation_rate", 2**31, "too large"),
        (IP_QUOTA_KEYS, "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        (USER_AND_CLIENT_QUOTA_KEYS, "connection_creation_rate", 1, "Invalid configuration key"),
    ],
)
def test_a_limit_that_kafkas_controller_refuses_is_refused(
    keys: dict[str, EntityQuotaKey], name: str, value: float, said: str
) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        checked_quota_value(keys, name, value)


def test_a_whole_number_may_be_a_millionth_too_large_as_in_kafka() -> None:
    assert checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", 1.0000005) == 1.0000005
    assert checked_quota_value(IP_QUOTA_KEYS, "connection_creation_rate", 5.0000005) == 5.0000005


def test_percentages_and_rates_of_mutations_may_be_fractions() -> None:
    for name in ("request_percentage", "controller_mutation_rate"):
        assert checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, name, 0.5) == 0.5
    assert checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", LONG_MAX) == float(LONG_MAX)
    assert checked_quota_value(USER_AND_CLIENT_QUOTA_KEYS, "producer_byte_rate", 2.0**63) == 2.0**63


@pytest.fixture
def managers() -> QuotaManagers:
    time = MockTime()
    config = QuotaConfig.from_properties({"quota.window.num": 3, "controller.quota.window.num": 4})
    return QuotaManagers.instantiate(config, Metrics(time=time), time)


def test_every_manager_samples_as_it_is_configured(managers: QuotaManagers) -> None:
    samples = {manager.quota_type: manager.config.num_quota_samples for manager in managers.client_quota_managers}
    assert samples == {
        QuotaType.FETCH: 3,
        QuotaType.PRODUCE: 3,
        QuotaType.REQUEST: 3,
        QuotaType.CONTROLLER_MUTATION: 4,
    }


def test_managers_are_found_by_type_and_keep_their_quotas_apart(managers: QuotaManagers) -> None:
    set_quota(managers.client_quota_manager(QuotaType.PRODUCE), "alice", None, 1)
    assert managers.produce.quotas_enabled
    others: list[Any] = [managers.fetch, managers.request, managers.controller_mutation]
    assert not any(manager.quotas_enabled for manager in others)
    assert managers.client_quota_manager(QuotaType.REQUEST) is managers.request
    with pytest.raises(ValueError, match="Not a client quota type"):
        managers.client_quota_manager(QuotaType.LEADER_REPLICATION)


def test_each_manager_has_a_reaper_named_as_in_kafka(managers: QuotaManagers) -> None:
    assert [manager.reaper.name for manager in managers.client_quota_managers] == [
        "ThrottledChannelReaper-Fetch",
        "ThrottledChannelReaper-Produce",
        "ThrottledChannelReaper-Request",
        "ThrottledChannelReaper-ControllerMutation",
    ]


def test_shutdown_leaves_no_channel_muted(managers: QuotaManagers) -> None:
    channels = [Channel() for _ in managers.client_quota_managers]
    for channel, manager in zip(channels, managers.client_quota_managers, strict=True):
        manager.throttle("app", session(), channel, 60_000)
    managers.shutdown()
    assert [(channel.starts, channel.ends) for channel in channels] == [(1, 1)] * 4


def test_there_are_seven_managers_and_replication_is_throttled_by_its_own(managers: QuotaManagers) -> None:
    managers.follower.update_quota(Quota.upper_bound(10))
    for replication in (managers.leader, managers.follower, managers.alter_log_dirs):
        replication.record(1_000)
    exceeded = [
        manager.is_quota_exceeded() for manager in (managers.leader, managers.follower, managers.alter_log_dirs)
    ]
    assert exceeded == [False, True, False]


def test_changed_rates_of_replication_are_in_force_and_count_what_was_recorded(managers: QuotaManagers) -> None:
    each_of = (managers.leader, managers.follower, managers.alter_log_dirs)
    for manager in each_of:
        manager.record(50_000)
    rates = {
        "leader.replication.throttled.rate": 40_000,
        "follower.replication.throttled.rate": 60_000,
        "replica.alter.log.dirs.io.max.bytes.per.second": 49_999,
    }
    managers.update_replication_rates(QuotaConfig.from_properties(rates))
    assert [manager.upper_bound for manager in each_of] == [40_000, 60_000, 49_999]
    assert [manager.is_quota_exceeded() for manager in each_of] == [True, False, True], "50,000 B in the first second"
    managers.update_replication_rates(QuotaConfig())
    assert [manager.is_quota_exceeded() for manager in each_of] == [False, False, False]


class Driver:
    """Notes what becomes of the reapers."""

    def __init__(self, reaper: ThrottledChannelReaper, time: Time) -> None:
        self.reaper = reaper
        DRIVERS.append(self)
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


DRIVERS: list[Driver] = []


def test_all_reapers_start_and_stop_in_one_place(managers: QuotaManagers) -> None:
    DRIVERS.clear()
    managers.start_reapers(Driver)
    assert [driver.reaper for driver in DRIVERS] == [manager.reaper for manager in managers.client_quota_managers]
    with pytest.raises(ValueError, match="started already"):
        managers.start_reapers(Driver)
    managers.stop_reapers()
    managers.shutdown()
    assert [driver.calls for driver in DRIVERS] == [["start", "shutdown"]] * 4


def test_threads_unmute_until_shutdown(managers: QuotaManagers) -> None:
    managers.start_reapers(ReaperThread)
    channels = [Channel() for _ in managers.client_quota_managers]
    for channel, manager in zip(channels, managers.client_quota_managers, strict=True):
        manager.throttle("app", session(), channel, 60_000)
    managers.shutdown()
    assert [(channel.starts, channel.ends) for channel in channels] == [(1, 1)] * 4
