"""Reads `[quotas."<entity>"]`: limits of users, client ids and addresses.

An entity is written as a path of the entity types and names of `kafka-configs.sh`, as Kafka stores it:

| `kafka-configs.sh --alter --add-config request_percentage=50 ...` | here |
|---|---|
| `--entity-type users --entity-name alice` | `users/alice` |
| `--entity-type users --entity-default` | `users/<default>` |
| `--entity-type clients --entity-name app` | `clients/app` |
| `--entity-type users --entity-name alice --entity-type clients --entity-default` | `users/alice/clients/<default>` |
| `--entity-type ips --entity-name 10.0.0.1` | `ips/10.0.0.1` |

A name that holds `/` or `%`, or is `<default>` itself, is percent-encoded, as in Kafka's paths.
"""

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from base.errors import InvalidConfigError
from quotas import IP_QUOTA_KEYS, TELEMETRY_QUOTA_KEYS, USER_AND_CLIENT_QUOTA_KEYS, checked_quota_value
from quotas.connection_quota_config import canonical_address
from quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_IP_ENTITY,
    DEFAULT_NAME,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntity,
    IpEntity,
    KafkaQuotaEntity,
    UserEntity,
)

QUOTAS_PREFIX: Final = "quotas."

Entity = KafkaQuotaEntity | ConfigEntity
"""`KafkaQuotaEntity` for users and client ids, `ConfigEntity` for addresses."""

_CLIENT_KEYS: Final = {**USER_AND_CLIENT_QUOTA_KEYS, **TELEMETRY_QUOTA_KEYS}
_FORMS: Final = (
    "users/<name>, clients/<client id>, users/<name>/clients/<client id> and ips/<address>, with <default> for any name"
)


def read_limits(tables: Mapping[str, Mapping[str, object]]) -> dict[tuple[Entity, str], float]:
    """Every limit of the configuration, in the unit of its key, by entity and key.

    Args:
        tables: the keys of each `[quotas."<entity>"]`.

    Raises:
        InvalidConfigError: Kafka does not accept an entity, a key or a value; the text names it.
    """
    found: dict[tuple[Entity, str], float] = {}
    written: dict[Entity, str] = {}
    for path, limits in tables.items():
        entity = read_entity(path)
        if written.setdefault(entity, path) != path:
            raise InvalidConfigError(f"{path}: it is the same entity as {written[entity]}, and occurs twice")
        keys = _CLIENT_KEYS if isinstance(entity, KafkaQuotaEntity) else IP_QUOTA_KEYS
        for key, value in limits.items():
            found[entity, key] = checked_quota_value(keys, key, _number(key, value))
    return found


def read_entity(path: str) -> Entity:
    """Parses the path of an entity.

    >>> str(read_entity("users/alice/clients/<default>"))
    'user alice default client-id'

    Raises:
        InvalidConfigError: it is not the path of an entity.
    """
    parts = path.removeprefix("/").split("/")
    kinds, names = parts[::2], [_name(path, part) for part in parts[1::2]]
    if len(kinds) != len(names):
        raise _no_entity(path)
    try:
        if kinds == ["users"]:
            return KafkaQuotaEntity(_user(names[0]), None)
        if kinds == ["clients"]:
            return KafkaQuotaEntity(None, _client(names[0]))
        if kinds == ["users", "clients"]:
            return KafkaQuotaEntity(_user(names[0]), _client(names[1]))
        if kinds == ["ips"]:
            return _ip(names[0])
    except ValueError as error:
        raise InvalidConfigError(f"{path}: {error}") from error
    raise _no_entity(path)


def _no_entity(path: str) -> InvalidConfigError:
    return InvalidConfigError(f"{path!r} is no entity that has quotas; there are {_FORMS}")


def _name(path: str, part: str) -> str | None:
    """Decodes a name in a path; None is the default entity."""
    if not part:
        raise _no_entity(path)
    return None if part == DEFAULT_NAME else unquote(part)


def _user(name: str | None) -> ConfigEntity:
    return DEFAULT_USER_ENTITY if name is None else UserEntity.of(name)


def _client(name: str | None) -> ConfigEntity:
    return DEFAULT_CLIENT_ID_ENTITY if name is None else ClientIdEntity(name)


def _ip(name: str | None) -> ConfigEntity:
    return DEFAULT_IP_ENTITY if name is None else IpEntity(canonical_address(name))


def _number(key: str, value: Any) -> float:
    """A number, also written as text (in an `--override`)."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidConfigError(f"{key}: it takes a number above 0, not {value!r}; without a limit, leave it out")
    return number
