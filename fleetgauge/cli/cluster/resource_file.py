"""Reads resources from a TOML file, in the form of a node's configuration: `[TABLE.NAME]` with keys and values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.suggestions import did_you_mean, nearest
from fleetgauge.cluster.errors import ResourceError, short
from fleetgauge.cluster.plan import K, Kind, V
from fleetgauge.node.config.sources import from_toml


def read_file(path: Path, kind: Kind[K, V]) -> Mapping[K, V]:
    """The resources of a file by name.

    Raises:
        ResourceError: a key is unknown, or a value is not allowed.
        ConfigError: the file cannot be read, or is not TOML.
    """
    raws = from_toml(path)
    tables: dict[str, dict[str, object]] = {}
    try:
        for key, raw in raws.items():
            name, inner = _split_key(key, kind)
            tables.setdefault(name, {})[inner] = raw.value
        return kind.read(dict(sorted(tables.items())))
    except FleetgaugeError as error:
        raise ResourceError(f"{path}: {error}") from error


def _split_key(key: str, kind: Kind[Any, Any]) -> tuple[str, str]:
    first, _, rest = key.partition(".")
    if first != kind.table:
        raise ResourceError(f"{short(key)} is not about {kind.what}s; the file has tables [{kind.table}.NAME]")
    for inner in kind.keys:
        if rest.endswith(f".{inner}") and (name := rest.removesuffix(f".{inner}")):
            return name, inner
    raise ResourceError(
        f"{short(key)} is not a key of a {kind.what}; [{kind.table}.NAME] has {', '.join(kind.keys)}"
        f"{did_you_mean(nearest(rest.rpartition('.')[2], kind.keys))}"
    )
