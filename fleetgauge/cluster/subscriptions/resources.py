"""A client-metrics resource, wanted or of a cluster, and the errors of this package."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.errors import FleetgaugeError, InvalidConfigError
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
"""Of a file's tables, `[client-metrics.NAME]`."""
_SHOWN_CHARACTERS: Final = 200


class SubscriptionError(FleetgaugeError):
    """A subscription, a file of them, or a request about them is not valid."""


class ClusterError(SubscriptionError):
    """The cluster does not answer, or refuses the request."""


class NotAuthorizedError(ClusterError):
    """The principal may not do this; the text names the missing ACL."""


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
        found = {METRICS_CONFIG: ",".join(self.metrics), MATCH_CONFIG: self.match}
        if self.interval_ms != INTERVAL_MS_DEFAULT:
            found[INTERVAL_MS_CONFIG] = str(self.interval_ms)
        return {key: value for key, value in found.items() if value}

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


def checked(name: str, properties: Mapping[str, str], *, source: str = "") -> Resource:
    """A wanted resource, with everything checked that Kafka and a node check.

    Raises:
        SubscriptionError: it is not valid; the text names the key, the value and the remedy.
    """
    where = f"{source}: " if source else ""
    try:
        parse_subscription(name, properties)
        resource = resource_of(name, properties)
    except InvalidConfigError as error:
        hint = _PATTERN_HINT if "matching pattern" in str(error) else ""
        raise SubscriptionError(f"{where}[{TABLE}.{short(name)}]: {short(str(error))}{hint}") from error
    if is_own_name(name):
        raise SubscriptionError(
            f"{where}[{TABLE}.{short(name)}]: names with {CANARY_SUFFIX} at the end or {DEADLINE_MARK} are made by "
            "fleetgauge subscriptions canary and expire; choose another name"
        )
    if not resource.properties():
        raise SubscriptionError(
            f"{where}[{TABLE}.{short(name)}] sets nothing, and Kafka keeps no such resource: name its metrics"
        )
    return resource


def is_own_name(name: str) -> bool:
    """True for the name of a canary or of a deadline."""
    return name.endswith(CANARY_SUFFIX) or DEADLINE_MARK in name


def named(resources: Iterable[Resource], name: str) -> Resource:
    """The resource of this name.

    Raises:
        SubscriptionError: there is none; the text names the nearest.
    """
    by_name = {each.name: each for each in resources}
    if name not in by_name:
        raise SubscriptionError(f"there is no subscription {short(name)}{did_you_mean(name, sorted(by_name))}")
    return by_name[name]


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The end of an error about an unknown word: the nearest known one, or all of a few."""
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= len(KEYS) else ""


_PATTERN_HINT: Final = (
    " (a selector is client_instance_id, client_id, client_software_name, client_software_version, "
    "client_source_address or client_source_port, then =, then a pattern of RE2: Java's syntax without lookaround and "
    "backreferences)"
)


def short(text: str) -> str:
    """A text for an error, cut where it is long."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
