"""The configuration keys of a broker's quotas, with Kafka's names, defaults and limits.

See `quotas.limits` for the keys of entities. `telemetry.max.bytes` and `interval.ms` are telemetry's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig
from fleetgauge.quotas.connections.connection_quota_config import check_per_ip
from fleetgauge.quotas.limits import checked_number
from fleetgauge.quotas.metrics.metric_config import (
    INT_MAX,
    NUM_QUOTA_SAMPLES_DEFAULT,
    QUOTA_WINDOW_SIZE_SECONDS_DEFAULT,
    UNBOUNDED,
)
from fleetgauge.quotas.replication import (
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG,
    ReplicationQuotaManagerConfig,
)

QUOTA_BYTES_PER_SECOND_DEFAULT: Final = UNBOUNDED


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One key of the broker's configuration.

    Attributes:
        name: Kafka's key.
        default: None for a class without a default.
        minimum: smallest value of a number.
        dynamic_only: True if it can only be set at run time, and has no effect in a file.
    """

    name: str
    default: int | str | None
    minimum: int | None = None
    dynamic_only: bool = False

    def checked(self, value: object) -> int | str | None:
        """Returns the checked value; a number may be written as text.

        Raises:
            InvalidConfigError: the key does not accept the value.
        """
        if self.minimum is not None:
            return checked_number(self.name, value, self.minimum, UNBOUNDED if self.default == UNBOUNDED else INT_MAX)
        if isinstance(value, str) or value is self.default is None:
            return value
        raise InvalidConfigError(f"{self.name}: it takes text, not {value!r}.")


TOPIC_QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    name: QuotaKey(name, "")
    for name in (LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG, FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG)
}
"""Keys of a topic, not of the broker: `partition:broker,...` or `*`, parsed by `quotas.replication`."""


def _key(default: int | str | None, minimum: int | None = None, *, dynamic_only: bool = False) -> Any:
    """A field with what `QUOTA_KEYS` says of its key."""
    return field(default=default, metadata={"default": default, "minimum": minimum, "dynamic_only": dynamic_only})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """The broker's quota configuration, one field per key of `QUOTA_KEYS`, dots as underscores.

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
        max_connections: open at a time on the whole broker.
        max_connections_per_ip: open at a time from one address.
        max_connections_per_ip_overrides: `host:number,...`.
        max_connection_creation_rate: of the whole broker [1/s].

    Raises:
        InvalidConfigError: a key does not accept its value.
    """

    quota_window_num: int = _key(NUM_QUOTA_SAMPLES_DEFAULT, 1)
    quota_window_size_seconds: int = _key(QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1)
    controller_quota_window_num: int = _key(NUM_QUOTA_SAMPLES_DEFAULT, 1)
    controller_quota_window_size_seconds: int = _key(QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1)
    replication_quota_window_num: int = _key(NUM_QUOTA_SAMPLES_DEFAULT, 1)
    replication_quota_window_size_seconds: int = _key(QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1)
    alter_log_dirs_replication_quota_window_num: int = _key(NUM_QUOTA_SAMPLES_DEFAULT, 1)
    alter_log_dirs_replication_quota_window_size_seconds: int = _key(QUOTA_WINDOW_SIZE_SECONDS_DEFAULT, 1)
    client_quota_callback_class: str | None = _key(None)
    leader_replication_throttled_rate: int = _key(QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True)
    follower_replication_throttled_rate: int = _key(QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True)
    replica_alter_log_dirs_io_max_bytes_per_second: int = _key(QUOTA_BYTES_PER_SECOND_DEFAULT, 0, dynamic_only=True)
    max_connections: int = _key(INT_MAX, 0)
    max_connections_per_ip: int = _key(INT_MAX, 0)
    max_connections_per_ip_overrides: str = _key("")
    max_connection_creation_rate: int = _key(INT_MAX, 0)

    def __post_init__(self) -> None:
        for name, key in QUOTA_KEYS.items():
            attribute = name.replace(".", "_")
            object.__setattr__(self, attribute, key.checked(getattr(self, attribute)))
        check_per_ip(self.max_connections_per_ip, self.max_connections_per_ip_overrides.strip(" ,"))

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "QuotaConfig":
        """Reads Kafka's keys; missing ones have their defaults, numbers may be written as text.

        Raises:
            InvalidConfigError: a key is unknown, or does not accept its value.
        """
        check_types(properties=(properties, Mapping))
        values: dict[str, object] = {}
        for name, value in properties.items():
            if name not in QUOTA_KEYS:
                raise InvalidConfigError(f"{name}: there is no such quota setting; there are {', '.join(QUOTA_KEYS)}.")
            values[name.replace(".", "_")] = value
        return cls(**values)  # type: ignore[arg-type]

    @property
    def client(self) -> ClientQuotaManagerConfig:
        """Sampling of produce, fetch and request quotas."""
        return ClientQuotaManagerConfig(
            num_quota_samples=self.quota_window_num, quota_window_size_seconds=self.quota_window_size_seconds
        )

    @property
    def controller_mutation(self) -> ClientQuotaManagerConfig:
        """Sampling of the quota on controller mutations."""
        return ClientQuotaManagerConfig(
            num_quota_samples=self.controller_quota_window_num,
            quota_window_size_seconds=self.controller_quota_window_size_seconds,
        )

    @property
    def replication(self) -> ReplicationQuotaManagerConfig:
        """Sampling of the throttles of leaders and followers."""
        return ReplicationQuotaManagerConfig(
            num_quota_samples=self.replication_quota_window_num,
            quota_window_size_seconds=self.replication_quota_window_size_seconds,
        )

    @property
    def alter_log_dirs_replication(self) -> ReplicationQuotaManagerConfig:
        """Sampling of the throttle of moves between log directories."""
        return ReplicationQuotaManagerConfig(
            num_quota_samples=self.alter_log_dirs_replication_quota_window_num,
            quota_window_size_seconds=self.alter_log_dirs_replication_quota_window_size_seconds,
        )


QUOTA_KEYS: Final[Mapping[str, QuotaKey]] = {
    (name := each.name.replace("_", ".")): QuotaKey(name, **each.metadata) for each in fields(QuotaConfig)
}
