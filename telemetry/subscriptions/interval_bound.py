"""Other push intervals than the configured one: longer over a telemetry quota, shorter where a client bears no more."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from telemetry.subscriptions.resources import INTERVAL_MS_MAX, EffectiveSubscription
from telemetry.subscriptions.subscription_id import subscription_checksum

LIBRDKAFKA_MAX_INTERVAL_MS: Final = 1_789_569
"""Of librdkafka, up to 2.16.0 at least [ms]: it computes interval x 1000 x jitter in an int.

The jitter is at most 1.2: 1,789,569 x 1,200 = 2,147,482,800, just below 2^31. Beyond, the time to the next request is
negative, and the client asks for its subscription thousands of times a second. Kafka's brokers give nobody more than
300,000 ms and so never met it.
"""


def bounded_for(
    subscription: EffectiveSubscription, software_name: str, software_version: str
) -> EffectiveSubscription:
    """What a client of this software is asked for in place of `subscription`: mostly the same object.

    The bindings of librdkafka name themselves `confluent-kafka-...`, or it in their name or version, such as
    `2.16.1-rdkafka-2.16.0`.
    """
    if subscription.push_interval_ms <= LIBRDKAFKA_MAX_INTERVAL_MS:
        return subscription
    if software_name.startswith("confluent-kafka") or "rdkafka" in software_name or "rdkafka" in software_version:
        return _with_interval(subscription, subscription.names, LIBRDKAFKA_MAX_INTERVAL_MS)
    return subscription


def lengthened(subscription: EffectiveSubscription, factor: int) -> EffectiveSubscription:
    """What a client over its telemetry quota is asked for: the same `factor` times as seldom, once an hour at least."""
    interval_ms = max(subscription.push_interval_ms, min(subscription.push_interval_ms * factor, INTERVAL_MS_MAX))
    if interval_ms == subscription.push_interval_ms:
        return subscription
    return _with_interval(subscription, subscription.names, interval_ms)


@lru_cache(maxsize=1024)
def _with_interval(
    subscription: EffectiveSubscription,
    _names: tuple[str, ...],  # which equality leaves out
    interval_ms: int,
) -> EffectiveSubscription:
    """The same with another interval; one object for all clients that share it."""
    checksum = subscription_checksum(subscription.metrics, interval_ms)
    return replace(subscription, push_interval_ms=interval_ms, checksum=checksum)
