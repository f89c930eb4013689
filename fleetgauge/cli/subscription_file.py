"""Reads a file of subscriptions."""

import difflib
from pathlib import Path

from fleetgauge.config.sources import from_toml
from fleetgauge.subscriptions.resources import KEYS, TABLE, Resource, SubscriptionError, checked, short


def read_file(path: Path) -> tuple[Resource, ...]:
    """The subscriptions of a TOML file, `[client-metrics.NAME]` as in a node's configuration, sorted by name.

    Raises:
        SubscriptionError: a key is unknown, or a value is not allowed.
        ConfigError: the file cannot be read, or is not TOML.
    """
    found: dict[str, dict[str, str]] = {}
    for key, raw in from_toml(path).items():
        name, inner = _split_key(key, path)
        found.setdefault(name, {})[inner] = _kafka_text(raw.value)
    return tuple(checked(name, found[name], source=str(path)) for name in sorted(found))


def _split_key(key: str, path: Path) -> tuple[str, str]:
    table, _, rest = key.partition(".")
    if table == TABLE:
        for inner in KEYS:
            if rest.endswith(f".{inner}") and (name := rest.removesuffix(f".{inner}")):
                return name, inner
        last = rest.rpartition(".")[2]
        raise SubscriptionError(
            f"{path}: {short(key)} is no key of a subscription; [{TABLE}.NAME] has {', '.join(KEYS)}"
            + (f"; did you mean {close[0]}?" if (close := difflib.get_close_matches(last, KEYS, n=1)) else "")
        )
    raise SubscriptionError(f"{path}: {short(key)} is not about subscriptions; the file has tables [{TABLE}.NAME]")


def _kafka_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value)
