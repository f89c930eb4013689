"""Limits that Kafka takes and refuses, set on our classes, as a script for `support.quotas.quota_oracle`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from support.quotas.quota_oracle import Script

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas import (
    IP_QUOTA_KEYS,
    USER_AND_CLIENT_QUOTA_KEYS,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    QuotaConfig,
    checked_quota_value,
)
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.replication import ReplicationQuotaManager, ReplicationQuotaManagerConfig

ENTITY_VALUES = (
    *("0", "-1", "-0.5", "0.0000005", "0.00001", "0.5", "0.9999999", "1", "1.0000005", "1.000002", "1.5", "1000"),
    *("2147483647", "2147483648", "9223372036854775807", "9.3e18", "Infinity", "-Infinity"),
)
NUMBERS = ("-2147483649", "-2147483648", "-1", "0", "1", "+5", "2147483647", "2147483648", "5.0", "1_0", "many", "1e3")
WINDOWS = ("quota.window.num", "quota.window.size.seconds")
RATES = {
    QuotaType.LEADER_REPLICATION: "leader.replication.throttled.rate",
    QuotaType.FOLLOWER_REPLICATION: "follower.replication.throttled.rate",
    QuotaType.ALTER_LOG_DIRS_REPLICATION: "replica.alter.log.dirs.io.max.bytes.per.second",
}
ADDRESS, LISTENER = "192.0.2.1", "EXTERNAL"


def limit_script() -> Script:
    """Every way to set a limit, with values from below to above what it takes."""
    script = Script("limits")
    script.say("new limits", "new")
    _entities(script)
    _broker(script)
    _listener(script)
    _dynamic(script)
    return script


def answer(setting: Callable[[], object]) -> str:
    """`ok`, or the first clause of what it is refused with: some sentences of ours go on with what there is."""
    try:
        setting()
    except InvalidConfigError as error:
        return f"refused {str(error).partition(';')[0]}"
    return "ok"


def _entities(script: Script) -> None:
    for kind, keys in (("users", USER_AND_CLIENT_QUOTA_KEYS), ("ips", IP_QUOTA_KEYS)):
        for key in (*USER_AND_CLIENT_QUOTA_KEYS, *IP_QUOTA_KEYS):
            for value in ENTITY_VALUES:
                said = answer(partial(checked_quota_value, keys, key, float(value)))
                script.say(f"entity {kind} {key} {value}", said)


def _broker(script: Script) -> None:
    quotas = _connection_quotas()
    updates: dict[str, Callable[[int], None]] = {
        "max.connections": quotas.update_broker_max_connections,
        "max.connections.per.ip": quotas.update_max_connections_per_ip,
        "max.connection.creation.rate": quotas.update_broker_max_connection_rate,
    }
    for value in NUMBERS:
        for key, update in updates.items():
            said = answer(partial(update, value))  # type: ignore[arg-type]  # wrong on purpose
            script.say(f"broker {key} {value}", said)
        for key in (*updates, *WINDOWS):
            said = answer(partial(QuotaConfig.from_properties, {key: value}))
            script.say(f"broker {key} {value}", said)
    overrides = "max.connections.per.ip.overrides"
    said = answer(lambda: QuotaConfig.from_properties({"max.connections.per.ip": 0, overrides: f"{ADDRESS}:1"}))
    script.say(f"broker max.connections.per.ip 0 {overrides} {ADDRESS}:1", said)
    quotas.update_max_connections_per_ip_overrides({ADDRESS: 1})
    said = answer(lambda: quotas.update_max_connections_per_ip(0))
    script.say(f"broker max.connections.per.ip 0 {overrides} {ADDRESS}:1", said)


def _listener(script: Script) -> None:
    quotas = _connection_quotas()
    for value in NUMBERS:
        text: Any = value  # wrong on purpose
        said = answer(partial(quotas.update_listener, LISTENER, max_connections=text))
        script.say(f"listener max.connections {value}", said)
        said = answer(partial(quotas.update_listener, LISTENER, max_connection_creation_rate=text))
        script.say(f"listener max.connection.creation.rate {value}", said)


def _dynamic(script: Script) -> None:
    quotas = _connection_quotas()
    for value in NUMBERS:
        text: Any = value  # wrong on purpose
        for address in (ADDRESS, None):
            said = answer(partial(quotas.update_ip_connection_rate_quota, address, text))
            script.say(f"dynamic connection_creation_rate {value}", said)
        for key in RATES.values():
            said = answer(partial(QuotaConfig.from_properties, {key: value}))
            script.say(f"dynamic {key} {value}", said)
    for quota_type, key in RATES.items():
        time = MockTime()
        config = ReplicationQuotaManagerConfig()
        manager = ReplicationQuotaManager(config, Metrics(time=time), quota_type, time)
        for bound in (-(2**63), -1, 0, 1, 2**31):
            said = answer(partial(manager.update_quota, Quota.upper_bound(bound)))
            script.say(f"dynamic {key} {bound}", said)


def _connection_quotas() -> ConnectionQuotas:
    quotas = ConnectionQuotas(ConnectionQuotaConfig(), Metrics(time=MockTime()))
    quotas.add_listener(LISTENER)
    return quotas
