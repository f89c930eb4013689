"""Every configuration key of quotas, with Kafka's names, defaults and limits: of the broker and of entities.

Each is written here once. `telemetry.max.bytes` and `interval.ms`, which chapter 19's table has too, are telemetry's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quotas.callback import CLIENT_QUOTA_CALLBACK_CLASS_CONFIG
from quotas.client_quota import ClientQuotaManagerConfig
from quotas.defaults import INT_MAX, NUM_QUOTA_SAMPLES_DEFAULT, QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
from quotas.metric_config import UNBOUNDED
from quotas.quota_type import QuotaType
from quotas.replication import (
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    ReplicationQuotaManagerConfig,
)
from wire.errors import InvalidConfigError

QUOTA_BYTES_PER_SECOND_DEFAULT: Final = UNBOUNDED


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One key of the broker's configuration.

    Attributes:
        name: Kafka's key.
        default: None for a class that is not set.
        minimum: the smallest value allowed, of a number.
        dynamic_only: True if it is set at run time alone, and has no effect in a file.
    """

    name: str
    default: int | str | None
    minimum: int | None = None
    dynamic_only: bool = False


@dataclass(frozen=True, slots=True)
class EntityQuotaKey:
    """One limit that can be set for an entity, e.g. `producer_byte_rate` of a user.

    Attributes:
        name: Kafka's key.
        quota_type: the quota that it limits; None for the rate of connections.
        default: what holds where nothing is set.
        maximum: the largest value allowed.
        integral: False where fractions are allowed.
    """

    name: str
    quota_type: QuotaType | None
    default: float
    maximum: float
    integral: bool


QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    key.name: key
    for key in (
        QuotaKey("quota.window.num", NUM_QUOTA_SAMPLES_DEFAULT, 1),
        QuotaKey("quota.window.size.seconds", QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1),
        QuotaKey("controller.quota.window.num", NUM_QUOTA_SAMPLES_DEFAULT, 1),
        QuotaKey("controller.quota.window.size.seconds", QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1),
        QuotaKey("replication.quota.window.num", NUM_QUOTA_SAMPLES_DEFAULT, 1),
        QuotaKey("replication.quota.window.size.seconds", QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1),
        QuotaKey("alter.log.dirs.replication.quota.window.num", NUM_QUOTA_SAMPLES_DEFAULT, 1),
        QuotaKey("alter.log.dirs.replication.quota.window.size.seconds", QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1),
        QuotaKey(CLIENT_QUOTA_CALLBACK_CLASS_CONFIG, None),
        QuotaKey("leader.replication.throttled.rate", QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True),
        QuotaKey("follower.replication.throttled.rate", QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True),
        QuotaKey(
            "replica.alter.log.dirs.io.max.bytes.per.second", QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True
        ),
        QuotaKey("max.connections", INT_MAX, 0),
        QuotaKey("max.connections.per.ip", INT_MAX, 0),
        QuotaKey("max.connections.per.ip.overrides", ""),
        QuotaKey("max.connection.creation.rate", INT_MAX, 0),
    )
}

TOPIC_QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    name: QuotaKey(name, "")
    for name in (LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG, FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG)
}
"""Of a topic, not of the broker: `partition:broker,...` or `*`, read by `quotas.replication`."""

