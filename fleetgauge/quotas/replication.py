"""Throttles of replication and of moves between log directories: the throttled replicas, and bytes per second.

For library users, except `ReplicationQuotaManager`, by which `exporters.delivery.rate` limits the delivery of a
backlog.

Source: KIP-73, also for the forms of the throttled-replicas configs.
"""

import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas.limits import checked_replication_quota
from fleetgauge.quotas.metrics.metric_config import (
    INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS,
    INT_MAX,
    NUM_QUOTA_SAMPLES_DEFAULT,
    QUOTA_WINDOW_SIZE_SECONDS_DEFAULT,
    UNBOUNDED,
    MetricConfig,
)
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.rate import SimpleRate
from fleetgauge.quotas.metrics.utilization import add_quota_utilization

LEADER_REPLICATION_THROTTLED_REPLICAS_CONFIG: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICATION_THROTTLED_REPLICAS_CONFIG: Final = "follower.replication.throttled.replicas"

ALL_REPLICAS: Final = frozenset({-1})
"""Marks every partition of a topic as throttled; written `*`."""

_ALL: Final = "*"
_REPLICA: Final = re.compile(r"([0-9]+):([0-9]+)")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationQuotaManagerConfig:
    """Sampling of the throttled rate.

    Attributes:
        num_quota_samples: `replication.quota.window.num` or `alter.log.dirs.replication.quota.window.num`.
        quota_window_size_seconds: `...quota.window.size.seconds` [s].

    Raises:
        TypeError: one of them is no whole number.
        ValueError: one of them is below 1.
    """

    num_quota_samples: int = NUM_QUOTA_SAMPLES_DEFAULT
    quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        check_types(
            num_quota_samples=(self.num_quota_samples, int),
            quota_window_size_seconds=(self.quota_window_size_seconds, int),
        )
        if min(self.num_quota_samples, self.quota_window_size_seconds) < 1:
            raise ValueError("a replication quota needs at least one sample of at least one second")


