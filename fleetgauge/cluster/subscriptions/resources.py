"""A client-metrics resource, wanted or of a cluster, and their names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.kafka_text import kafka_text
from fleetgauge.base.suggestions import did_you_mean, nearest
from fleetgauge.cluster.errors import ResourceError, short
from fleetgauge.cluster.plan import Kind
from fleetgauge.telemetry.subscriptions.match import split_match
from fleetgauge.telemetry.subscriptions.resources import (
    INTERVAL_MS_CONFIG,
    INTERVAL_MS_DEFAULT,
    MATCH_CONFIG,
    METRICS_CONFIG,
    Subscription,
    parse_subscription,
)

KEYS: Final = (METRICS_CONFIG, INTERVAL_MS_CONFIG, MATCH_CONFIG)
CANARY_SUFFIX: Final = ".canary"
DEADLINE_MARK: Final = ".until."
"""Parts of the names of resources that a canary and a deadline make beside a subscription."""

TABLE: Final = "client-metrics"
"""Table of a file that holds subscriptions, `[client-metrics.NAME]`."""
_MOST_LISTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One client-metrics resource; equal ones are the same to a client.

    Attributes:
        name: of the resource.
        metrics: prefixes, sorted, without repeats; `*` requests all.
        interval_ms: push interval [ms]; Kafka's default where none is set.
        match: selectors, separated by commas; empty for every client.
    """

    name: str
    metrics: tuple[str, ...] = ()
    interval_ms: int = INTERVAL_MS_DEFAULT
    match: str = ""

    def properties(self) -> dict[str, str]:
        """The configuration in Kafka's form, without defaults."""
        values = {METRICS_CONFIG: ",".join(self.metrics), MATCH_CONFIG: self.match}
        if self.interval_ms != INTERVAL_MS_DEFAULT:
            values[INTERVAL_MS_CONFIG] = str(self.interval_ms)
        return {key: value for key, value in values.items() if value}

    def subscription(self) -> Subscription:
        """The parsed form, whose `matches` decides for a client.

        Raises:
            InvalidConfigError: RE2 does not take a pattern; Java's expressions have more than RE2 (lookaround).
        """
        return parse_subscription(self.name, self.properties())


def resource_of(name: str, properties: Mapping[str, str]) -> Resource:
    """A resource out of Kafka's properties, as a cluster describes it; patterns are not checked.

    Raises:
        InvalidConfigError: the interval is not allowed, or a key is unknown.
    """
    parsed = parse_subscription(name, {key: value for key, value in properties.items() if key != MATCH_CONFIG})
    match = ",".join(part.strip() for part in split_match(properties.get(MATCH_CONFIG, "")))
    return Resource(name=name, metrics=tuple(sorted(set(parsed.metrics))), interval_ms=parsed.interval_ms, match=match)


def checked(name: str, properties: Mapping[str, str]) -> Resource:
    """A wanted resource, with everything checked that Kafka and a node check.

    Raises:
        ResourceError: it is not valid; the text names the key, the value and the remedy.
    """
    where = f"[{TABLE}.{short(name)}]"
    try:
        parse_subscription(name, properties)
        resource = resource_of(name, properties)
    except InvalidConfigError as error:
        hint = _PATTERN_HINT if "matching pattern" in str(error) else ""
        raise ResourceError(f"{where}: {short(str(error))}{hint}") from error
    if base_name(name) != name:
        raise ResourceError(
            f"{where}: names with {CANARY_SUFFIX} at the end or {DEADLINE_MARK} are made by fleetgauge subscriptions "
            "canary and expire; choose another name"
        )
    if not resource.properties():
        raise ResourceError(f"{where} sets nothing, and Kafka keeps no such resource: name its metrics")
    return resource


def base_name(name: str) -> str:
    """The subscription that a canary or a deadline belongs to, or the name itself.

    >>> base_name("orders.canary"), base_name("orders.canary.until.20261123T184500Z"), base_name("orders")
    ('orders', 'orders', 'orders')
    """
    before = name.rpartition(DEADLINE_MARK)[0] if DEADLINE_MARK in name else name
    return before.removesuffix(CANARY_SUFFIX)


def named(resources: Mapping[str, Resource], name: str) -> Resource:
    """The resource of this name.

    Raises:
        ResourceError: there is none; the text names the nearest.
    """
    if name not in resources:
        known = sorted(resources)
        others = f"; there are {', '.join(known)}" if 0 < len(known) <= _MOST_LISTED else ""
        raise ResourceError(f"there is no subscription {short(name)}{did_you_mean(nearest(name, known)) or others}")
    return resources[name]


_PATTERN_HINT: Final = (
    " (a selector is client_instance_id, client_id, client_software_name, client_software_version, "
    "client_source_address or client_source_port, then =, then a pattern of RE2: Java's syntax without lookaround and "
    "backreferences)"
)


def _read(tables: Mapping[str, Mapping[str, object]]) -> dict[str, Resource]:
    return {
        name: checked(name, {key: kafka_text(value) for key, value in properties.items()})
        for name, properties in tables.items()
    }


SUBSCRIPTIONS: Final = Kind(
    what="subscription", table=TABLE, keys=KEYS, read=_read, words=lambda name: (name,), owner=base_name
)
