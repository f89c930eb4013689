"""Rules of an operator's own: bounds for any metric of any client, in the same file as the figures of the verdicts."""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from fleetgauge.base.durations import parse_duration_us
from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX, known_metrics
from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.patterns import check_pattern

MAX_RULES: Final = 100
SEVERITIES: Final = ("info", "warning", "critical")
IDENTITY: Final = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "principal",
    "client_source_address", "client_source_port", "cluster_id", "client_rack", "group_id", "group_instance_id",
    "group_member_id", "transactional_id", "role",
)  # fmt: skip
"""Columns of the table `clients` that `match` may name."""

PLACEHOLDERS: Final = frozenset(
    (*IDENTITY, "rule", "severity", "metric_name", "value", "threshold", "node_id", "topic")
)
"""Names that `text` may have in braces."""

_MAX_METRICS: Final = 20
_MAX_COMPARED: Final = 200
"""Letters of a name that are compared with the known ones."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A value is beyond a bound for longer than `for_us` (KIP-714, Proactive monitoring: 5,000 ms, 180 s).

    Attributes:
        metrics: full names; of several values in one push, of nodes or topics, the one furthest beyond counts.
        bound: the limit; a value equal to it is within.
        is_upper: True if larger values are beyond it, False if smaller ones are.
        for_us: time for which the values of successive pushes have to be beyond [us]; 0 is at once.
    """

    metrics: tuple[str, ...]
    bound: float
    is_upper: bool
    for_us: int

    def is_beyond(self, value: float) -> bool:
        """True if the value is on the wrong side; the bound itself is not."""
        return value > self.bound if self.is_upper else value < self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase:
    """Sums grow by more than `bound` within the last `within_us`, by the times of receipt [us]."""

    metrics: tuple[str, ...]
    bound: float
    within_us: int


Condition: TypeAlias = Limit | Increase


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRule:
    """One rule.

    Attributes:
        name: of its table in the file.
        condition: under which the verdict is given.
        match: patterns by column of `clients`; each has to match the client's whole value.
        severity: one of SEVERITIES.
        text: sentence of the verdict, with placeholders; None is one made from the condition.
        given: its table in the file.
    """

    name: str
    condition: Condition
    match: Mapping[str, str] = field(default_factory=dict)
    severity: str = "warning"
    text: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it reads."""
        return self.condition.metrics

    @property
    def threshold(self) -> float:
        """The bound."""
        return self.condition.bound

    @property
    def names(self) -> set[str]:
        """Columns of `clients` that `match` or `text` names."""
        return {*self.match, *re.findall(r"\{(\w+)\}", self.text or "")} & set(IDENTITY) | {"client_id"}


def parse_user_rules(tables: Any, where: str) -> tuple[UserRule, ...]:
    """The tables `[rules.NAME]` of a rule file, in its order.

    >>> rule, = parse_user_rules({"slow": {"custom_metric": "a.max", "above": 5000, "for": "180s"}}, "rules.toml")
    >>> rule.name, rule.condition.bound, rule.condition.for_us
    ('slow', 5000.0, 180000000)

    Raises:
        RulesError: names key and value, and what is allowed.
    """
    if not isinstance(tables, dict) or len(tables) > MAX_RULES:
        raise RulesError(f"{where}: rules is not a table of at most {MAX_RULES} rules: give tables named [rules.NAME]")
    return tuple(_rule(where, name, table) for name, table in tables.items())


def _rule(where: str, name: str, table: Any) -> UserRule:
    key = f"{where}: rules.{name}"
    if not isinstance(table, dict) or _NAME.fullmatch(name) is None:
        raise RulesError(f"{key} is not a rule: give a table named by letters, digits, dots, - and _ (100 at most)")
    if gone := sorted(table.keys() & {"silent_intervals", "stays"}):
        raise RulesError(
            f"{key}.{gone[0]} is not known: silence is the verdict silent, with the figures [silent] intervals = 3 "
            'and, for clients that run day and night, stays = ["billing-.*"]'
        )
    for each in table:
        if each not in _KEYS:
            raise RulesError(f"{key}.{each} is not known: give {', '.join(_KEYS)}")
    read = {each: _KEYS[each](f"{key}.{each}", value) for each, value in table.items()}
    rest = {each: read[each] for each in ("match", "severity", "text") if each in read}
    return UserRule(name=name, condition=_condition(key, read), given=table, **rest)


def _condition(key: str, read: Mapping[str, Any]) -> Condition:
    kinds = [each for each in _NEEDED if each in read]
    if len(kinds) != 1:
        many = "several conditions" if kinds else "no condition"
        raise RulesError(f"{key} has {many}: give one of {', '.join(_NEEDED)}")
    kind = kinds[0]
    metrics = (*read.get("metric", ()), *read.get("custom_metric", ()))
    for each in _NEEDED[kind]:
        if not (metrics if each == "metric" else each in read):
            raise RulesError(f"{key} has {kind} and no {each}: give both")
    for each in ("metric", "custom_metric", "for", "within"):
        if each in read and each not in (*_NEEDED[kind], *_OPTIONAL.get(kind, ())):
            raise RulesError(f"{key}.{each} means nothing beside {kind}: leave it out")
    if kind == "increase_above":
        return Increase(metrics=metrics, bound=read[kind], within_us=read["within"])
    return Limit(metrics=metrics, bound=read[kind], is_upper=kind == "above", for_us=read.get("for", 0))


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "above": ("metric",),
    "below": ("metric",),
    "increase_above": ("metric", "within"),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "above": ("custom_metric", "for"),
    "below": ("custom_metric", "for"),
    "increase_above": ("custom_metric",),
}


def _wrong(key: str, value: Any, allowed: str) -> RulesError:
    return RulesError(f"{key} is {value!r}: give {allowed}")


def is_number(value: Any) -> bool:
    """True for a finite number that a float can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _number(key: str, value: Any) -> float:
    if not is_number(value):
        raise _wrong(key, value, "a number, such as 5000")
    return float(value)


