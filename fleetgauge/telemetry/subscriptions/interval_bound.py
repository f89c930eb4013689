"""Changes of the configured push interval: longer over a telemetry quota, shorter for librdkafka's limit."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_MAX, EffectiveSubscription
from fleetgauge.telemetry.subscriptions.subscription_id import subscription_checksum

LIBRDKAFKA_MAX_INTERVAL_MS: Final = 1_789_569
"""Largest interval for librdkafka, up to 2.16.0 at least [ms]: it computes interval x 1000 x jitter in an int.

The jitter is at most 1.2: 1,789,569 x 1,200 = 2,147,482,800, just below 2^31. Beyond that, the time to the next request
is negative, and the client requests its subscription thousands of times per second. Kafka's brokers never send more
than 300,000 ms, and so are not affected.
"""


def bounded_for(
    subscription: EffectiveSubscription, software_name: str, software_version: str
) -> EffectiveSubscription:
    """Returns the subscription for a client of this software: mostly the same object.

    Bindings of librdkafka are named `confluent-kafka-...`, or contain its name in their name or version, such as
    `2.16.1-rdkafka-2.16.0`.
    """
    if subscription.push_interval_ms <= LIBRDKAFKA_MAX_INTERVAL_MS:
        return subscription
    if software_name.startswith("confluent-kafka") or "rdkafka" in software_name or "rdkafka" in software_version:
        return _with_interval(subscription, subscription.names, LIBRDKAFKA_MAX_INTERVAL_MS)
    return subscription


def lengthened(subscription: EffectiveSubscription, factor: int) -> EffectiveSubscription:
    """Returns the subscription of a client over its telemetry quota: the interval times `factor`, at most one hour."""
    interval_ms = max(subscription.push_interval_ms, min(subscription.push_interval_ms * factor, INTERVAL_MS_MAX))
    if interval_ms == subscription.push_interval_ms:
        return subscription
    return _with_interval(subscription, subscription.names, interval_ms)


@lru_cache(maxsize=1024)
def _with_interval(
    subscription: EffectiveSubscription,
    _names: tuple[str, ...],  # not part of the equality, so part of the key
    interval_ms: int,
) -> EffectiveSubscription:
    """Returns the subscription with another interval; one object for all clients that share it."""
    checksum = subscription_checksum(subscription.metrics, interval_ms)
    return replace(subscription, push_interval_ms=interval_ms, checksum=checksum)
