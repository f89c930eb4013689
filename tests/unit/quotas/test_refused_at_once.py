"""What is wrong is refused at the call, and nothing has changed then."""

import math
from typing import Any

import pytest

from fleetgauge.quotas import (
    ClientQuotaCallback,
    ClientQuotaManager,
    ClientQuotaManagerConfig,
    ClientQuotaType,
    ClientRequestQuotaManager,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ControllerMutationQuotaManager,
    DefaultQuotaCallback,
    InvalidConfigError,
    KafkaPrincipal,
    KafkaQuotaEntity,
    MetricConfig,
    Metrics,
    MockTime,
    Quota,
    QuotaConfig,
    QuotaType,
    ReplicationQuotaManager,
    ReplicationQuotaManagerConfig,
    Session,
    UserEntity,
)

pytestmark = pytest.mark.replaces  # compiled functions check types themselves, with words of their own

ALICE = KafkaQuotaEntity(UserEntity("alice"), None)
SESSION = Session(KafkaPrincipal("User", "alice"))


def manager_of(callback: ClientQuotaCallback | None = None) -> tuple[ClientQuotaManager, Metrics]:
    time = MockTime()
    metrics = Metrics(time=time)
    return ClientQuotaManager(ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, time, callback), metrics


def limit_in_force(manager: ClientQuotaManager) -> float:
    """The bound of the metric under alice's quota."""
    quota = manager.get_or_create_quota_sensors(SESSION, "app").quota_sensor.metrics[0].config.quota
    assert quota is not None
    return quota.bound


@pytest.mark.parametrize("wrong", ["alice", None, UserEntity("alice"), ("alice", None)])
def test_of_several_quotas_none_is_changed_if_one_entity_is_wrong(wrong: Any) -> None:
    manager, _ = manager_of()
    manager.update_quotas({ALICE: Quota.upper_bound(10)})
    assert limit_in_force(manager) == 10
    with pytest.raises(TypeError, match="must be KafkaQuotaEntity, not"):
        manager.update_quotas({ALICE: Quota.upper_bound(20), wrong: Quota.upper_bound(5)})
    with pytest.raises(TypeError, match="must be KafkaQuotaEntity, not"):
        manager.update_quotas({ALICE: None, wrong: None})
    assert manager.quota("alice", "app").bound == 10
    assert limit_in_force(manager) == 10


class _HalfCallback(DefaultQuotaCallback):
    """Takes quotas of alice alone."""

    def update_quota(self, quota_type: Any, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        if quota_entity != ALICE:
            raise RuntimeError("no such group")
        super().update_quota(quota_type, quota_entity, new_value)


def test_metrics_have_the_limits_of_a_callback_that_refuses_one_of_several_quotas() -> None:
    manager, _ = manager_of(_HalfCallback())
    manager.update_quotas({ALICE: Quota.upper_bound(10)})
    assert limit_in_force(manager) == 10
    other = KafkaQuotaEntity(UserEntity("bob"), None)
    with pytest.raises(RuntimeError, match="no such group"):
        manager.update_quotas({ALICE: Quota.upper_bound(20), other: Quota.upper_bound(5)})
    assert manager.quota("alice", "app").bound == limit_in_force(manager) == 20


def test_no_connection_of_any_address_is_refused_also_by_taking_the_overrides_away() -> None:
    with pytest.raises(InvalidConfigError, match="can be set to zero only if"):
        ConnectionQuotaConfig(max_connections_per_ip=0)
    config = ConnectionQuotaConfig(max_connections_per_ip=0, max_connections_per_ip_overrides={"192.0.2.7": 1})
    quotas = ConnectionQuotas(config, Metrics(time=MockTime()))
    quotas.add_listener("L")
    with pytest.raises(InvalidConfigError, match="can be set to zero only if"):
        quotas.update_max_connections_per_ip_overrides({})
    assert str(quotas.decide(quotas.arrive("L", 0, "192.0.2.7"), 0)) == "Admit()"
    quotas.update_max_connections_per_ip(5)
    quotas.update_max_connections_per_ip_overrides({})
    with pytest.raises(InvalidConfigError, match="can be set to zero only if"):
        quotas.update_max_connections_per_ip(0)
    for blank in ("", " ", ","):
        with pytest.raises(InvalidConfigError, match="can be set to zero only if"):
            QuotaConfig(max_connections_per_ip=0, max_connections_per_ip_overrides=blank)
    assert str(quotas.decide(quotas.arrive("L", 0, "192.0.2.8"), 0)) == "Admit()"


def test_a_value_that_is_no_number_throttles_for_no_time_as_in_kafka() -> None:
    time = MockTime()
    metrics = Metrics(time=time)
    manager = ClientQuotaManager(ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, time)
    manager.update_quota(UserEntity("alice"), None, Quota.upper_bound(10))
    assert manager.record_and_get_throttle_time_ms(SESSION, "app", math.nan) == 0
    requests = ClientRequestQuotaManager(ClientQuotaManagerConfig(), metrics, time)
    requests.update_quota(UserEntity("alice"), None, Quota.upper_bound(10))
    assert requests.record_and_get_throttle_time_ms(SESSION, "app", math.nan) == 0
    mutations = ControllerMutationQuotaManager(ClientQuotaManagerConfig(), metrics, time)
    mutations.update_quota(UserEntity("alice"), None, Quota.upper_bound(10))
    assert mutations.record_and_get_throttle_time_ms(SESSION, "app", math.nan) == 0
    quota = mutations.new_permissive_quota_for(SESSION, "app")
    quota.record(math.nan)
    assert quota.throttle_time() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"quota": 5},
        {"quota": "upper=5"},
        {"samples": 1.5},
        {"samples": "2"},
        {"time_window_ms": 1e3},
        {"event_window": None},
        {"tags": None},
        {"tags": "user"},
    ],
)
def test_a_config_of_a_metric_has_whole_numbers_a_quota_and_tags(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be"):
        MetricConfig(**wrong)
    with pytest.raises(TypeError, match="must be"):
        MetricConfig().with_quota(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ClientQuotaManagerConfig, ReplicationQuotaManagerConfig])
@pytest.mark.parametrize("name", ["num_quota_samples", "quota_window_size_seconds"])
@pytest.mark.parametrize("wrong", [1.5, "11", None])
def test_a_sampling_of_quotas_has_whole_numbers(kind: Any, name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=f"{name} must be int, not"):
        kind(**{name: wrong})


def test_a_quota_is_an_upper_or_a_lower_bound() -> None:
    with pytest.raises(TypeError, match="upper must be bool, not 'lower'"):
        Quota(5, "lower")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["0,1", "", b"\0", [0, "1"], ["0"], [1.5], [None], {"0": 1}])
def test_partitions_are_numbers_and_others_change_nothing(wrong: Any) -> None:
    time = MockTime()
    manager = ReplicationQuotaManager(ReplicationQuotaManagerConfig(), Metrics(time=time), "LeaderReplication", time)
    manager.mark_throttled("orders", [3])
    with pytest.raises(TypeError, match="must be"):
        manager.mark_throttled("orders", wrong)
    with pytest.raises(TypeError, match="topic must be str, not 5"):
        manager.mark_throttled(5, [0])  # type: ignore[arg-type]
    assert [manager.is_throttled("orders", partition) for partition in (0, 1, 3)] == [False, False, True]


def test_the_default_callback_removes_quotas_of_entities_alone() -> None:
    with pytest.raises(TypeError, match="quota_entity must be KafkaQuotaEntity, not 'alice'"):
        DefaultQuotaCallback().remove_quota(ClientQuotaType.PRODUCE, "alice")  # type: ignore[arg-type]
