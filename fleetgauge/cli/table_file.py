"""Reads the tables of a TOML file, in the form of a node's configuration: `[TABLE.NAME]` with keys and values."""

import difflib
from collections.abc import Collection
from pathlib import Path

from fleetgauge.cluster.subscriptions.resources import SubscriptionError, short
from fleetgauge.node.config.sources import from_toml


def read_tables(path: Path, table: str, keys: Collection[str], what: str) -> dict[str, dict[str, object]]:
    """The tables of a file by name and key, sorted by name.

    Args:
        path: the file.
        table: the table that holds all others, for example `client-metrics`.
        keys: the known ones.
        what: one such table in an error sentence, for example `subscription`.

    Raises:
        SubscriptionError: a key is unknown.
        ConfigError: the file cannot be read, or is not TOML.
    """
    found: dict[str, dict[str, object]] = {}
    for key, raw in from_toml(path).items():
        name, inner = _split_key(key, path, table, keys, what)
        found.setdefault(name, {})[inner] = raw.value
    return dict(sorted(found.items()))


def _split_key(key: str, path: Path, table: str, keys: Collection[str], what: str) -> tuple[str, str]:
    first, _, rest = key.partition(".")
    if first != table:
        raise SubscriptionError(f"{path}: {short(key)} is not about {what}s; the file has tables [{table}.NAME]")
    for inner in keys:
        if rest.endswith(f".{inner}") and (name := rest.removesuffix(f".{inner}")):
            return name, inner
    close = difflib.get_close_matches(rest.rpartition(".")[2], keys, n=1)
    raise SubscriptionError(
        f"{path}: {short(key)} is no key of a {what}; [{table}.NAME] has {', '.join(keys)}"
        + (f"; did you mean {close[0]}?" if close else "")
    )
