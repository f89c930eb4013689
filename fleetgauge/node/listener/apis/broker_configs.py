"""This node's own configuration, as `kafka-configs.sh --entity-type brokers` reads it; it cannot be changed there."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.errors import InvalidRequestError
from fleetgauge.base.kafka_text import kafka_text
from fleetgauge.base.redaction import is_secret, shown
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.model import TABLES
from fleetgauge.telemetry.subscriptions.overrides import ConfigSource


class ConfigType(enum.IntEnum):
    """Kafka's `DescribeConfigsResponse.ConfigType`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


_TYPES: Final = {bool: ConfigType.BOOLEAN, int: ConfigType.LONG, float: ConfigType.DOUBLE, tuple: ConfigType.LIST}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One key; `value` is None for a secret."""

    key: str
    value: str | None
    source: ConfigSource
    type: ConfigType


class BrokerConfigs:
    """The keys outside of tables, of a configuration that may be replaced.

    Attributes:
        config: the configuration in force.
        name: the resource's name in Kafka: the node id.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self.name = str(config.node_id)

    def describe(self, name: str) -> Iterator[BrokerConfig]:
        """Yields every key; none for the empty name, which stands for dynamic defaults of all brokers.

        Raises:
            InvalidRequestError: with Kafka's text, for another node's id.
        """
        if name == "":
            return
        self._check(name, "Broker id", f"{self.name} or empty string")
        for field_name, field in ServiceConfig.model_fields.items():
            if field_name in TABLES:
                continue
            key, value = field.alias or field_name, getattr(self.config, field_name)
            is_default = value == field.get_default(call_default_factory=True)
            yield BrokerConfig(
                key,
                None if is_secret(key) else kafka_text(shown(key, value)),
                ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG,
                _TYPES.get(type(value), ConfigType.STRING),
            )

    def refuse(self, name: str, keys: Sequence[str]) -> None:
        """Refuses a change, with Kafka's text for keys that need a restart.

        Raises:
            InvalidRequestError: always.
        """
        if name:
            self._check(name, "Node id", self.name)
        raise InvalidRequestError(f"Cannot update these configs dynamically: [{', '.join(keys)}]")

    def _check(self, name: str, what: str, expected: str) -> None:
        if not name.lstrip("+-").isdecimal():
            raise InvalidRequestError(f"{what} must be an integer, but it is: {name}")
        if name != self.name:
            raise InvalidRequestError(f"Unexpected broker id, expected {expected}, but received {name}")
