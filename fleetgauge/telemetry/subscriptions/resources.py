"""The client-metrics resources as configured, and the effective subscription of one client."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from cachetools import LRUCache, cachedmethod

from fleetgauge.base.arguments import check_types
from fleetgauge.base.errors import InvalidConfigError, InvalidRequestError
from fleetgauge.telemetry.subscriptions.match import ClientAttributes, Selector, parse_match
from fleetgauge.telemetry.subscriptions.prefix_advice import PrefixAdvice
from fleetgauge.telemetry.subscriptions.subscription_id import subscription_checksum

METRICS_CONFIG: Final = "metrics"
INTERVAL_MS_CONFIG: Final = "interval.ms"
MATCH_CONFIG: Final = "match"

INTERVAL_MS_DEFAULT: Final = 300_000
"""Interval of a subscription without a configured one [ms]."""

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
ALL_METRICS: Final = "*"

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_MAX_EFFECTIVE: Final = 4_096
"""Effective subscriptions shared between instances; beyond that each instance has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One client-metrics resource (KIP-714, Client metrics configuration).

    Attributes:
        name: groups the properties.
        properties: as configured, for a describe.
        metrics: metric name prefixes; `*` requests all; empty requests none.
        interval_ms: push interval [ms].
        selectors: all have to match; without selectors every client matches.
    """

    name: str
    properties: Mapping[str, str]
    metrics: tuple[str, ...]
    interval_ms: int
    selectors: tuple[Selector, ...]

    def matches(self, attributes: ClientAttributes) -> bool:
        """True if the subscription matches this client."""
        return all(selector.matches(attributes) for selector in self.selectors)


@dataclass(frozen=True, slots=True)
class EffectiveSubscription:
    """The union of all subscriptions that match one client.

    Attributes:
        metrics: sorted prefixes without repeats, or `("*",)`, or empty.
        push_interval_ms: the smallest configured interval of the matching ones [ms].
        checksum: input of the client's subscription id.
        names: the matching resources, sorted. Not compared: renaming a resource does not change the subscription.
        compression_types: announced in place of the node's; None for nearly all clients (`client_guard`).
        guarded_by: the applied rules of the client guard.
    """

    metrics: tuple[str, ...]
    push_interval_ms: int
    checksum: int = field(compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)
    compression_types: tuple[int, ...] | None = None
    guarded_by: tuple[str, ...] = field(default=(), compare=False)


def parse_subscription(name: str, properties: Mapping[str, str]) -> Subscription:
    """Validates and parses the properties of one resource.

    Raises:
        InvalidConfigError: with Kafka's messages, which its tools print.
        TypeError: the name, a key or a value is no text, or the properties are no mapping.
    """
    check_types(name=(name, str), properties=(properties, Mapping))
    if not name:
        raise InvalidRequestError("Subscription name can't be empty")
    for key, value in properties.items():
        check_types(key=(key, str), value=(value, str))
        if not _is_unicode(value):
            raise InvalidConfigError(f"Invalid value {value!r} for configuration {key}: it is not UTF-8")
        if key not in (METRICS_CONFIG, INTERVAL_MS_CONFIG, MATCH_CONFIG):
            raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
    return Subscription(
        name=name,
        properties=MappingProxyType(dict(properties)),
        metrics=_parse_metrics(properties.get(METRICS_CONFIG, "")),
        interval_ms=_parse_interval(properties.get(INTERVAL_MS_CONFIG)),
        selectors=parse_match(properties.get(MATCH_CONFIG, "")),
    )


def check_subscription(name: str, properties: Mapping[str, str]) -> None:
    """Validates the properties of one resource.

    Raises:
        InvalidConfigError, TypeError: see `parse_subscription`.
    """
    parse_subscription(name, properties)


def _is_unicode(text: str) -> bool:
    """False for surrogate escapes: from an environment variable or an argument that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_metrics(text: str) -> tuple[str, ...]:
    """Parses a comma-separated list of prefixes; empty entries are ignored."""
    return tuple(prefix for prefix in (part.strip() for part in text.split(",")) if prefix)


