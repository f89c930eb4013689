"""Reads a file of subscriptions."""

from pathlib import Path

from fleetgauge.cli.table_file import read_tables
from fleetgauge.cluster.subscriptions.resources import KEYS, TABLE, Resource, checked


def read_file(path: Path) -> tuple[Resource, ...]:
    """The subscriptions of a TOML file, `[client-metrics.NAME]` as in a node's configuration, sorted by name.

    Raises:
        SubscriptionError: a key is unknown, or a value is not allowed.
        ConfigError: the file cannot be read, or is not TOML.
    """
    found = read_tables(path, TABLE, KEYS, "subscription")
    return tuple(
        checked(name, {key: _kafka_text(value) for key, value in values.items()}, source=str(path))
        for name, values in found.items()
    )


def _kafka_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value)
