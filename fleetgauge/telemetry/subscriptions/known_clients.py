"""The shipped table of the client guard, and how an operator's `[client-guard.<name>]` changes it.

A row is a fault of a client that its broker can trigger or prevent. See `dialects` for mere differences in format.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.software import UNKNOWN_SOFTWARE
from fleetgauge.telemetry.catalogue.software_version import VersionRange, parse_range
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.subscriptions.client_guard import GuardAction, GuardRule, GuardWhen
from fleetgauge.telemetry.subscriptions.match import compile_pattern
from fleetgauge.telemetry.subscriptions.resources import ALL_METRICS

_Choice = TypeVar("_Choice", GuardAction, GuardWhen)

_LIBRDKAFKA: Final = "librdkafka|confluent-kafka-go|confluent-kafka-dotnet"
"""Names with librdkafka's own version; its other bindings include it in theirs (`...-rdkafka-2.5.0`)."""

_ALL_OF_KAFKA: Final = ("org.apache.kafka.",)

_MISSING_CODEC: Final = (
    "this Java client's network thread dies of a codec that is announced to it and that its application left out or "
    "cannot load (zstd, lz4, snappy); gzip is Java's own"
)

SHIPPED: Final[tuple[GuardRule, ...]] = (
    GuardRule(
        name="franz-go-all",
        software="kgo",
        versions=parse_range("*"),
        action=GuardAction.REWRITE,
        when=GuardWhen.ALL_METRICS,
        metrics=("",),
        reason="franz-go takes * for a prefix, which matches none of its metrics, and the empty prefix for all of them",
        source="https://github.com/twmb/franz-go/blob/master/pkg/kgo/metrics_714.go",
    ),
    GuardRule(
        name="unknown-all",
        software=UNKNOWN_SOFTWARE,
        versions=parse_range("*"),
        action=GuardAction.REWRITE,
        when=GuardWhen.ALL_METRICS,
        metrics=("",),
        reason="franz-go 1.19 sends ApiVersions on its first connection to a broker only, so that its telemetry "
        "comes from nobody known; every client takes the empty prefix for all metrics",
        source="https://github.com/twmb/franz-go/blob/v1.19.0/pkg/kgo/metrics_714.go",
    ),
    GuardRule(
        name="java-missing-codec",
        software="apache-kafka-java",
        versions=parse_range(">=3.8.0, <3.9.2"),
        action=GuardAction.REWRITE,
        compression_types=(CompressionType.GZIP,),
        reason=_MISSING_CODEC,
        source="https://github.com/apache/kafka/pull/19881",
    ),
    GuardRule(
        name="java-4.0.0-missing-codec",
        software="apache-kafka-java",
        versions=parse_range("4.0.0"),
        action=GuardAction.REWRITE,
        compression_types=(CompressionType.GZIP,),
        reason=_MISSING_CODEC,
        source="https://github.com/apache/kafka/pull/19881",
    ),
    GuardRule(
        name="librdkafka-crash",
        software=_LIBRDKAFKA,
        part="rdkafka",
        versions=parse_range(">=2.5.0, <2.5.3"),
        action=GuardAction.REWRITE,
        when=GuardWhen.NOT_ONE_PREFIX_FOR_ALL,
        metrics=_ALL_OF_KAFKA,
        reason="librdkafka 2.5.0 ends its process when none of the requested metrics is one that it has, and it reads "
        "only the last of several prefixes",
        source="https://github.com/confluentinc/librdkafka/issues/4833",
    ),
    GuardRule(
        name="librdkafka-several-prefixes",
        software=_LIBRDKAFKA,
        part="rdkafka",
        versions=parse_range(">=2.5.0, <2.10.1"),
        action=GuardAction.REWRITE,
        when=GuardWhen.SEVERAL_PREFIXES,
        metrics=_ALL_OF_KAFKA,
        reason="librdkafka before 2.10.1 reads only the last of several prefixes, and sends nothing for the others",
        source="https://github.com/confluentinc/librdkafka/pull/5105",
    ),
    GuardRule(
        name="librdkafka-null-payload",
        software=_LIBRDKAFKA,
        part="rdkafka",
        versions=parse_range(">=2.5.3, <2.10.1"),
        action=GuardAction.NOTE,
        when=GuardWhen.NOT_ONE_PREFIX_FOR_ALL,
        reason="librdkafka before 2.10.1 pushes null where it has none of the requested metrics: taken here for an "
        "empty payload, but Kafka's brokers close the connection",
        source="https://github.com/confluentinc/librdkafka/pull/4912",
    ),
)
"""Order matters: a rule is applied to the result of the ones before."""