def _parse_interval(text: str | None) -> int:
    if text is None:
        return INTERVAL_MS_DEFAULT
    if _INTEGER.fullmatch(text.strip()) is None:
        raise InvalidConfigError(
            f"Invalid value {text} for configuration {INTERVAL_MS_CONFIG}: Not a number of type INT"
        )
    interval_ms = int(text.strip())  # `int` strips fewer kinds of white space than `strip`
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise InvalidRequestError(
            f"Invalid value {interval_ms} for {INTERVAL_MS_CONFIG}, interval must be between 100 and 3600000 (1 hour)"
        )
    return interval_ms


class Subscriptions:
    """All client-metrics resources by name.

    Attributes:
        version: incremented with every change; instances evaluated under an older one are evaluated again.
        advice: the prefixes in force without a known metric.
    """

    def __init__(self, default_interval_ms: int = INTERVAL_MS_DEFAULT) -> None:
        """Starts empty; `default_interval_ms` [ms] applies to clients without a matching subscription."""
        self._by_name: dict[str, Subscription] = {}
        self._default_interval_ms = default_interval_ms
        self._shared: LRUCache[Any, EffectiveSubscription] = LRUCache(_MAX_EFFECTIVE)
        self.version = 0
        self.advice = PrefixAdvice()

    def update(self, name: str, properties: Mapping[str, str]) -> None:
        """Sets one resource; empty `properties` remove it. Without a change the version stays.

        Raises:
            InvalidConfigError, TypeError: see `parse_subscription`; nothing is changed.
        """
        check_types(name=(name, str), properties=(properties, Mapping))
        resources = dict(self._by_name)
        if properties:
            resources[name] = parse_subscription(name, properties)
        else:
            resources.pop(name, None)
        self._install(resources)

    def replace(self, resources: Mapping[str, Mapping[str, str]]) -> None:
        """Replaces all resources; those without properties are removed.

        Raises:
            InvalidConfigError, TypeError: one of them is invalid; nothing is changed.
        """
        check_types(resources=(resources, Mapping))
        for name, given in resources.items():
            check_types(name=(name, str), properties=(given, Mapping))
        self._install({name: self._parsed(name, given) for name, given in resources.items() if given})

    def _parsed(self, name: str, properties: Mapping[str, str]) -> Subscription:
        """Keeps an unchanged resource as it is: compiling the patterns of hundreds takes milliseconds."""
        known = self._by_name.get(name)
        return known if known and known.properties == properties else parse_subscription(name, properties)

    def reevaluate(self) -> None:
        """Causes every instance to be evaluated again, for example after a change of the client guard."""
        self.version += 1

    def _install(self, resources: dict[str, Subscription]) -> None:
        if self._properties(resources) == self._properties(self._by_name):
            return
        self._by_name = resources
        self._shared.clear()
        self.version += 1
        self.advice.review(self.requested_prefixes())

    @staticmethod
    def _properties(resources: Mapping[str, Subscription]) -> dict[str, dict[str, str]]:
        return {name: dict(subscription.properties) for name, subscription in resources.items()}

    def names(self) -> tuple[str, ...]:
        """Returns the names of all resources, sorted."""
        return tuple(sorted(self._by_name))

    def properties(self, name: str) -> Mapping[str, str]:
        """Returns the configured properties of a resource; empty for an unknown name."""
        subscription = self._by_name.get(name)
        return subscription.properties if subscription else {}

    def requested_prefixes(self) -> dict[str, tuple[str, ...]]:
        """Returns the metric prefixes of every resource by name."""
        return {name: subscription.metrics for name, subscription in self._by_name.items()}

    def effective_for(self, attributes: ClientAttributes) -> EffectiveSubscription:
        """Returns the union of all subscriptions that match a client.

        Its interval is the smallest of theirs; the default applies if none matches, and is not an upper bound (KIP-714,
        Metrics subscription; Kafka itself never gives more than 300,000 ms).
        """
        matching = [each for each in self._by_name.values() if each.matches(attributes)]
        interval_ms = min((each.interval_ms for each in matching), default=self._default_interval_ms)
        names = tuple(sorted(each.name for each in matching))
        return self._share(_union(each.metrics for each in matching), interval_ms, names)

    @cachedmethod(lambda self: self._shared)
    def _share(self, metrics: tuple[str, ...], interval_ms: int, names: tuple[str, ...]) -> EffectiveSubscription:
        return EffectiveSubscription(metrics, interval_ms, subscription_checksum(metrics, interval_ms), names)


def _union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    prefixes = {prefix for metrics in lists for prefix in metrics}
    return (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes))
