"""How a metric samples and what bounds it: the values that a statistic is given with every call."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quotas.quota import Quota

UNBOUNDED: Final = 2**63 - 1
"""Java's `Long.MAX_VALUE`, which Kafka uses where it means "never" or "as much as one likes"."""


NUM_QUOTA_SAMPLES_DEFAULT: Final = 11
"""10 whole windows and the current one."""
QUOTA_WINDOW_SIZE_SECONDS_DEFAULT: Final = 1
INT_MAX: Final = 2**31 - 1
"""Java's `Integer.MAX_VALUE`: the most that a key of Kafka's type int takes, and Kafka's "no limit" of connections, of
their rates, of percentages and of rates of mutations.
"""
INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS: Final = 3_600
"""Who records nothing for longer [s] begins anew (chapter 19, "Gotchas")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricConfig:
    """Kafka's `MetricConfig`, with Kafka's defaults. A metric's config is replaced as a whole; usage stays.

    The client quotas of a broker use 11 samples of 1,000 ms instead (`quota.window.num`,
    `quota.window.size.seconds`): 10 whole windows and the current one.

    Attributes:
        samples: how many windows are retained, the current one included.
        time_window_ms: width of one window [ms].
        event_window: a window is full after so many records, however young it is.
        quota: the bound, None for a metric that only measures.
        tags: default tags of the names that `Metrics.metric_name` makes.

    Raises:
        ValueError: `samples`, `time_window_ms` or `event_window` is below 1.
    """

    samples: int = 2
    time_window_ms: int = 30_000
    event_window: int = UNBOUNDED
    quota: Quota | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("samples", "time_window_ms", "event_window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    def with_quota(self, quota: Quota | None) -> "MetricConfig":
        """The same sampling under another bound, for `KafkaMetric.config`."""
        return dataclasses.replace(self, quota=quota)
