"""Misuse is a `TypeError` or a `ValueError`: every public constructor and method of `quotas`, given wrong arguments."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleetgauge import quotas
from fleetgauge.quotas import (
    Avg,
    BlockingConnectionQuotas,
    ClientQuotaManager,
    ClientQuotaManagerConfig,
    ClientRequestQuotaManager,
    Cluster,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ControllerMutationQuotaManager,
    DefaultQuotaCallback,
    Identities,
    InvalidConfigError,
    KafkaPrincipal,
    KafkaQuotaEntity,
    MetricConfig,
    MetricName,
    Metrics,
    MockTime,
    MutationQuotaExceededError,
    Quota,
    QuotaConfig,
    QuotaManagers,
    QuotaType,
    QuotaViolationError,
    ReplicationQuotaManager,
    ReplicationQuotaManagerConfig,
    Session,
    ThrottledChannelReaper,
    UserEntity,
)

pytestmark = pytest.mark.replaces  # compiled functions check types themselves, and have no signature to read

WRONG: tuple[object, ...] = ("text", 5, None, object(), -1, float("nan"), b"x", [1], {"a": 1})
ALLOWED = (TypeError, ValueError, LookupError, InvalidConfigError, QuotaViolationError, MutationQuotaExceededError)
TIME = MockTime()
GOOD: dict[str, object] = {
    "session": Session(KafkaPrincipal("User", "alice")),
    "client_id": "app",
    "value": 1.0,
    "time_ms": 5_000,
    "now_ms": 5_000,
    "name": "x",
    "group": "g",
    "metric_name": MetricName("q", "g"),
    "provider": Avg(),
    "config": ClientQuotaManagerConfig(),
    "metrics": Metrics(time=TIME),
    "quota_type": QuotaType.PRODUCE,
    "time": TIME,
    "principal": KafkaPrincipal("User", "alice"),
    "user": "alice",
    "throttle_time_ms": 5,
    "listener_name": "L",
    "address": "192.0.2.7",
    "user_entity": UserEntity("alice"),
    "client_id_entity": None,
    "quota": Quota.upper_bound(3),
    "permits": 1.0,
    "most": 5,
    "topic": "orders",
    "partition": 1,
}
"""A right argument by name, so that each other one is tried alone."""


def made() -> dict[str, object]:
    """One of everything that has methods."""
    metrics = Metrics(time=TIME)
    sampling = ClientQuotaManagerConfig()
    clients = ClientQuotaManager(sampling, metrics, QuotaType.PRODUCE, TIME)
    mutations = ControllerMutationQuotaManager(sampling, metrics, TIME)
    for manager in (clients, mutations):
        manager.update_quota(UserEntity("alice"), None, Quota.upper_bound(10))
    connections = ConnectionQuotas(ConnectionQuotaConfig(), metrics)
    connections.add_listener("L")
    sensor = metrics.sensor("s")
    sensor.add(metrics.metric_name("n", "g"), Avg())
    return {
        "metrics": metrics,
        "clients": clients,
        "requests": ClientRequestQuotaManager(sampling, metrics, TIME),
        "mutations": mutations,
        "replication": ReplicationQuotaManager(ReplicationQuotaManagerConfig(), metrics, "LeaderReplication", TIME),
        "connections": connections,
        "blocking": BlockingConnectionQuotas(connections, TIME),
        "sensor": sensor,
        "metric": sensor.metrics[0],
        "managers": QuotaManagers.instantiate(QuotaConfig(), Metrics(time=TIME), TIME),
        "identities": Identities(),
        "callback": DefaultQuotaCallback(),
        "reaper": ThrottledChannelReaper("r", lambda change: None),
        "quota": Quota.upper_bound(1),
        "config": QuotaConfig(),
        "sampling": MetricConfig(),
        "cluster": Cluster(),
        "entity": KafkaQuotaEntity(UserEntity("alice"), None),
    }


BLOCKS = {"inc"}
OF_STATISTICS = {"measure"}
"""Methods of a statistic, which a metric shows: only sensors call them."""


def constructors_and_functions() -> Iterator[str]:
    for name in vars(quotas)["__all__"]:
        found = getattr(quotas, name)
        is_class = inspect.isclass(found) and not issubclass(found, BaseException)
        if inspect.isfunction(found) or (is_class and not getattr(found, "_is_protocol", False)):
            yield name


def methods() -> Iterator[tuple[str, str]]:
    for owner, found in made().items():
        for name, _ in inspect.getmembers(type(found), callable):
            if not name.startswith("_") and name not in BLOCKS | OF_STATISTICS:
                yield owner, name


def try_all(signature: inspect.Signature, call: Callable[[], Callable[..., object]]) -> None:
    """Calls with every argument wrong, and with each one wrong among right ones."""
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_POSITIONAL]
    required = [each.name for each in parameters if each.default is each.empty]
    for wrong in WRONG:
        attempts: list[dict[str, Any]] = [dict.fromkeys(required, wrong)]
        attempts += [{**{name: GOOD.get(name, wrong) for name in required}, tried.name: wrong} for tried in parameters]
        for arguments in attempts:
            by_position = [arguments.pop(each.name) for each in parameters if each.kind is each.POSITIONAL_ONLY]
            with contextlib.suppress(*ALLOWED):
                call()(*by_position, **arguments)


@pytest.mark.parametrize("name", tuple(constructors_and_functions()))
def test_a_constructor_or_function_refuses_wrong_arguments_by_type_or_value(name: str) -> None:
    found = getattr(quotas, name)
    try:
        signature = inspect.signature(found)
    except ValueError:
        return  # takes nothing
    try_all(signature, lambda: found)


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name"), tuple(methods()))
def test_a_method_refuses_wrong_arguments_by_type_or_value(owner: str, name: str) -> None:
    signature = inspect.signature(getattr(made()[owner], name))
    try_all(signature, lambda: getattr(made()[owner], name))


def test_a_wrong_type_is_named_in_the_error() -> None:
    record: Any = getattr(made()["clients"], "record_and_get_throttle_time_ms")  # noqa: B009 - of an `object`
    with pytest.raises(TypeError, match="session must be Session, not 'alice'"):
        record("alice", "app", 1.0)
    with pytest.raises(TypeError, match="time needs a method hi_res_clock_ms"):
        Metrics(time="now")  # type: ignore[arg-type]
