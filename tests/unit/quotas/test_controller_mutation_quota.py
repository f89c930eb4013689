from typing import NamedTuple

import pytest
from support.quotas.quotas import session, set_quota, value_of

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ErrorCode
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
from fleetgauge.quotas.controller_mutation import (
    CREATE_PARTITIONS_STRICT_SINCE_VERSION,
    CREATE_TOPICS_STRICT_SINCE_VERSION,
    DELETE_TOPICS_STRICT_SINCE_VERSION,
    UNBOUNDED_CONTROLLER_MUTATION_QUOTA,
    ControllerMutationQuotaManager,
    MutationQuotaExceededError,
    PermissiveControllerMutationQuota,
    StrictControllerMutationQuota,
)
from fleetgauge.quotas.metrics.metrics import Metrics

ALICE = session("alice")


class Header(NamedTuple):
    api_version: int
    client_id: str | None = "app"


@pytest.fixture
def manager(metrics: Metrics, clock: MockTime) -> ControllerMutationQuotaManager:
    """KIP-599's example: Q = 5, S = 100, W = 1 s."""
    manager = ControllerMutationQuotaManager(ClientQuotaManagerConfig(num_quota_samples=100), metrics, clock)
    set_quota(manager, "alice", None, 5)
    return manager


def test_a_strict_quota_lets_a_burst_through_and_refuses_until_it_is_paid_back(
    manager: ControllerMutationQuotaManager, metrics: Metrics, clock: MockTime
) -> None:
    quota = manager.new_strict_quota_for(ALICE, "app")
    for _ in range(7):
        quota.record(80)
    before = quota.is_exceeded
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == -60
    with pytest.raises(MutationQuotaExceededError) as caught:
        quota.record(1)
    assert (caught.value.throttle_time_ms, quota.throttle_time()) == (12_000, 12_000)
    assert caught.value.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "try again in 12000 ms" in str(caught.value)
    assert (before, quota.is_exceeded) == (False, True)
    clock.sleep(12_000)
    manager.new_strict_quota_for(ALICE, "app").record(1)
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == -1


def test_a_refused_mutation_takes_no_tokens(manager: ControllerMutationQuotaManager, metrics: Metrics) -> None:
    quota = manager.new_strict_quota_for(ALICE, "app")
    quota.record(501)
    for _ in range(3):
        with pytest.raises(MutationQuotaExceededError):
            quota.record(1_000)
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == -1


def test_a_permissive_quota_takes_everything_and_throttles(
    manager: ControllerMutationQuotaManager, metrics: Metrics
) -> None:
    quota = manager.new_permissive_quota_for(ALICE, "app")
    quota.record(500)
    assert quota.throttle_time() == 0
    quota.record(60)
    assert quota.throttle_time() == 12_000
    quota.record(10)
    assert quota.throttle_time() == 14_000
    assert not quota.is_exceeded
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == -70


def test_a_throttle_time_decays_while_the_request_waits(
    manager: ControllerMutationQuotaManager, clock: MockTime
) -> None:
    quota = manager.new_permissive_quota_for(ALICE, "app")
    quota.record(560)
    clock.sleep(5_000)
    assert quota.throttle_time() == 7_000
    clock.sleep(100_000)
    assert quota.throttle_time() == 0


@pytest.mark.parametrize(
    "strict_since",
    [
        DELETE_TOPICS_STRICT_SINCE_VERSION,
        CREATE_TOPICS_STRICT_SINCE_VERSION,
        CREATE_PARTITIONS_STRICT_SINCE_VERSION,
    ],
)
def test_only_versions_that_know_the_refusal_are_refused(
    manager: ControllerMutationQuotaManager, strict_since: int
) -> None:
    old = manager.new_quota_for(ALICE, Header(strict_since - 1), strict_since)
    new = manager.new_quota_for(ALICE, Header(strict_since), strict_since)
    assert isinstance(old, PermissiveControllerMutationQuota)
    assert isinstance(new, StrictControllerMutationQuota)


def test_the_versions_are_kafkas() -> None:
    versions = (
        DELETE_TOPICS_STRICT_SINCE_VERSION,
        CREATE_TOPICS_STRICT_SINCE_VERSION,
        CREATE_PARTITIONS_STRICT_SINCE_VERSION,
    )
    assert versions == (5, 6, 3)


def test_without_a_quota_nothing_is_bounded(metrics: Metrics, clock: MockTime) -> None:
    manager = ControllerMutationQuotaManager(ClientQuotaManagerConfig(), metrics, clock)
    for version in (5, 6):
        quota = manager.new_quota_for(ALICE, Header(version, None), 6)
        assert quota is UNBOUNDED_CONTROLLER_MUTATION_QUOTA
        quota.record(1e9)
        assert (quota.is_exceeded, quota.throttle_time()) == (False, 0)


def test_a_header_without_a_client_id_shares_its_users_quota(
    manager: ControllerMutationQuotaManager, metrics: Metrics
) -> None:
    manager.new_quota_for(ALICE, Header(6, None), 6).record(100)
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == 400


def test_the_manager_itself_is_strict(manager: ControllerMutationQuotaManager, metrics: Metrics) -> None:
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 560) == 0
    assert manager.record_and_get_throttle_time_ms(ALICE, "app", 1) == 12_000
    assert value_of(metrics, "tokens", "ControllerMutation", "alice", "") == -60


def test_its_metrics_tell_the_rate_the_tokens_and_the_share_of_the_burst(
    manager: ControllerMutationQuotaManager, metrics: Metrics
) -> None:
    manager.new_strict_quota_for(ALICE, "app").record(560)

    def value(name: str) -> float:
        return value_of(metrics, name, "ControllerMutation", "alice", "")

    assert value("rate") == value("mutation-rate") == pytest.approx(560 / 30), "in the registry's windows, as in Kafka"
    assert value("tokens") == -60
    assert value("quota-utilization") == pytest.approx(112)
    set_quota(manager, "alice", None, 10)
    assert value("quota-utilization") == pytest.approx(106), "the tokens stay, the burst is 1,000 now"


def test_a_larger_limit_keeps_the_tokens_that_are_owed(
    manager: ControllerMutationQuotaManager, metrics: Metrics
) -> None:
    quota = manager.new_permissive_quota_for(ALICE, "app")
    quota.record(560)
    set_quota(manager, "alice", None, 60)
    quota.record(0)
    assert quota.throttle_time() == 1_000
