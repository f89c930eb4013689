"""Client-metrics resources in two layers: as the configuration declares them, and as admin tools changed them.

A value that a tool set overrides the declared one, key by key, as a dynamic broker configuration overrides
`server.properties`; deleting it makes the declared value effective again. What the configuration declares cannot be
deleted by a tool. Checks, their order and their texts are those of Kafka 4.3 (`ConfigAdminManager`,
`ConfigurationControlManager`, `ClientMetricsConfigs`). No I/O.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fleetgauge.base.errors import InvalidConfigError, InvalidRequestError, PolicyViolationError
from fleetgauge.telemetry.subscriptions.match import match_size, split_match
from fleetgauge.telemetry.subscriptions.resources import (
    INTERVAL_MS_CONFIG,
    INTERVAL_MS_DEFAULT,
    MATCH_CONFIG,
    METRICS_CONFIG,
    check_subscription,
)

Properties = Mapping[str, Mapping[str, str]]
"""Values by resource name and key."""

DEFAULT_NAME: Final = "default"
DEFAULT_SUBSCRIPTION: Final = {METRICS_CONFIG: "*", INTERVAL_MS_CONFIG: "60000"}
"""The built-in resource `default`: in force while the configuration declares none, until a tool changes it."""

MAX_NAME_CHARACTERS: Final = 255
MAX_VALUE_CHARACTERS: Final = 16_384
"""Far above real lists of prefixes: all standard metrics of a Java consumer by name are some 5,000 characters."""
MAX_PATTERNS_SIZE: Final = 32_768
"""Largest sum of `match_size` over the resources that tools set: 160 for each of 200, and `client_id=orders-.*` has 19.
The dearest that we found take the loop 0.2 s for a client with the longest client id, 1 to 8 ms with 24 characters.
"""

_KEYS: Final = {INTERVAL_MS_CONFIG: str(INTERVAL_MS_DEFAULT), MATCH_CONFIG: "", METRICS_CONFIG: ""}
"""Every key with its default, in the order of Kafka's answers."""


