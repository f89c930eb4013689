"""Metrics of one client instance with Kafka's names, computed from plain counters.

Kafka keeps four sensors with eight statistics per client; here they are numbers in one object, from which the same
values are computed when they are read.
"""

import math
from typing import Final, NamedTuple

WINDOW_MS: Final = 30_000
"""Kafka's `metrics.sample.window.ms`; two windows are kept (`metrics.num.samples`)."""


class InstanceMetricValues(NamedTuple):
    """Values at one moment, in the order of `telemetry.instances.client_metrics.INSTANCE_METRICS`.

    Rates are per second; times in ms, NaN without recent values.
    """

    throttle_rate: float
    throttle_count: float
    plugin_export_rate: float
    plugin_export_count: float
    plugin_error_rate: float
    plugin_error_count: float
    plugin_export_time_avg: float
    plugin_export_time_max: float


class InstanceMetrics:
    """Counters of one instance: totals, and the latest two windows. Times are monotonic [ms].

    >>> metrics = InstanceMetrics(now_ms=0)
    >>> metrics.record_throttle(1_000)
    >>> metrics.record_plugin_export(4.0, 2_000)
    >>> metrics.values(20_000)[:2]  # a full window and 20 s of the current one, as in Kafka
    (0.02, 1.0)
    """

    __slots__ = (
        "_errors",
        "_export_max_ms",
        "_export_ms",
        "_exports",
        "_throttles",
        "_window_ms",
        "error_count",
        "export_count",
        "throttle_count",
    )

    def __init__(self, now_ms: int) -> None:
        self.throttle_count = 0
        self.export_count = 0
        self.error_count = 0
        self._clear(now_ms)

    def record_throttle(self, now_ms: int) -> None:
        """Records a request that came before it was due."""
        self._roll(now_ms)
        self.throttle_count += 1
        self._throttles[1] += 1

    def record_plugin_export(self, duration_ms: float, now_ms: int) -> None:
        """Records the export of a push to a receiver, which took `duration_ms` [ms]."""
        self.record_plugin_exports(1, duration_ms, duration_ms, now_ms)

    def record_plugin_exports(self, pushes: int, total_ms: float, longest_ms: float, now_ms: int) -> None:
        """Records exports of several pushes; together they took `total_ms`, the slowest `longest_ms` [ms]."""
        if not pushes:
            return
        self._roll(now_ms)
        self.export_count += pushes
        self._exports[1] += pushes
        self._export_ms[1] += total_ms
        if longest_ms > self._export_max_ms[1]:
            self._export_max_ms[1] = longest_ms

    def record_plugin_error(self, now_ms: int) -> None:
        """Records a failed export."""
        self._roll(now_ms)
        self.error_count += 1
        self._errors[1] += 1

    def values(self, now_ms: int) -> InstanceMetricValues:
        """Values at `now_ms`. Read-only, so that reporters may call it from their own threads."""
        passed = max((now_ms - self._window_ms) // WINDOW_MS, 0)
        recent = slice(passed, None)
        # Kafka's Rate divides by at least one full window in addition to the current one.
        elapsed_s = (WINDOW_MS + max(now_ms - self._window_ms, 0) % WINDOW_MS) / 1_000
        exports = sum(self._exports[recent])
        return InstanceMetricValues(
            throttle_rate=sum(self._throttles[recent]) / elapsed_s,
            throttle_count=float(self.throttle_count),
            plugin_export_rate=exports / elapsed_s,
            plugin_export_count=float(self.export_count),
            plugin_error_rate=sum(self._errors[recent]) / elapsed_s,
            plugin_error_count=float(self.error_count),
            plugin_export_time_avg=sum(self._export_ms[recent]) / exports if exports else math.nan,
            plugin_export_time_max=max(self._export_max_ms[recent]) if exports else math.nan,
        )

    def _roll(self, now_ms: int) -> None:
        """Begins a new window if due; windows are [previous, current]."""
        passed = (now_ms - self._window_ms) // WINDOW_MS
        if passed <= 0:
            return
        if passed > 1:
            self._clear(now_ms)
            return
        self._window_ms += WINDOW_MS
        for windows in (self._throttles, self._exports, self._errors, self._export_ms, self._export_max_ms):
            windows[0], windows[1] = windows[1], 0

    def _clear(self, now_ms: int) -> None:
        self._window_ms = now_ms
        self._throttles: list[float] = [0, 0]
        self._exports: list[float] = [0, 0]
        self._errors: list[float] = [0, 0]
        self._export_ms = [0.0, 0.0]
        self._export_max_ms = [0.0, 0.0]
