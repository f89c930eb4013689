"""Rules: what an operator wants to be told of, read from a TOML file. Knows nothing of Spark."""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import re2

from fleet.durations import parse_duration_us
from fleet.errors import FleetError
from fleet.watch.identity import IDENTITY
from telemetry.catalogue.standard_metrics import KAFKA_PREFIX, known_metrics

DEFAULT_RULES: Final = Path(__file__).with_name("default_rules.toml")
MAX_RULES: Final = 100
SEVERITIES: Final = ("info", "warning", "critical")
MATCHED_BY: Final = tuple(name for name in IDENTITY if name != "push_interval_ms")
"""What `match` may name: all that is known of a client."""

PLACEHOLDERS: Final = frozenset(
    (*IDENTITY, "rule", "severity", "metric_name", "value", "threshold", "node_id", "topic")
)
"""What `text` may name in braces."""

_MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_METRICS: Final = 20
_MAX_COMPARED: Final = 200
"""Letters of a name that are compared with the known ones."""

_MAX_PATTERN_MEMORY_BYTES: Final = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class RulesError(FleetError):
    """A file of rules cannot be read, or says what is no rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A value is beyond a bound for longer than `for_us` (KIP-714, Proactive monitoring: 5,000 ms, 180 s).

    Attributes:
        metrics: full names; of several values in one push, of nodes or topics, the one furthest beyond counts.
        bound: that the value has to exceed, or to fall short of.
        is_upper: exceed.
        for_us: how long it has to be beyond, as long as pushes come [us]; 0 is at once.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """No push for so many intervals, and a minute at least, without a terminating one.

    Attributes:
        intervals: of the client's own.
        stays: clients are expected to stay. Otherwise only those are judged that say when they end
            (`dialects.says_when_it_ends`): others that are quiet may well have been closed.
    """

    intervals: float
    stays: bool = False


Condition: TypeAlias = Threshold | Increase | Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: of its table in the file.
        condition: what has to hold.
        match: patterns by what they match; each has to match the whole of the client's value, all of them.
        severity: one of SEVERITIES.
        text: what an alert says, with placeholders; None says what the condition is.
    """

    name: str
    condition: Condition
    match: Mapping[str, str] = field(default_factory=dict)
    severity: str = "warning"
    text: str | None = None

    def matches(self, identity: Mapping[str, Any]) -> bool:
        """True if the rule is on such a client; what is not known of a client matches nothing."""
        return all(
            (value := identity.get(name)) is not None and _compiled(pattern).fullmatch(str(value)) is not None
            for name, pattern in self.match.items()
        )

    @property
    def kind(self) -> str:
        """Names the kind of its condition."""
        return type(self.condition).__name__

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it reads."""
        return () if isinstance(self.condition, Silence) else self.condition.metrics


@cache
def _compiled(pattern: str) -> Any:
    """An RE2 pattern, of which every process keeps its own."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_MEMORY_BYTES
    options.never_capture = True
    return re2.compile(pattern, options)


def load_rules(path: Path) -> tuple[Rule, ...]:
    """The rules in a file, in its order.

    Raises:
        RulesError: it cannot be read, or a key or value in it is none.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise RulesError(f"the rules in {path} are longer than {_MAX_FILE_BYTES:,} bytes: is this a file of rules?")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise RulesError(f"cannot read the rules in {path}: {reason}") from error
    return parse_rules(text, str(path))


def parse_rules(text: str, where: str = "the rules") -> tuple[Rule, ...]:
    r"""Rules as TOML has them: tables `[rules.NAME]`.

    >>> rule, = parse_rules('[rules.slow]\ncustom_metric = "a.latency.max"\nabove = 5000\nfor = "180s"')
    >>> rule.name, rule.condition.bound, rule.condition.for_us
    ('slow', 5000.0, 180000000)

    Raises:
        RulesError: names key and value, and what is allowed.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{where} is no TOML: {error}") from error
    found = tables.get("rules")
    if unknown := sorted(tables.keys() - {"rules"}):
        raise RulesError(f"{where}: {unknown[0]} is not known: rules are tables named [rules.NAME]")
    if not isinstance(found, dict) or not 1 <= len(found) <= MAX_RULES:
        raise RulesError(f"{where} holds no rules, or more than {MAX_RULES}: give tables named [rules.NAME]")
    return tuple(_rule(where, name, table) for name, table in found.items())


def _rule(where: str, name: str, table: Any) -> Rule:
    key = f"{where}: rules.{name}"
    if not isinstance(table, dict) or _NAME.fullmatch(name) is None:
        raise RulesError(f"{key} is no rule: give a table named by letters, digits, dots, - and _ (100 at most)")
    for each in table:
        if each not in _KEYS:
            raise RulesError(f"{key}.{each} is not known: give {', '.join(_KEYS)}")
    read = {each: _KEYS[each](f"{key}.{each}", value) for each, value in table.items()}
    rest = {each: read[each] for each in ("match", "severity", "text") if each in read}
    return Rule(name=name, condition=_condition(key, read), **rest)


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
    for each in ("metric", "custom_metric", "for", "within", "stays"):
        if each in read and each not in (*_NEEDED[kind], *_OPTIONAL.get(kind, ())):
            raise RulesError(f"{key}.{each} means nothing beside {kind}: leave it out")
    match kind:
        case "silent_intervals":
            return Silence(intervals=read[kind], stays=read.get("stays", False))
        case "increase_above":
            return Increase(metrics=metrics, bound=read[kind], within_us=read["within"])
    return Threshold(metrics=metrics, bound=read[kind], is_upper=kind == "above", for_us=read.get("for", 0))


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "above": ("metric",),
    "below": ("metric",),
    "increase_above": ("metric", "within"),
    "silent_intervals": (),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "above": ("custom_metric", "for"),
    "below": ("custom_metric", "for"),
    "increase_above": ("custom_metric",),
    "silent_intervals": ("stays",),
}


def _wrong(key: str, value: Any, allowed: str) -> RulesError:
    return RulesError(f"{key} is {value!r}: give {allowed}")


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(key, value, "a number, such as 5000")
    return float(value)


def _intervals(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 2 <= value <= 1_000:
        raise _wrong(key, value, "a number of push intervals from 2 to 1000: clients may well let 1.5 pass")
    return float(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, value, "true or false")
    return value


def _duration(key: str, value: Any) -> int:
    found = parse_duration_us(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong(key, value, 'a duration up to 30d, such as "180s", "5m" or "1h"')
    return found


def _window(key: str, value: Any) -> int:
    found = _duration(key, value)
    if not found:
        raise _wrong(key, value, 'a duration above zero, such as "10m"')
    return found


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
    """A slip of the pen would watch a metric that never comes, without a word."""
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
    """Up to three known names, the nearest first; also of one written as Kafka's own tools have it (JMX).

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
        if name not in MATCHED_BY:
            raise RulesError(f"{key}.{name} is not known: give {', '.join(MATCHED_BY)}")
        if not isinstance(pattern, str):
            raise _wrong(f"{key}.{name}", pattern, "a regular expression that RE2 takes, which has to match the whole")
        try:
            _compiled(pattern)
        except re2.error as error:
            raise _wrong(
                f"{key}.{name}", pattern, "a regular expression that RE2 takes, which has to match the whole"
            ) from error
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
    "silent_intervals": _intervals,
    "stays": _flag,
    "match": _match,
    "severity": _severity,
    "text": _text,
}