_KEYS: Final = (
    "software",
    "part",
    "versions",
    "action",
    "when",
    "metrics",
    "compression",
    "reason",
    "source",
    "enabled",
)


def guard_rules(configured: Mapping[str, Mapping[str, object]]) -> tuple[GuardRule, ...]:
    """Returns the rules in force: the shipped ones, changed or disabled by configured ones of the same name, then the
    others.

    Args:
        configured: the tables `[client-guard.<name>]`; values from TOML or strings. A shipped rule's table needs
            only the changed keys; a new rule needs `software` and `action`.

    Raises:
        InvalidConfigError: the message names the key, the value and the allowed values.
    """
    rules: dict[str, GuardRule] = {rule.name: rule for rule in SHIPPED}
    for name, given in configured.items():
        rule = _parse_rule(name, given, rules.get(name))
        if _is_enabled(name, given):
            rules[name] = rule
        else:
            rules.pop(name, None)
    return tuple(rules.values())


def _parse_rule(name: str, given: Mapping[str, object], shipped: GuardRule | None) -> GuardRule:
    for key in given:
        if key not in _KEYS:
            raise InvalidConfigError(f"{key} is not a key of a client guard rule; the keys are {', '.join(_KEYS)}")
    rule = shipped or _new_rule(name, given)
    changes: dict[str, Any] = {}
    for key in given.keys() - {"enabled"}:
        changes["compression_types" if key == "compression" else key] = _value(key, given[key])
    changed = replace(rule, **changes)
    if changed.action is GuardAction.REWRITE and changed.metrics is None and changed.compression_types is None:
        raise InvalidConfigError("action = rewrite needs metrics or compression, the new values")
    return changed


def _new_rule(name: str, given: Mapping[str, object]) -> GuardRule:
    for key in ("software", "action"):
        if key not in given and str(given.get("enabled", "true")).lower() == "true":
            shipped = ", ".join(rule.name for rule in SHIPPED)
            raise InvalidConfigError(f"{key} is missing; only changes of built-in rules may omit it ({shipped})")
    return GuardRule(
        name=name,
        software=str(given.get("software", "")),
        versions=VersionRange("*", ()),
        action=GuardAction.NOTE,
        reason="set in the configuration",
    )


def _value(key: str, value: object) -> object:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    match key:
        case "versions":
            return _range(text)
        case "action":
            return _one_of(GuardAction, key, text)
        case "when":
            return _one_of(GuardWhen, key, text)
        case "metrics":
            return _prefixes(value, text)
        case "compression":
            return tuple(_codec(part.strip()) for part in text.split(",") if part.strip())
        case "software":
            compile_pattern(text)
    return text


def _prefixes(value: object, text: str) -> tuple[str, ...]:
    """A list may contain the empty prefix, which requests all metrics from some clients, as does the empty string."""
    given = value if isinstance(value, list | tuple) else text.split(",")
    prefixes = {str(each).strip() for each in given}
    return (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes))


def _range(text: str) -> VersionRange:
    try:
        return parse_range(text)
    except ValueError as error:
        raise InvalidConfigError(f"versions: {error}") from error


def _one_of(choices: type[_Choice], key: str, text: str) -> _Choice:
    try:
        return choices(text)
    except ValueError:
        allowed = ", ".join(each.value for each in choices)
        raise InvalidConfigError(f"{key} is {text!r}, and has to be one of {allowed}") from None


def _codec(label: str) -> CompressionType:
    known = {each.label: each for each in CompressionType}
    if label not in known:
        raise InvalidConfigError(f"compression holds {label!r}, and has to hold some of {', '.join(known)}")
    return known[label]


def _is_enabled(name: str, given: Mapping[str, object]) -> bool:
    text = str(given.get("enabled", "true")).lower()
    if text not in ("true", "false"):
        raise InvalidConfigError(f"enabled is {text!r}, and has to be true or false")
    return text == "true"
