"""Quota managers on a clock moved by hand, and channels that know how often they were muted."""

from dataclasses import dataclass, field

from fleetgauge.base.clock import MockTime
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntity,
    UserEntity,
)
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.session import Session

DEFAULT = "<default>"


def session(user: str = "alice") -> Session:
    return Session(KafkaPrincipal("User", user))


def user_entity(user: str | None) -> ConfigEntity | None:
    if user is None:
        return None
    return DEFAULT_USER_ENTITY if user == DEFAULT else UserEntity.of(user)


def client_entity(client_id: str | None) -> ConfigEntity | None:
    if client_id is None:
        return None
    return DEFAULT_CLIENT_ID_ENTITY if client_id == DEFAULT else ClientIdEntity(client_id)


def set_quota(manager: ClientQuotaManager, user: str | None, client_id: str | None, bound: float | None) -> None:
    """Sets, or removes for None; `DEFAULT` stands for all users or client ids."""
    quota = None if bound is None else Quota.upper_bound(bound)
    manager.update_quota(user_entity(user), client_entity(client_id), quota)


def value_of(metrics: Metrics, name: str, group: str, user: str, client_id: str) -> float:
    """The metric with the tags that Kafka gives it, whatever it is now."""
    metric = metrics.metric(MetricName(name, group, tags={"user": user, "client-id": client_id}))
    assert metric is not None, f"no {name} of {user!r} and {client_id!r} among {list(metrics.metrics())}"
    value = metric.metric_value()
    assert isinstance(value, float)
    return value


@dataclass
class Channel:
    """Counts, and holds the rule that a channel is never unmuted without its mute."""

    starts: int = 0
    ends: int = 0
    ended_at_ms: list[int] = field(default_factory=list)
    time: MockTime | None = None

    @property
    def muted(self) -> bool:
        return self.starts > self.ends

    def start_throttling(self) -> None:
        self.starts += 1

    def end_throttling(self) -> None:
        self.ends += 1
        assert self.ends <= self.starts, "unmuted more often than muted"
        if self.time is not None:
            self.ended_at_ms.append(self.time.hi_res_clock_ms())


CONFIG = ClientQuotaManagerConfig()