class ReplicationQuotaManager:
    """Kafka's `ReplicationQuotaManager`: checked before bytes are moved, records the moved bytes. Safe for threads.

    It mutes no channel: a fetcher skips the partitions that are `is_throttled` while `is_quota_exceeded`, and records
    the bytes of the others, over the quota or not.

    >>> from fleetgauge.base.clock import MockTime
    >>> time = MockTime()
    >>> sampling = ReplicationQuotaManagerConfig(num_quota_samples=11, quota_window_size_seconds=1)
    >>> manager = ReplicationQuotaManager(sampling, Metrics(time=time), "LeaderReplication", time)
    >>> manager.update_quota(Quota.upper_bound(1_000))
    >>> manager.mark_throttled("orders", [0])
    >>> manager.record(1_500)
    >>> manager.is_throttled("orders", 0), manager.is_throttled("orders", 1), manager.is_quota_exceeded()
    (True, False, True)
    >>> time.sleep(2_000)
    >>> manager.is_quota_exceeded()
    False

    Args:
        config: sampling of the rate.
        metrics: where the sensor is registered; it expires after an hour without a record.
        quota_type: its text is the sensor's name and the group of the metric `byte-rate`:
            `LeaderReplication`, `FollowerReplication` or `AlterLogDirsReplication`.
        time: the clocks; only the monotonic one is read.
    """

    def __init__(self, config: ReplicationQuotaManagerConfig, metrics: Metrics, quota_type: object, time: Time) -> None:
        check_types(
            config=(config, ReplicationQuotaManagerConfig),
            metrics=(metrics, Metrics),
            time=(time, "hi_res_clock_ms"),
        )
        self._config = config
        self._metrics = metrics
        self._name = str(quota_type)
        self._time = time
        # One lock for the quota and the creation of the sensor: a new sensor never has a replaced quota.
        self._lock = threading.Lock()
        self._quota: Quota | None = None
        self._throttled: dict[str, frozenset[int]] = {}
        self._rate_metric_name = metrics.metric_name("byte-rate", self._name, f"Tracking byte-rate for {self._name}")

    def update_quota(self, quota: Quota | None) -> None:
        """Sets the bound [B/s], None for no bound; recorded usage is kept.

        Raises:
            InvalidConfigError: the bound is below 0.
            TypeError: it is not a `Quota`.
        """
        if quota is not None:
            checked_replication_quota(self._name, quota)
        with self._lock:
            self._quota = quota
            metric = self._metrics.metric(self._rate_metric_name)
            if metric is not None:
                metric.config = self._metric_config()

    @property
    def upper_bound(self) -> int:
        """The bound in force [B/s]; `UNBOUNDED` without one."""
        quota = self._quota
        return UNBOUNDED if quota is None else int(min(quota.bound, UNBOUNDED))

    def is_quota_exceeded(self) -> bool:
        """True if the recorded rate is over the bound now."""
        try:
            self._sensor().check_quotas()
        except QuotaViolationError as error:
            _logger.debug("%s: %s", self._name, error)
            return True
        return False

    def is_throttled(self, topic: str, partition: int) -> bool:
        """True if the replica of this partition is under the quota."""
        partitions = self._throttled.get(topic)
        return partitions is not None and (partitions is ALL_REPLICAS or partition in partitions)

    def record(self, value: int) -> None:
        """Adds `value` bytes of throttled replicas, whether the quota is exceeded or not."""
        self._sensor().record(value, check_quotas=False)

    def mark_throttled(self, topic: str, partitions: Iterable[int] = ALL_REPLICAS) -> None:
        """Sets the throttled partitions of a topic, by default all.

        Raises:
            TypeError: the partitions are no numbers, for example a text. Nothing is changed then.
        """
        check_types(topic=(topic, str), partitions=(partitions, Iterable))
        if isinstance(partitions, str | bytes):
            raise TypeError(f"partitions must be numbers, not {partitions!r}; parse_throttled_replicas reads text")
        chosen = frozenset(partitions)
        for partition in chosen:
            check_types(partition=(partition, int))
        self._throttled[topic] = ALL_REPLICAS if chosen == ALL_REPLICAS else chosen

    def remove_throttle(self, topic: str) -> None:
        """Removes the throttle of the topic."""
        self._throttled.pop(topic, None)

    def update_throttled_replicas(self, topic: str, config_name: str, value: str, broker_id: int) -> None:
        """Applies a topic's throttled-replicas config; an empty one throttles nothing.

        Raises:
            InvalidConfigError: see `parse_throttled_replicas`. Nothing is changed then.
        """
        check_types(value=(value, str))
        if value.strip():
            self.mark_throttled(topic, parse_throttled_replicas(config_name, value, broker_id))
        else:
            self.remove_throttle(topic)

    def _metric_config(self) -> MetricConfig:
        return MetricConfig(
            samples=self._config.num_quota_samples,
            time_window_ms=self._config.quota_window_size_seconds * 1_000,
            quota=self._quota,
        )

    def _sensor(self) -> Sensor:
        with self._lock:
            known = self._metrics.get_sensor(self._name)
            if known is not None:
                return known
            sensor = self._metrics.sensor(
                self._name, inactive_sensor_expiration_time_seconds=INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS
            )
            sensor.add(self._rate_metric_name, SimpleRate(), self._metric_config())
            add_quota_utilization(self._metrics, sensor, self._rate_metric_name)
            return sensor


def parse_throttled_replicas(config_name: str, value: str, broker_id: int) -> frozenset[int]:
    """Returns the partitions that a throttled-replicas config names for one broker.

    >>> sorted(parse_throttled_replicas("leader.replication.throttled.replicas", "0:101,0:102,1:101,1:102", 102))
    [0, 1]
    >>> parse_throttled_replicas("leader.replication.throttled.replicas", "*", 102) is ALL_REPLICAS
    True

    Args:
        config_name: `leader.replication.throttled.replicas` or `follower.replication.throttled.replicas`.
        value: `*`, or `partition:broker,...`; empty for none. Blanks around entries and empty entries at the
            end are ignored, as in Kafka's validator.
        broker_id: of the replicas.

    Raises:
        InvalidConfigError: `value` has neither form, or a number does not fit an int32.
    """
    check_types(value=(value, str))
    entries = [entry.strip() for entry in value.split(",")]
    if entries == [_ALL]:
        return ALL_REPLICAS
    while entries and not entries[-1]:
        entries.pop()
    replicas = [_read_replica(entry) for entry in entries]
    if None in replicas:
        raise InvalidConfigError(
            f"Invalid value {value[:200]!r} for configuration {config_name}: it must be the literal '*' or a list of "
            "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
    return frozenset(replica[0] for replica in replicas if replica is not None and replica[1] == broker_id)


def _read_replica(entry: str) -> tuple[int, int] | None:
    match = _REPLICA.fullmatch(entry)
    if match is None or max(len(match[1]), len(match[2])) > 4_000:
        return None  # Python refuses to read numbers of more digits than that
    partition, broker = int(match[1]), int(match[2])
    return (partition, broker) if max(partition, broker) <= INT_MAX else None
