"""Reads `[quotas."<entity>"]`: limits of users, client ids and addresses.

An entity is written as a path of the entity types and names of `kafka-configs.sh`, as Kafka stores it:

| `kafka-configs.sh --alter --add-config request_percentage=50 ...` | here |
|---|---|
| `--entity-type users --entity-name alice` | `users/alice` |
| `--entity-type users --entity-default` | `users/<default>` |
| `--entity-type clients --entity-name app` | `clients/app` |
| `--entity-type users --entity-name alice --entity-type clients --entity-default` | `users/alice/clients/<default>` |
| `--entity-type ips --entity-name 10.0.0.1` | `ips/10.0.0.1` |

A name in a path that holds `/` or `%`, or is `<default>` itself, is percent-encoded, as in Kafka's paths. In requests
an entity is its names by type (`Parts`).
"""

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from fleetgauge.base.errors import InvalidConfigError, InvalidRequestError
from fleetgauge.cluster.plan import Kind
from fleetgauge.quotas import (
    IP_QUOTA_KEYS,
    TELEMETRY_QUOTA_KEYS,
    USER_AND_CLIENT_QUOTA_KEYS,
    EntityQuotaKey,
    checked_quota_value,
)
from fleetgauge.quotas.connections.connection_quota_config import canonical_address
from fleetgauge.quotas.entity import (
    DEFAULT_CLIENT_ID_ENTITY,
    DEFAULT_IP_ENTITY,
    DEFAULT_NAME,
    DEFAULT_USER_ENTITY,
    ClientIdEntity,
    ConfigEntity,
    DefaultEntity,
    IpEntity,
    KafkaQuotaEntity,
    UserEntity,
)

QUOTAS_PREFIX: Final = "quotas."

