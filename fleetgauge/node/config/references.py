"""Resolves references to secrets: `${file:/path}` and `${env:NAME}` in a value, as Kafka's configuration providers do
(KIP-297, KIP-887).

A file's value is its whole text without the line break at its end, as Kubernetes, Docker and systemd provide secrets.
Kafka's `${file:path:key}`, a key of a properties file, is not supported.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config.sources import Sourced

_REFERENCE: Final = re.compile(r"\$\{(file|env):([^}]*)\}")
_BEGINNING: Final = re.compile(r"\$\{(?:file|env):")
_MAX_FILE_BYTES: Final = 1 << 20


def resolve(sourced: Mapping[str, Sourced], environment: Mapping[str, str]) -> dict[str, Sourced]:
    """Replaces the references in the values; a value with references keeps its text as `written`.

    Raises:
        ConfigError: a reference cannot be resolved; the text names the key and the reference, never a value.
    """
    return {key: _resolved(key, raw, environment) for key, raw in sourced.items()}


def has_reference(text: str) -> bool:
    """True if the configuration would read a part of this text as a reference."""
    return _BEGINNING.search(text) is not None


def _resolved(key: str, raw: Sourced, environment: Mapping[str, str]) -> Sourced:
    secrets: list[str] = []

    def look_up(match: re.Match[str]) -> str:
        secrets.append(_value_of(match, environment))
        return secrets[-1]

    try:
        value = _replaced(raw.value, look_up)
    except ValueError as error:
        raise ConfigError(key, str(error), source=raw.source) from None
    return Sourced(value, raw.source, raw.value, tuple(secrets)) if secrets else raw


def _replaced(value: object, look_up: Callable[[re.Match[str]], str]) -> object:
    if isinstance(value, list):
        return [_replaced(each, look_up) for each in value]
    if isinstance(value, dict):
        return {name: _replaced(each, look_up) for name, each in value.items()}
    if not isinstance(value, str) or not has_reference(value):
        return value
    if _BEGINNING.search(_REFERENCE.sub("", value)):
        raise ValueError("a reference is not closed; it is written ${file:/path} or ${env:NAME}")
    return _REFERENCE.sub(look_up, value)


def _value_of(match: re.Match[str], environment: Mapping[str, str]) -> str:
    provider, name = match.groups()
    value = environment.get(name) if provider == "env" else _text_of(Path(name), match[0])
    if value is None:
        raise ValueError(f"{match[0]} names an environment variable that is not set")
    if not value:
        raise ValueError(f"{match[0]} is empty")
    return value


def _text_of(path: Path, reference: str) -> str:
    hint = "; a reference names a whole file, not a key within it" if ":" in str(path) else ""
    if not path.is_absolute():
        raise ValueError(f"{reference} needs the absolute path of a file, beginning with /")
    try:
        if not path.is_file():  # a pipe or a device may never end
            raise ValueError(f"{reference}: there is no such file{hint}")
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError(f"{reference}: the file is longer than {_MAX_FILE_BYTES} bytes")
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{reference} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{reference}: the file is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
