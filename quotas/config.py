"""Every configuration key of a broker's quotas, with Kafka's names, defaults and limits.

The keys of entities stand in `quotas.limits`. `telemetry.max.bytes` and `interval.ms` are telemetry's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from base.errors import InvalidConfigError
from quotas.callback import CLIENT_QUOTA_CALLBACK_CLASS_CONFIG
from quotas.client_quota import ClientQuotaManagerConfig
from quotas.connection_quota_config import check_per_ip
from quotas.limits import (
    IP_QUOTA_KEYS,
    TELEMETRY_QUOTA_KEYS,
    USER_AND_CLIENT_QUOTA_KEYS,
    EntityQuotaKey,
    checked_number,
    checked_quota_value,
)
from quotas.metric_config import INT_MAX, NUM_QUOTA_SAMPLES_DEFAULT, QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, UNBOUNDED
from quotas.replication import (
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    ReplicationQuotaManagerConfig,
)

__all__ = [
    "IP_QUOTA_KEYS",
    "QUOTA_BYTES_PER_SECOND_DEFAULT",
    "QUOTA_KEYS",
    "TELEMETRY_QUOTA_KEYS",
    "TOPIC_QUOTA_KEYS",
    "USER_AND_CLIENT_QUOTA_KEYS",
    "EntityQuotaKey",
    "QuotaConfig",
    "QuotaKey",
    "checked_quota_value",
]

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

    def checked(self, value: object) -> int | str | None:
        """The value as the key takes it; a number may be written as text.

        Raises:
            InvalidConfigError: the key does not take it.
        """
        if self.minimum is not None:
            return checked_number(self.name, value, self.minimum, UNBOUNDED if self.default == UNBOUNDED else INT_MAX)
        if isinstance(value, str) or value is self.default is None:
            return value
        raise InvalidConfigError(f"{self.name}: it takes text, not {value!r}.")


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

    Raises:
        InvalidConfigError: a value is not what the key takes.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            key = QUOTA_KEYS[field.name.replace("_", ".")]
            object.__setattr__(self, field.name, key.checked(getattr(self, field.name)))
        check_per_ip(self.max_connections_per_ip, self.max_connections_per_ip_overrides)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "QuotaConfig":
        """Reads Kafka's keys; those that are not there have their defaults, numbers may be written as text.

        Raises:
            InvalidConfigError: a key is unknown, or its value is not what the key takes.
        """
        values: dict[str, object] = {}
        for name, value in properties.items():
            if name not in QUOTA_KEYS:
                raise InvalidConfigError(f"{name}: there is no such quota setting; there are {', '.join(QUOTA_KEYS)}.")
            values[name.replace(".", "_")] = value
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
