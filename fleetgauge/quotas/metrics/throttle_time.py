"""Throttle times: the wait until a violated quota is met again."""

import math
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.metrics.sensor import QuotaViolationError
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket

MAX_THROTTLE_TIME_MS: Final = 2**31 - 1
"""`throttle_time_ms` is an int32 on the wire."""


def throttle_time(error: QuotaViolationError, now_ms: int) -> int:
    """Returns the wait [ms] until the violating rate is back at its bound, if nothing more is recorded.

    With an observed rate O, a bound T and a window W, O * W / (W + X) = T gives X = (O - T) / T * W: 5.6 a second
    against 5 over 100,000 ms is 12,000 ms. Rounded half up as Java does, and never above `MAX_THROTTLE_TIME_MS`.

    Args:
        error: raised by `Sensor.record`.
        now_ms: monotonic time of the record [ms].

    Raises:
        TypeError: the metric is not a `Rate`.

    Source: KIP-13; Kafka's `QuotaUtils.throttleTime`.
    """
    check_types(error=(error, QuotaViolationError))
    metric = error.metric
    rate = metric.provider
    if not isinstance(rate, Rate):
        raise TypeError(f"Metric {metric.metric_name} is not a Rate metric, value {rate}")
    with metric.lock:  # computing the window discards old samples
        window_ms = rate.window_size(metric.config, now_ms)
    return _wait(error.value - error.bound, error.bound, window_ms)


def bounded_throttle_time(error: QuotaViolationError, max_throttle_time_ms: int, now_ms: int) -> int:
    """Returns `throttle_time`, at most `max_throttle_time_ms` [ms]: one window for requests and connection rates."""
    return min(throttle_time(error, now_ms), max_throttle_time_ms)


def token_bucket_throttle_time(error: QuotaViolationError) -> int:
    """Returns the wait [ms] until an exhausted token bucket is back at zero: -60 tokens at 5 a second are 12,000 ms.

    Raises:
        TypeError: the metric is not a `TokenBucket`.

    Source: KIP-599.
    """
    check_types(error=(error, QuotaViolationError))
    metric = error.metric
    bucket = metric.provider
    if not isinstance(bucket, TokenBucket):
        raise TypeError(f"Metric {metric.metric_name} is not a TokenBucket metric, value {bucket}")
    return _wait(-error.value, error.bound, bucket.unit_ms)


def _wait(excess: float, bound: float, unit_ms: float) -> int:
    """`excess / bound * unit_ms` rounded half up, within 0 and `MAX_THROTTLE_TIME_MS`; a bound of 0 never recovers.

    A NaN was recorded: 0, as Java's `Math.round` makes of it.
    """
    if excess <= 0 or math.isnan(excess):
        return 0
    wait_ms = excess / bound * unit_ms if bound > 0 else math.inf
    return math.floor(wait_ms + 0.5) if wait_ms < MAX_THROTTLE_TIME_MS else MAX_THROTTLE_TIME_MS
