import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.quotas.quotas import CONFIG, DEFAULT, session, set_quota
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback, Cluster, PartitionInfo, load_callback
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.entity import KafkaQuotaEntity, UserEntity
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.quota_type import ClientQuotaType, QuotaType

EXAMPLES = Path(__file__).parents[3] / "examples"


class Recording(ClientQuotaCallback):
    """Tags by the first letter of the user; everybody's limit is the same; says what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.limit: float | None = 10.0
        self.reset_required = False
        self.metadata_matters = False

    def configure(self, configs: Mapping[str, object]) -> None:
        self.told.append(("configure", dict(configs)))

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        return {"initial": principal.name[0], "app": client_id}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        return self.limit

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        self.told.append((quota_type, quota_entity, new_value))

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        self.told.append((quota_type, quota_entity, None))

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        return self.reset_required

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        self.told.append(cluster)
        return self.metadata_matters

    def close(self) -> None:
        self.told.append("closed")


class Quiet(ClientQuotaCallback):
    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        return {}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        return None


class Unmakeable(Quiet):
    def __init__(self) -> None:
        raise OSError("no licence")


class Unconfigurable(Quiet):
    def configure(self, configs: Mapping[str, object]) -> None:
        raise KeyError("quota.server")


class NoCallback:
    pass


def rate_limit(metrics: Metrics, **tags: str) -> float:
    metric = metrics.metric(MetricName("byte-rate", "Produce", tags=tags))
    assert metric is not None
    assert metric.config.quota is not None
    return metric.config.quota.bound


def test_who_is_given_the_same_tags_shares_the_quota(metrics: Metrics, clock: MockTime) -> None:
    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock, Recording())
    assert manager.maybe_record_and_get_throttle_time_ms(session("alice"), "x", 100) == 0
    assert manager.maybe_record_and_get_throttle_time_ms(session("anna"), "x", 100) == 10_000
    assert manager.maybe_record_and_get_throttle_time_ms(session("bob"), "x", 100) == 0
    assert rate_limit(metrics, initial="a", app="x") == 10


def test_tags_of_which_kafka_would_make_the_same_name_are_told_apart(metrics: Metrics, clock: MockTime) -> None:
    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock, Recording())
    callback_tags = [{"initial": "a:b", "app": "c"}, {"initial": "a", "app": "b:c"}, {"other": "a", "app": "b:c"}]
    sensors = [manager._sensors_of(tags).quota_sensor for tags in callback_tags]
    assert len({sensor.name for sensor in sensors}) == 3
    assert manager._sensors_of({"app": "c", "initial": "a:b"}).quota_sensor is sensors[0], "the order says nothing"


def test_a_callback_is_told_of_every_quota_that_is_set_and_removed(metrics: Metrics, clock: MockTime) -> None:
    callback = Recording()
    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.FETCH, clock, callback)
    set_quota(manager, "alice", None, 5)
    set_quota(manager, "alice", None, None)
    entity = KafkaQuotaEntity(UserEntity("alice"), None)
    assert callback.told == [(ClientQuotaType.FETCH, entity, 5.0), (ClientQuotaType.FETCH, entity, None)]


def test_limits_that_changed_elsewhere_are_taken_up_when_the_callback_says_so(
    metrics: Metrics, clock: MockTime
) -> None:
    callback = Recording()
    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock, callback)
    manager.record_and_get_throttle_time_ms(session("alice"), "x", 900)
    callback.limit = 50
    assert manager.record_and_get_throttle_time_ms(session("alice"), "x", 0) == 80_000, "nobody said so yet"
    callback.reset_required = True
    assert manager.record_and_get_throttle_time_ms(session("alice"), "x", 0) == 8_000
    callback.limit = None
    assert manager.record_and_get_throttle_time_ms(session("alice"), "x", 0) == 0


def test_one_callback_serves_all_managers_and_hears_of_metadata_once(metrics: Metrics, clock: MockTime) -> None:
    config = QuotaConfig(client_quota_callback_class=f"{__name__}.Recording")
    managers = QuotaManagers.instantiate(config, metrics, clock, {"node.id": 1})
    callback: Any = managers.client_quota_callback
    assert type(callback).__name__ == "Recording"
    managers.produce.record_and_get_throttle_time_ms(session("alice"), "x", 0)
    callback.limit, callback.metadata_matters = 70.0, True
    cluster = Cluster(partitions=[PartitionInfo(topic="t", partition=0, leader=1)])
    managers.update_cluster_metadata(cluster)
    assert rate_limit(metrics, initial="a", app="x") == 70
    managers.shutdown()
    assert callback.told == [("configure", {"node.id": 1}), cluster, "closed"]


def test_metadata_that_changes_no_quota_changes_no_limit(metrics: Metrics, clock: MockTime) -> None:
    config = QuotaConfig(client_quota_callback_class=f"{__name__}:Recording")
    managers = QuotaManagers.instantiate(config, metrics, clock)
    managers.produce.record_and_get_throttle_time_ms(session("alice"), "x", 0)
    callback: Any = managers.client_quota_callback
    callback.limit = 70.0
    managers.update_cluster_metadata(Cluster())
    assert rate_limit(metrics, initial="a", app="x") == 10


def test_nobody_waits_for_a_callback_that_is_slow_for_somebody_else(metrics: Metrics, clock: MockTime) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    class Slow(Recording):
        def quota_metric_tags(
            self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
        ) -> Mapping[str, str]:
            if principal.name == "slow":
                asked.set()
                assert may_answer.wait(PATIENCE_S)
            return super().quota_metric_tags(quota_type, principal, client_id)

    manager = ClientQuotaManager(CONFIG, metrics, QuotaType.PRODUCE, clock, Slow())
    slow = threading.Thread(target=manager.record_no_throttle, args=(session("slow"), "x", 1))
    slow.start()
    assert asked.wait(PATIENCE_S)
    other = threading.Thread(target=manager.record_no_throttle, args=(session("alice"), "x", 1))
    other.start()
    other.join(PATIENCE_S)
    finished = not other.is_alive()
    may_answer.set()
    slow.join(PATIENCE_S)
    assert finished


def test_what_a_callback_need_not_do_is_done_by_its_base() -> None:
    callback = load_callback(f"{__name__}.Quiet", {})
    kind, entity = ClientQuotaType.PRODUCE, KafkaQuotaEntity(UserEntity("a"), None)
    callback.update_quota(kind, entity, 1.0)
    callback.remove_quota(kind, entity)
    assert callback.quota_reset_required(kind) is False
    assert callback.update_cluster_metadata(Cluster()) is False
    callback.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Group", "not a dotted path"),
        ("no.such.module.Group", "No module named"),
        (f"{__name__}.Missing", "has no attribute 'Missing'"),
        (f"{__name__}.Unmakeable", "no licence"),
        (f"{__name__}.Unconfigurable", "configure raised KeyError: 'quota.server'"),
        (f"{__name__}.NoCallback", "is not a ClientQuotaCallback: it lacks configure, quota_metric_tags"),
        ("", "not a dotted path"),
    ],
)
def test_a_callback_that_cannot_be_used_is_named_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said) as caught:
        load_callback(name, {})
    assert str(caught.value).startswith(f"client.quota.callback.class: cannot use {name}: ")


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.usefixtures("examples")
def test_the_example_of_groups_gives_several_principals_one_quota(metrics: Metrics, clock: MockTime) -> None:
    config = QuotaConfig(client_quota_callback_class="group_quotas.GroupQuotas")
    groups = {"quota.groups": "payments: alice, bob; search: carol"}
    produce = QuotaManagers.instantiate(config, metrics, clock, groups).produce
    set_quota(produce, "payments", None, 100)
    assert produce.maybe_record_and_get_throttle_time_ms(session("alice"), "x", 1_000) == 0
    assert produce.maybe_record_and_get_throttle_time_ms(session("bob"), "y", 1_000) == 10_000
    assert produce.maybe_record_and_get_throttle_time_ms(session("carol"), "x", 1_000_000) == 0
    set_quota(produce, DEFAULT, None, 10)
    assert produce.maybe_record_and_get_throttle_time_ms(session("carol"), "x", 0) > 0
    assert produce.maybe_record_and_get_throttle_time_ms(session("dave"), "x", 100) == 0
    set_quota(produce, "payments", None, None)
    assert rate_limit(metrics, group="payments") == 10


@pytest.mark.usefixtures("examples")
def test_the_example_of_partitions_gives_what_this_broker_leads_of_the_quota(metrics: Metrics, clock: MockTime) -> None:
    config = QuotaConfig(client_quota_callback_class="partition_quotas.PartitionQuotas")
    managers = QuotaManagers.instantiate(config, metrics, clock, {"node.id": "1"})
    set_quota(managers.produce, "alice", None, 800)
    managers.produce.record_and_get_throttle_time_ms(session("alice"), "x", 2_000)

    def leaders(*nodes: int | None) -> Cluster:
        alices = [PartitionInfo(topic="alice.t", partition=n, leader=node) for n, node in enumerate(nodes)]
        return Cluster(partitions=[*alices, PartitionInfo(topic="bob.t", partition=0, leader=1)])

    for nodes, share in [((1, 1, 2, 3, 4, 5, 6, None), 0.25), ((1,) * 8, 1.0), ((2,) * 8, 0.125), ((2, 1), 0.5)]:
        managers.update_cluster_metadata(leaders(*nodes))
        assert rate_limit(metrics, user="alice") == 800 * share
    managers.update_cluster_metadata(leaders(2, 2, 2, 2, 2, 2, 2, 1))
    wait_ms = managers.produce.record_and_get_throttle_time_ms(session("alice"), "x", 0)
    assert wait_ms == 10_000, "usage stays: 200 bytes/s against 100"


def test_a_cluster_tells_whose_partitions_are_where() -> None:
    partitions = [PartitionInfo(topic=topic, partition=0, leader=leader) for topic, leader in [("a", 1), ("b", None)]]
    cluster = Cluster(cluster_id="c", partitions=partitions)
    assert cluster.topics() == {"a", "b"}
    assert cluster.partitions_for_topic("b") == (partitions[1],)
    assert cluster.partitions_for_node(1) == (partitions[0],)