USER_AND_CLIENT_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    key.name: key
    for key in (
        EntityQuotaKey("producer_byte_rate", QuotaType.PRODUCE, UNBOUNDED, UNBOUNDED, integral=True),
        EntityQuotaKey("consumer_byte_rate", QuotaType.FETCH, UNBOUNDED, UNBOUNDED, integral=True),
        EntityQuotaKey("request_percentage", QuotaType.REQUEST, INT_MAX, math.inf, integral=False),
        EntityQuotaKey("controller_mutation_rate", QuotaType.CONTROLLER_MUTATION, INT_MAX, math.inf, integral=False),
    )
}
TELEMETRY_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    key.name: key
    for key in (
        EntityQuotaKey("telemetry_byte_rate", QuotaType.TELEMETRY_BYTE, UNBOUNDED, UNBOUNDED, integral=False),
        EntityQuotaKey("telemetry_push_rate", QuotaType.TELEMETRY_PUSH, UNBOUNDED, UNBOUNDED, integral=False),
    )
}
"""Fleetgauge's own, for users and client ids: a client pushes once in minutes, so that rates are fractions."""
IP_QUOTA_KEYS: Final[Mapping[str, EntityQuotaKey]] = {
    "connection_creation_rate": EntityQuotaKey("connection_creation_rate", None, INT_MAX, INT_MAX, integral=True)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """The broker's quota configuration, a field for each key of `QUOTA_KEYS`, dots as underscores.

    Attributes:
        quota_window_num: windows retained for client quotas, the current one included.
        quota_window_size_seconds: width of one [s]; also the longest delay of request and connection-rate quotas.
        controller_quota_window_num: the same for controller mutations; number and width make the bucket's burst.
        controller_quota_window_size_seconds: [s].
        replication_quota_window_num: the same for leader and follower replication.
        replication_quota_window_size_seconds: [s].
        alter_log_dirs_replication_quota_window_num: the same for moves between log directories.
        alter_log_dirs_replication_quota_window_size_seconds: [s].
        client_quota_callback_class: dotted path of a `ClientQuotaCallback`, None for the default one.
        leader_replication_throttled_rate: of throttled replicas [bytes/s].
        follower_replication_throttled_rate: of throttled replicas [bytes/s].
        replica_alter_log_dirs_io_max_bytes_per_second: of moves between log directories [bytes/s].
        max_connections: of the whole broker at a time.
        max_connections_per_ip: of one address at a time.
        max_connections_per_ip_overrides: `host:number,...`.
        max_connection_creation_rate: of the whole broker [1/s].
    """

    quota_window_num: int = NUM_QUOTA_SAMPLES_DEFAULT
    quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
    controller_quota_window_num: int = NUM_QUOTA_SAMPLES_DEFAULT
    controller_quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
    replication_quota_window_num: int = NUM_QUOTA_SAMPLES_DEFAULT
    replication_quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
    alter_log_dirs_replication_quota_window_num: int = NUM_QUOTA_SAMPLES_DEFAULT
    alter_log_dirs_replication_quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT
    client_quota_callback_class: str | None = None
    leader_replication_throttled_rate: int = QUOTA_BYTES_PER_SECOND_DEFAULT
    follower_replication_throttled_rate: int = QUOTA_BYTES_PER_SECOND_DEFAULT
    replica_alter_log_dirs_io_max_bytes_per_second: int = QUOTA_BYTES_PER_SECOND_DEFAULT
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: str = ""
    max_connection_creation_rate: int = INT_MAX

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "QuotaConfig":
        """Reads Kafka's keys; those that are not there have their defaults, numbers may be written as text.

        Raises:
            InvalidConfigError: a key is unknown, or its value is not what the key takes.
        """
        values: dict[str, object] = {}
        for name, value in properties.items():
            key = QUOTA_KEYS.get(name)
            if key is None:
                raise InvalidConfigError(f"{name}: there is no such quota setting; there are {', '.join(QUOTA_KEYS)}.")
            values[name.replace(".", "_")] = _number(key, value) if key.minimum is not None else _text(key, value)
        return cls(**values)  # type: ignore[arg-type]

    @property
    def client(self) -> ClientQuotaManagerConfig:
        """How produce, fetch and request quotas are sampled."""
        return ClientQuotaManagerConfig(
            num_quota_samples=self.quota_window_num, quota_window_size_seconds=self.quota_window_size_seconds
        )

    @property
    def controller_mutation(self) -> ClientQuotaManagerConfig:
        """How the quota on controller mutations is sampled."""
        return ClientQuotaManagerConfig(
            num_quota_samples=self.controller_quota_window_num,
            quota_window_size_seconds=self.controller_quota_window_size_seconds,
        )

    @property
    def replication(self) -> ReplicationQuotaManagerConfig:
        """How the throttles of leaders and followers are sampled."""
        return ReplicationQuotaManagerConfig(
            num_quota_samples=self.replication_quota_window_num,
            quota_window_size_seconds=self.replication_quota_window_size_seconds,
        )

    @property
    def alter_log_dirs_replication(self) -> ReplicationQuotaManagerConfig:
        """How the throttle of moves between log directories is sampled."""
        return ReplicationQuotaManagerConfig(
            num_quota_samples=self.alter_log_dirs_replication_quota_window_num,
            quota_window_size_seconds=self.alter_log_dirs_replication_quota_window_size_seconds,
        )


def checked_quota_value(keys: Mapping[str, EntityQuotaKey], name: str, value: float) -> float:
    """A limit for an entity, by the rules of Kafka's controller.

    Args:
        keys: `USER_AND_CLIENT_QUOTA_KEYS` or `IP_QUOTA_KEYS`, whichever the entity takes.
        name: the key.
        value: the limit.

    Raises:
        InvalidConfigError: the entity has no such key, or the value is not above 0, too large, or a fraction where
            whole numbers are asked for.
    """
    key = keys.get(name)
    if key is None:
        raise InvalidConfigError(f"{name}: there is no such quota here; there are {', '.join(keys)}.")
    if not value > 0:
        raise InvalidConfigError(f"{name}: a quota must be greater than 0, not {value}.")
    if value > key.maximum:
        raise InvalidConfigError(f"{name}: {value} is too large, {key.maximum} is the most.")
    if key.integral and value != math.floor(value):
        raise InvalidConfigError(f"{name}: it takes whole numbers, not {value}.")
    return float(value)


def _number(key: QuotaKey, value: object) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidConfigError(f"{key.name}: it takes a whole number, not {value!r}.")
    most = UNBOUNDED if key.default == UNBOUNDED else INT_MAX
    if key.minimum is None or not key.minimum <= number <= most:
        raise InvalidConfigError(f"{key.name}: it lies between {key.minimum} and {most}, and is not {number}.")
    return number


def _text(key: QuotaKey, value: object) -> str | None:
    if value is None and key.default is None:
        return None
    if not isinstance(value, str):
        raise InvalidConfigError(f"{key.name}: it takes text, not {value!r}.")
    return value