def _duration(key: str, value: Any) -> int:
    duration_us = parse_duration_us(value) if isinstance(value, str) else None
    if duration_us is None:
        raise _wrong(key, value, 'a duration up to 30d, such as "180s", "5m" or "1h"')
    return duration_us


def _window(key: str, value: Any) -> int:
    duration_us = _duration(key, value)
    if not duration_us:
        raise _wrong(key, value, 'a duration above zero, such as "10m"')
    return duration_us


def _metrics(key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if (
        not isinstance(names, list)
        or not 1 <= len(names) <= _MAX_METRICS
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise _wrong(key, value, f"the full name of a metric, or a list of {_MAX_METRICS} at most")
    return tuple(dict.fromkeys(names))


def _known_metrics(key: str, value: Any) -> tuple[str, ...]:
    """Names of metrics that known clients send: with a misspelt one the rule would never match, unnoticed."""
    names = _metrics(key, value)
    for name in names:
        if name not in _metric_names():
            nearest = _nearest(name)
            hint = f"did you mean {' or '.join(nearest)}?" if nearest else "fleetgauge metrics lists the known ones;"
            raise RulesError(
                f"{key} is {name[:_MAX_COMPARED]!r}, which no known client sends: {hint} "
                "A metric that an application or another client has of its own is named under custom_metric"
            )
    return names


@cache
def _metric_names() -> frozenset[str]:
    return frozenset(metric.name for metric in known_metrics())


def _nearest(name: str) -> list[str]:
    """Up to three known names, the nearest first; also for a name as Kafka's own tools write it (JMX).

    >>> _nearest("consumer-fetch-manager-metrics.records-lag-max")[0]
    'org.apache.kafka.consumer.fetch.manager.records.lag.max'
    """
    written = name[:_MAX_COMPARED].lower().replace("-", ".").replace(".metrics", "")
    whole = KAFKA_PREFIX + written.removeprefix(KAFKA_PREFIX).removeprefix("kafka.")
    return difflib.get_close_matches(whole, sorted(_metric_names()), n=3, cutoff=0.8)


def _match(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _wrong(key, value, 'a table, such as { client_id = "billing-.*" }')
    for name, pattern in value.items():
        if name not in IDENTITY:
            raise RulesError(f"{key}.{name} is not known: give {', '.join(IDENTITY)}")
        check_pattern(f"{key}.{name}", pattern)
    return dict(value)


def _severity(key: str, value: Any) -> str:
    if value not in SEVERITIES:
        raise _wrong(key, value, ", ".join(SEVERITIES[:-1]) + f" or {SEVERITIES[-1]}")
    return str(value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 1_000:
        raise _wrong(key, value, "a text of 1,000 letters at most")
    if unknown := [name for name in re.findall(r"\{(\w*)\}", value) if name not in PLACEHOLDERS]:
        raise RulesError(f"{key} names {{{unknown[0]}}}: give {', '.join(sorted(PLACEHOLDERS))}")
    return value


_KEYS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "metric": _known_metrics,
    "custom_metric": _metrics,
    "above": _number,
    "below": _number,
    "for": _duration,
    "increase_above": _number,
    "within": _window,
    "match": _match,
    "severity": _severity,
    "text": _text,
}
