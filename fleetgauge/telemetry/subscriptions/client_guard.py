"""The client guard: changes subscriptions for client software with known faults.

Rules are data: `known_clients` has the shipped table; rules from the configuration replace those of the same name. A
rule matches the software name and version from ApiVersions, and the subscription. Rules are evaluated when an instance
is (re)subscribed, never for a push.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from cachetools import LRUCache, cachedmethod

from fleetgauge.base.arguments import check_types
from fleetgauge.base.library_log import get_logger
from fleetgauge.telemetry.catalogue.software_version import VersionRange, parse_version, version_of_part
from fleetgauge.telemetry.catalogue.standard_metrics import serves_every_role
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.subscriptions.match import compile_pattern
from fleetgauge.telemetry.subscriptions.resources import ALL_METRICS, EffectiveSubscription
from fleetgauge.telemetry.subscriptions.subscription_id import subscription_checksum

log = get_logger(__name__)

_MAX_KNOWN_SOFTWARE: Final = 1_024
"""Software names and versions whose rules are cached; beyond that they are looked up each time."""

_MAX_GUARDED: Final = 4_096
"""Subscriptions that are cached as rules changed them."""

_MAX_LOGGED: Final = 256
"""Pairs of a rule and a software version that are logged; the status counts all."""

_LOGGED_CHARACTERS: Final = 100


_pattern = lru_cache(maxsize=256)(compile_pattern)
"""Cached, since software beyond `_MAX_KNOWN_SOFTWARE` is matched again at each subscription."""


class GuardAction(enum.StrEnum):
    """Effect of a rule on a subscription."""

    WITHHOLD = "withhold"
    REWRITE = "rewrite"
    NOTE = "note"


class GuardWhen(enum.StrEnum):
    """Subscriptions to which a rule applies; never to an empty one.

    `not-one-prefix-for-all` avoids the crash of librdkafka 2.5.0: the rule applies unless there is a single prefix
    under which both producers and consumers of librdkafka have metrics, since the node cannot distinguish them.
    """

    ALWAYS = "always"
    ALL_METRICS = "all-metrics"
    SEVERAL_PREFIXES = "several-prefixes"
    NOT_ONE_PREFIX_FOR_ALL = "not-one-prefix-for-all"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """One row of the guard's table.

    Attributes:
        name: of the rule, used in the configuration to change or disable it.
        software: RE2 pattern for the whole software name.
        part: a library inside clients, `rdkafka`: if a software version names it (`2.5.0-rdkafka-2.5.0`), the rule
            matches whatever the client's name, and `versions` are the library's.
        versions: matching versions. An unparsable version matches, since the rules do no harm.
        action: effect on the subscription.
        when: matching subscriptions.
        metrics: prefixes that a rewrite requests instead, sorted; None keeps them.
        compression_types: codecs that a rewrite announces instead, as far as the node accepts them; None keeps them.
        reason: one sentence.
        source: link to the report of the fault.
    """

    name: str
    software: str
    part: str = ""
    versions: VersionRange
    action: GuardAction
    when: GuardWhen = GuardWhen.ALWAYS
    metrics: tuple[str, ...] | None = None
    compression_types: tuple[CompressionType, ...] | None = None
    reason: str
    source: str = ""

    def concerns(self, software_name: str, software_version: str) -> bool:
        """True if the rule matches this software."""
        version = version_of_part(software_version, self.part) if self.part else None
        if version is None:
            if _pattern(self.software).fullmatch(software_name) is None:
                return False
            version = software_version
        parsed = parse_version(version)
        return parsed is None or self.versions.contains(parsed)

    def acts_on(self, metrics: tuple[str, ...]) -> bool:
        """True if the rule applies to a subscription to these prefixes."""
        if not metrics:
            return False
        if self.when is GuardWhen.ALL_METRICS:
            return metrics == (ALL_METRICS,)
        if self.when is GuardWhen.SEVERAL_PREFIXES:
            return len(metrics) > 1
        if self.when is GuardWhen.NOT_ONE_PREFIX_FOR_ALL:
            return len(metrics) > 1 or not serves_every_role("librdkafka", metrics[0])
        return True

    def applied_to(self, subscription: EffectiveSubscription) -> EffectiveSubscription:
        """Returns the subscription under this rule."""
        if self.action is GuardAction.WITHHOLD:
            return replace(subscription, metrics=(), guarded_by=(*subscription.guarded_by, self.name))
        changes: dict[str, Any] = {"guarded_by": (*subscription.guarded_by, self.name)}
        if self.action is GuardAction.REWRITE:
            if self.metrics is not None:
                changes["metrics"] = self.metrics
            if self.compression_types is not None:
                changes["compression_types"] = tuple(int(each) for each in self.compression_types)
        return replace(subscription, **changes)


def _checked(rules: Iterable[GuardRule]) -> tuple[GuardRule, ...]:
    listed = tuple(rules)
    for rule in listed:
        check_types(rule=(rule, GuardRule))
    return listed


class ClientGuard:
    """The rules in force, and counts of their effects. Not for several threads."""

    def __init__(self, rules: Iterable[GuardRule]) -> None:
        self._rules = _checked(rules)
        self._by_software: LRUCache[Any, tuple[GuardRule, ...]] = LRUCache(_MAX_KNOWN_SOFTWARE)
        self._guarded: LRUCache[Any, EffectiveSubscription] = LRUCache(_MAX_GUARDED)
        self._logged: set[tuple[str, str, str]] = set()
        self._applied: dict[str, int] = {}

    def install(self, rules: Iterable[GuardRule]) -> bool:
        """Replaces the rules; True if they differ, so that every client has to be evaluated again. Counts are kept."""
        rules = _checked(rules)
        if rules == self._rules:
            return False
        self._rules = rules
        self._by_software.clear()
        self._guarded.clear()
        self._logged.clear()
        return True

    def guarded(
        self, subscription: EffectiveSubscription, software_name: str, software_version: str
    ) -> EffectiveSubscription:
        """Returns the subscription for a client of this software; mostly the same object."""
        rules = self._rules_for(software_name, software_version)
        if not rules:
            return subscription
        guarded = self._apply(subscription, subscription.names, rules)
        for name in guarded.guarded_by:
            self._count(name, software_name, software_version)
        return guarded

    def counters(self) -> dict[str, dict[str, str | int]]:
        """Returns action, reason and number of affected (re)subscriptions per rule that was ever applied."""
        by_name = {rule.name: rule for rule in self._rules}
        return {
            name: {
                "action": by_name[name].action.value if name in by_name else "removed",
                "reason": by_name[name].reason if name in by_name else "",
                "subscriptions": count,
            }
            for name, count in sorted(self._applied.items())
        }

    @cachedmethod(lambda self: self._by_software)
    def _rules_for(self, name: str, version: str) -> tuple[GuardRule, ...]:
        return tuple(rule for rule in self._rules if rule.concerns(name, version))

    @cachedmethod(lambda self: self._guarded)
    def _apply(
        self, subscription: EffectiveSubscription, _names: tuple[str, ...], rules: tuple[GuardRule, ...]
    ) -> EffectiveSubscription:
        """Applies the rules in order, each to the result of the one before.

        `_names` are the subscription's, which are not part of its equality: so they are part of the key.
        """
        guarded = subscription
        for rule in rules:
            if rule.acts_on(guarded.metrics):
                guarded = rule.applied_to(guarded)
        return replace(guarded, checksum=_checksum(guarded)) if guarded != subscription else guarded

    def _count(self, rule_name: str, software_name: str, software_version: str) -> None:
        self._applied[rule_name] = self._applied.get(rule_name, 0) + 1
        key = (rule_name, software_name, software_version)
        if key in self._logged or len(self._logged) >= _MAX_LOGGED:
            return
        self._logged.add(key)
        rule = next(rule for rule in self._rules if rule.name == rule_name)
        is_minor = rule.action is GuardAction.NOTE or rule.when is GuardWhen.ALL_METRICS
        (log.info if is_minor else log.warning)(
            "telemetry.client_guard_applied",
            rule=rule.name,
            action=rule.action.value,
            software_name=software_name[:_LOGGED_CHARACTERS],
            software_version=software_version[:_LOGGED_CHARACTERS],
            reason=rule.reason,
        )


def _checksum(guarded: EffectiveSubscription) -> int:
    """Returns the checksum of a rewritten subscription.

    The empty prefix requests all metrics, and so counts as `*`: franz-go's id is the one that Kafka would assign, and
    differs from that of a withheld subscription. Codecs are not part of Kafka's id; here they are, so that a client
    fetches its subscription again after a change of its codecs.
    """
    metrics = [prefix or ALL_METRICS for prefix in guarded.metrics]
    if guarded.compression_types is not None:
        metrics.append(f"compression {guarded.compression_types}")
    return subscription_checksum(metrics, guarded.push_interval_ms)
