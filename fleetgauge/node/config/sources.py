"""Reads the sources of configuration: a TOML file, environment variables, overrides; each as a flat mapping of keys.

Each value keeps its source, which errors name.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fleetgauge.base.errors import ConfigError

ENVIRONMENT_PREFIX = "FLEETGAUGE_"
NOT_CONFIGURATION = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}" for name in ("CONFIG", "TOKEN_FILE", "COMPILE", "CACHE", "EXPLORE", "PATIENCE")
)
"""Variables with this prefix that are not keys, but options of the command line, of an installation, of the tests."""

RENAMED: Final = {"push.log": "push.log.type", "push.log.kafka.topic": "push.log.kafka.topic.name"}
"""Keys by what they were: also the prefix of others, for which TOML needs quotes. Both are read."""

MAX_FILE_BYTES = 4 << 20
"""Largest configuration file [B]; ten thousand users take about half of it."""


@dataclass(frozen=True, slots=True)
class Sourced:
    """A raw value and its source.

    Attributes:
        written: the value with its references to secrets (`node.config.references`); None if it has none.
        secrets: the secrets that these references stand for.
    """

    value: object
    source: str
    written: object = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def from_toml(path: Path) -> dict[str, Sourced]:
    """Reads a TOML file; nested tables are joined by dots, so `[push.log.retention] ms = 1` is `push.log.retention.ms`.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    flat: dict[str, Sourced] = {}
    for name, value in _pairs(path, _text(path)):
        key = RENAMED.get(name, name)
        if key in flat:
            raise ConfigError(key, "is set twice", source=str(path))
        flat[key] = Sourced(value, str(path))
    return flat


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ConfigError("", f"cannot read the configuration file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError("", f"{path} is not UTF-8 text: {error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError("", f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB, too large for a configuration file")
    return text


def _pairs(path: Path, text: str) -> list[tuple[str, object]]:
    try:
        return list(_flatten(tomllib.loads(text), ""))
    except RecursionError as error:
        raise ConfigError("", f"{path} is nested too deeply; a configuration has tables two or three deep") from error
    except ValueError as error:  # TOMLDecodeError is one, and a number of thousands of digits is another
        hint = ""
        if "overwrite" in str(error):
            hint = (
                '; a key that is also the prefix of another is written in quotes, for example "max.connections" = 1000'
            )
        raise ConfigError("", f"{path} is not valid TOML: {error}{hint}") from error


def from_environment(environment: Mapping[str, str]) -> dict[str, Sourced]:
    """Reads `FLEETGAUGE_*` variables as Kafka's images do: `_` is a dot, `__` an underscore, `___` a dash.

    >>> from_environment({"FLEETGAUGE_NODE_ID": "7", "FLEETGAUGE_CLIENT___METRICS_ALL_INTERVAL_MS": "1000"})["node.id"]
    Sourced(value='7', source='FLEETGAUGE_NODE_ID')
    """
    flat = {}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_CONFIGURATION:
            key = name[len(ENVIRONMENT_PREFIX) :].lower()
            key = key.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
            flat[RENAMED.get(key, key)] = Sourced(value, name)
    return flat


def from_overrides(overrides: Iterable[str]) -> dict[str, Sourced]:
    """Reads `key=value` texts, as Kafka's `--override` takes them.

    Raises:
        ConfigError: one of them has no `=`.
    """
    flat = {}
    for number, text in enumerate(overrides, 1):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # The text is left out of the error: it may be a secret.
            raise ConfigError(f"--override number {number}", "an override is written key=value, for example node.id=2")
        flat[RENAMED.get(key.strip(), key.strip())] = Sourced(value.strip(), "--override")
    return flat


def _flatten(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value