Entity = KafkaQuotaEntity | ConfigEntity
"""`KafkaQuotaEntity` for users and client ids, `ConfigEntity` for addresses."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
"""The types of entities in requests (Kafka's `ClientQuotaEntity`)."""

Parts = Mapping[str, str | None]
"""An entity of a request: names by type, None for the default."""

Limits = Mapping[Entity, Mapping[str, float]]
"""Limits by entity and key, in the unit of the key."""

LimitName = tuple[Entity, str]
"""Key of one limit: its entity and quota key."""

MAX_NAME_CHARACTERS: Final = 1_024
"""Far above real names: the subject of a certificate."""

_CLIENT_KEYS: Final = {**USER_AND_CLIENT_QUOTA_KEYS, **TELEMETRY_QUOTA_KEYS}
ALL_KEYS: Final = (*_CLIENT_KEYS, *IP_QUOTA_KEYS)
"""The keys of all entities."""
_PATH_WORDS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_TYPES: Final = {word: kind for kind, word in _PATH_WORDS.items()}
_PATHS: Final = (["users"], ["clients"], ["users", "clients"], ["ips"])
"""The types of entities in paths, which is also the order of their parts."""
_FORMS: Final = (
    "users/<name>, clients/<client id>, users/<name>/clients/<client id> and ips/<address>, with <default> for any name"
)


def read_limits(tables: Mapping[str, Mapping[str, object]]) -> dict[LimitName, float]:
    """Every limit of the configuration, in the unit of its key, by entity and key.

    Args:
        tables: the keys of each `[quotas."<entity>"]`.

    Raises:
        InvalidConfigError: Kafka does not accept an entity, a key or a value; the text names it.
    """
    by_name: dict[LimitName, float] = {}
    written: dict[Entity, str] = {}
    for path, limits in tables.items():
        entity = read_entity(path)
        if written.setdefault(entity, path) != path:
            raise InvalidConfigError(f"{path}: it is the same entity as {written[entity]}, and occurs twice")
        keys = keys_of(entity)
        for key, value in limits.items():
            by_name[entity, key] = checked_quota_value(keys, key, _number(key, value))
    return by_name


def read_entity(path: str) -> Entity:
    """Parses the path of an entity.

    >>> str(read_entity("users/alice/clients/<default>"))
    'user alice default client-id'

    Raises:
        InvalidConfigError: it is not the path of an entity.
    """
    parts = path.removeprefix("/").split("/")
    kinds, names = parts[::2], [_name(path, part) for part in parts[1::2]]
    if kinds not in _PATHS or len(kinds) != len(names):
        raise _no_entity(path)
    try:
        return _entity({_TYPES[kind]: name for kind, name in zip(kinds, names, strict=True)})
    except ValueError as error:
        raise InvalidConfigError(f"{path}: {error}") from error


def entity_path(entity: Entity) -> str:
    """Returns the path of an entity; the reverse of `read_entity`.

    >>> entity_path(read_entity("users/a%2Fb/clients/<default>"))
    'users/a%2Fb/clients/<default>'
    """
    return "/".join(f"{_PATH_WORDS[kind]}/{_path_name(name)}" for kind, name in parts_of(entity).items())


def _path_name(name: str | None) -> str:
    if name is None:
        return DEFAULT_NAME
    return "%3Cdefault>" if name == DEFAULT_NAME else name.replace("%", "%25").replace("/", "%2F")


def keys_of(entity: Entity) -> Mapping[str, EntityQuotaKey]:
    """Returns the keys that an entity may have."""
    return _CLIENT_KEYS if isinstance(entity, KafkaQuotaEntity) else IP_QUOTA_KEYS


def _no_entity(path: str) -> InvalidConfigError:
    return InvalidConfigError(f"{path!r} is not a quota entity; use {_FORMS}")


def _name(path: str, part: str) -> str | None:
    """Decodes a name in a path; None is the default entity."""
    if not part:
        raise _no_entity(path)
    return None if part == DEFAULT_NAME else unquote(part)


def _number(key: str, value: Any) -> float:
    """A number, also written as text (in an `--override`)."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidConfigError(f"{key}: it has to be a number above 0, not {value!r}; omit it for no limit")
    return number


def entity_of(parts: Parts) -> Entity:
    """The entity of a request.

    >>> str(entity_of({"client-id": None, "user": "alice"}))
    'user alice default client-id'

    Raises:
        InvalidRequestError: it is not one, with Kafka's text.
    """
    if not parts:
        raise InvalidRequestError("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
        if name is not None and len(name) > MAX_NAME_CHARACTERS:
            raise InvalidRequestError(f"The name of a {kind} can't be longer than {MAX_NAME_CHARACTERS} characters")
    if IP in parts and len(parts) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    try:
        return _entity(parts)
    except ValueError as error:
        raise InvalidRequestError(f"{parts[IP]} is not a valid IP or resolvable host.") from error


def _entity(parts: Parts) -> Entity:
    """The entity of a path or request.

    Raises:
        ValueError: an address is not one.
    """
    address = parts.get(IP)
    if address is not None:
        return IpEntity(canonical_address(address))
    if IP in parts:
        return DEFAULT_IP_ENTITY
    user, client_id = parts.get(USER), parts.get(CLIENT_ID)
    by_user = DEFAULT_USER_ENTITY if user is None else UserEntity(user)
    by_client_id = DEFAULT_CLIENT_ID_ENTITY if client_id is None else ClientIdEntity(client_id)
    return KafkaQuotaEntity(by_user if USER in parts else None, by_client_id if CLIENT_ID in parts else None)


def parts_of(entity: Entity) -> dict[str, str | None]:
    """The reverse of `entity_of`."""
    if not isinstance(entity, KafkaQuotaEntity):
        return {IP: _name_of(entity)}
    named = ((USER, entity.user_entity), (CLIENT_ID, entity.client_id_entity))
    return {kind: _name_of(part) for kind, part in named if part is not None}


def _name_of(part: ConfigEntity) -> str | None:
    return None if isinstance(part, DefaultEntity) else part.name


def by_entity(limits: Mapping[LimitName, float]) -> dict[Entity, dict[str, float]]:
    """Groups limits by entity."""
    grouped: dict[Entity, dict[str, float]] = {}
    for (entity, key), value in limits.items():
        grouped.setdefault(entity, {})[key] = value
    return grouped


QUOTAS: Final = Kind(
    what="quota",
    table="quotas",
    keys=ALL_KEYS,
    read=read_limits,
    words=lambda name: (entity_path(name[0]), name[1]),
)