class Operation(enum.IntEnum):
    """Operations of IncrementalAlterConfigs (Kafka's `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(enum.IntEnum):
    """Layer of a value (Kafka's `DescribeConfigsResponse.ConfigSource`)."""

    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_CLIENT_METRICS_CONFIG = 7


@dataclass(frozen=True, slots=True)
class Alteration:
    """One operation on one key; `operation` may be a number that is no `Operation`."""

    key: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """The effective value of a key.

    Attributes:
        key, value: as Kafka writes them.
        source: layer of the value.
        layers: the layers with a value, the effective one first; empty for a default.
    """

    key: str
    value: str
    source: ConfigSource
    layers: tuple[tuple[ConfigSource, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChanges:
    """Changes made by admin tools.

    Attributes:
        values: set values by resource and key.
        replaces_default: True once a tool has changed the built-in resource `default`: its values are in `values`
            then, as far as they were not deleted.
    """

    values: Properties = field(default_factory=dict)
    replaces_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsResources:
    """All client-metrics resources of a node.

    Attributes:
        configured: as the checked configuration has them; `default` alone with the built-in values if none is declared.
        changes: what tools changed.
        max_resources: number of resources beyond which tools cannot create another.
    """

    configured: Properties
    changes: ToolChanges
    max_resources: int

    @property
    def declared(self) -> Properties:
        """The layer below the changes."""
        return {} if self._has_built_in_default and self.changes.replaces_default else self.configured

    @property
    def is_built_in(self) -> bool:
        """True if the built-in default is in force: no subscription is configured, and no tool changed it."""
        return self._has_built_in_default and not self.changes.replaces_default

    @property
    def _has_built_in_default(self) -> bool:
        return self.configured == {DEFAULT_NAME: DEFAULT_SUBSCRIPTION}

    def effective(self) -> dict[str, dict[str, str]]:
        """The values in force by resource and key."""
        declared, changed = self.declared, self.changes.values
        names = sorted(declared.keys() | changed.keys())
        merged = {name: {**declared.get(name, {}), **changed.get(name, {})} for name in names}
        return {name: values for name, values in merged.items() if values}

    def overridden(self) -> dict[str, list[str]]:
        """The declared keys by resource for which a tool set another value."""
        keys_by_name = {
            name: [key for key, value in values.items() if self.changes.values.get(name, {}).get(key, value) != value]
            for name, values in self.declared.items()
        }
        return {name: keys for name, keys in keys_by_name.items() if keys}

    def describe(self, name: str) -> Iterator[ConfigValue]:
        """Yields every key of a resource; an unknown name has the defaults, as in Kafka.

        Raises:
            InvalidRequestError: the name is empty.
        """
        if not name:
            raise InvalidRequestError("Client metrics subscription name must not be empty")
        below = ConfigSource.DEFAULT_CONFIG if self._has_built_in_default else ConfigSource.STATIC_BROKER_CONFIG
        layers = (
            (ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG, self.changes.values.get(name, {})),
            (below, self.declared.get(name, {})),
        )
        for key, default in _KEYS.items():
            values = tuple((source, _as_kafka_writes(key, each[key])) for source, each in layers if key in each)
            source, value = values[0] if values else (ConfigSource.DEFAULT_CONFIG, default)
            yield ConfigValue(key=key, value=value, source=source, layers=values)

    def altered(self, name: str, alterations: Sequence[Alteration]) -> "ClientMetricsResources":
        """Returns the resources after operations on one of them, as IncrementalAlterConfigs does them.

        Raises:
            KafkaError: Kafka refuses them, with its text; or a rule of this node does (`PolicyViolationError`).
        """
        _check_form(alterations)
        start = self._with_default_as_change() if name == DEFAULT_NAME and alterations else self
        declared, values = start.declared.get(name, {}), dict(start.changes.values.get(name, {}))
        deleted = {each.key for each in alterations if each.operation == Operation.DELETE}
        _check_deletion(name, deleted, declared, values)
        for each in alterations:
            _alter(values, each)
        return start._with(name, values)

    def replaced(self, name: str, values: Mapping[str, str | None]) -> "ClientMetricsResources":
        """Returns the resources with exactly these values set by tools for one of them, as AlterConfigs does it.

        Raises:
            KafkaError: as `altered`.
        """
        _check_nulls(key for key, value in values.items() if value is None)
        start = self._with_default_as_change() if name == DEFAULT_NAME else self
        return start._with(name, {key: value for key, value in values.items() if value is not None})

    def _with_default_as_change(self) -> "ClientMetricsResources":
        """The built-in default becomes an ordinary resource as soon as a tool changes it."""
        if not self._has_built_in_default or self.changes.replaces_default:
            return self
        values = {**self.changes.values, DEFAULT_NAME: dict(DEFAULT_SUBSCRIPTION)}
        return replace(self, changes=ToolChanges(values=values, replaces_default=True))

    def _with(self, name: str, values: dict[str, str]) -> "ClientMetricsResources":
        _check_size(name, values)
        _check_lists(values)
        check_subscription(name, {**self.declared.get(name, {}), **values})
        changed = {other: kept for other, kept in self.changes.values.items() if other != name}
        if values:
            changed[name] = values
            known = self.declared.keys() | self.changes.values.keys()
            if name not in known and len(known) >= self.max_resources:
                raise PolicyViolationError(
                    f"this node keeps at most {self.max_resources} client metrics resources "
                    "(client.metrics.resources.max): delete another one first"
                )
            if MATCH_CONFIG in values and values[MATCH_CONFIG] != self.changes.values.get(name, {}).get(MATCH_CONFIG):
                _check_patterns(name, changed)
        return replace(self, changes=replace(self.changes, values=changed))


def _check_form(alterations: Sequence[Alteration]) -> None:
    keys = [each.key for each in alterations]
    if len(set(keys)) < len(keys):
        raise InvalidRequestError("Error due to duplicate config keys")
    _check_nulls(each.key for each in alterations if each.value is None and each.operation != Operation.DELETE)


def _check_nulls(keys: Iterable[str]) -> None:
    if nulls := ", ".join(keys):
        raise InvalidRequestError(f"Null value not supported for : {nulls}")


def _check_deletion(name: str, deleted: set[str], declared: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Refuses what would succeed without an effect: the resource, or its value, would still be in force."""
    only_declared = sorted(key for key in deleted & declared.keys() if key not in changed)
    if not declared or not (only_declared or deleted >= _KEYS.keys()):
        return
    what = ", ".join(only_declared) if only_declared and not deleted >= _KEYS.keys() else "it"
    raise PolicyViolationError(
        f"client metrics resource {name} is declared in the configuration file of this node, [client-metrics.{name}], "
        f"and tools cannot delete {what}: remove it there and send SIGHUP, or set a value, which overrides the file's; "
        "metrics set to nothing requests no metrics"
    )


def _alter(values: dict[str, str], alteration: Alteration) -> None:
    key, operation = alteration.key, alteration.operation
    if operation == Operation.SET:
        values[key] = alteration.value or ""
    elif operation == Operation.DELETE:
        values.pop(key, None)
    elif operation in (Operation.APPEND, Operation.SUBTRACT):
        # Kafka knows no type of the keys of client metrics, and refuses these operations for each of them.
        raise InvalidConfigError(f"Can't {Operation(operation).name} to key {key} because its type is not LIST.")
    else:
        raise InvalidRequestError(f"Unknown config operation {operation}")


def _check_size(name: str, values: Mapping[str, str]) -> None:
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidRequestError(f"Subscription name can't be longer than {MAX_NAME_CHARACTERS} characters")
    for key, value in values.items():
        if len(value) > MAX_VALUE_CHARACTERS:
            raise InvalidConfigError(f"Value of {key[:100]} can't be longer than {MAX_VALUE_CHARACTERS} characters")


def _check_patterns(name: str, changed: Properties) -> None:
    sizes = {each: match_size(values.get(MATCH_CONFIG, "")) for each, values in changed.items()}
    total = sum(sizes.values())
    if total > MAX_PATTERNS_SIZE:
        raise PolicyViolationError(
            f"the patterns of all client metrics resources that tools set would have {total} instructions as RE2 "
            f"compiles them, {sizes[name]} of them those of {name}, and this node takes at most {MAX_PATTERNS_SIZE}, "
            "since each new client is matched with them: shorten its match, above all repetitions such as {400}"
        )


def _check_lists(values: Mapping[str, str]) -> None:
    """Refuses empty entries of lists, after unknown keys, as Kafka does."""
    for key, value in values.items():
        if key not in _KEYS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
        if key != INTERVAL_MS_CONFIG and value.strip() and not all(_parts(key, value)):
            raise InvalidConfigError(f"Configuration '{key}' values must not be empty.")


def _parts(key: str, text: str) -> list[str]:
    parts = split_match(text) if key == MATCH_CONFIG else text.split(",")
    return [part.strip() for part in parts]


def _as_kafka_writes(key: str, text: str) -> str:
    """A value as Kafka describes it: numbers without sign and spaces, list entries trimmed and once each.

    >>> _as_kafka_writes("interval.ms", " +200 "), _as_kafka_writes("metrics", "a, b,a")
    ('200', 'a,b')
    """
    if key == INTERVAL_MS_CONFIG:
        return str(int(text.strip()))
    return ",".join(dict.fromkeys(_parts(key, text)))
