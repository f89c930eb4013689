"""Sampling and quota of a metric, passed to its statistic with every call; and Kafka's defaults."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.metrics.quota import Quota

UNBOUNDED: Final = 2**63 - 1
"""Java's `Long.MAX_VALUE`, which Kafka uses for "never" and "unlimited"."""

NUM_QUOTA_SAMPLES_DEFAULT: Final = 11
"""10 whole windows and the current one."""
QUOTA_WINDOW_SIZE_SECONDS_DEFAULT: Final = 1
INT_MAX: Final = 2**31 - 1
"""Java's `Integer.MAX_VALUE`: the largest value of an INT key, and Kafka's "no limit" for connections, their
rates, percentages and mutation rates.
"""
INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS: Final = 3_600
"""A sensor without a record for longer is removed, and starts from zero [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricConfig:
    """Kafka's `MetricConfig`, with Kafka's defaults. A metric's config is replaced as a whole; usage is kept.

    The client quotas of a broker use 11 samples of 1,000 ms instead (`quota.window.num`,
    `quota.window.size.seconds`): 10 whole windows and the current one.

    Attributes:
        samples: number of retained windows, including the current one.
        time_window_ms: width of one window [ms].
        event_window: number of records after which a window is full, whatever its age.
        quota: the bound, None without one.
        tags: default tags for `Metrics.metric_name`.

    Raises:
        TypeError: one of the numbers is not whole, the quota is no `Quota`, or the tags are no mapping.
        ValueError: `samples`, `time_window_ms` or `event_window` is below 1.
    """

    samples: int = 2
    time_window_ms: int = 30_000
    event_window: int = UNBOUNDED
    quota: Quota | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_types(quota=(self.quota, (Quota, NoneType)), tags=(self.tags, Mapping))
        for name in ("samples", "time_window_ms", "event_window"):
            check_types(**{name: (getattr(self, name), int)})
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def with_quota(self, quota: Quota | None) -> "MetricConfig":
        """Returns the same sampling with another bound, for `KafkaMetric.config`."""
        return dataclasses.replace(self, quota=quota)
