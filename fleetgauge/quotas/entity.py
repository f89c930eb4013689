"""Quota entities: users, client ids, both, the defaults of each, and IP addresses; and Kafka's name sanitizer.

As arguments of `kafka-configs.sh`:

| arguments | here |
|---|---|
| `--entity-type users --entity-name alice` | `UserEntity("alice")` |
| `--entity-type users --entity-default` | `DEFAULT_USER_ENTITY` |
| `--entity-type clients --entity-name app` | `ClientIdEntity("app")` |
| `--entity-type clients --entity-default` | `DEFAULT_CLIENT_ID_ENTITY` |
| `--entity-type ips --entity-name 10.0.0.1` | `IpEntity("10.0.0.1")` |
| `--entity-type ips --entity-default` | `DEFAULT_IP_ENTITY` |
"""

import enum
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol
from urllib.parse import quote, unquote

from fleetgauge.base.arguments import check_types

DEFAULT_NAME: Final = "<default>"
"""Kafka's name of a default in logs and metrics; a user of this name is sanitised and so differs."""


class ConfigEntityType(enum.Enum):
    """Type of one part of a quota entity; the value is `--entity-type` of Kafka's tools."""

    USER = "users"
    DEFAULT_USER = "users by default"
    CLIENT_ID = "clients"
    DEFAULT_CLIENT_ID = "clients by default"
    IP = "ips"
    DEFAULT_IP = "ips by default"


class ConfigEntity(Protocol):
    """One part of a quota entity (KIP-257, `ClientQuotaEntity.ConfigEntity`). Equal by value."""

    @property
    def name(self) -> str:
        """The user, client id or address as configured; `<default>` for a default, as in Kafka 4.3.1 (KIP-257: "")."""

    @property
    def entity_type(self) -> ConfigEntityType:
        """Type of the entity."""


@dataclass(frozen=True, slots=True)
class UserEntity:
    """One user, by the principal's name; `from_sanitized` takes the name in metric tags, as Kafka's class does.

    >>> UserEntity("CN=app, O=me") == UserEntity.from_sanitized("CN%3Dapp%2C%20O%3Dme")
    True

    Attributes:
        name: the principal's name.
        sanitized_user: the name in metric tags. Users are equal if this is.

    Raises:
        TypeError: the name is not a string.
    """

    entity_type: ClassVar = ConfigEntityType.USER
    name: str = field(compare=False)
    sanitized_user: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"a user is given by the name of the principal, a text, not by {self.name!r}")
        object.__setattr__(self, "sanitized_user", sanitize(self.name))

    @classmethod
    def of(cls, user: str) -> "UserEntity":
        """Returns `UserEntity(user)`."""
        return cls(user)

    @classmethod
    def from_sanitized(cls, sanitized_user: str) -> "UserEntity":
        """Returns the user with this name in metric tags."""
        return cls(desanitize(sanitized_user))

    def __str__(self) -> str:
        return f"user {self.sanitized_user}"


@dataclass(frozen=True, slots=True)
class ClientIdEntity:
    """One client id, as sent by clients.

    Raises:
        TypeError: it is not a string.
    """

    entity_type: ClassVar = ConfigEntityType.CLIENT_ID
    client_id: str

    def __post_init__(self) -> None:
        if not isinstance(self.client_id, str):
            raise TypeError(f"a client id is a text, not {self.client_id!r}")

    @property
    def name(self) -> str:
        """The client id."""
        return self.client_id

    def __str__(self) -> str:
        return f"client-id {self.client_id}"


@dataclass(frozen=True, slots=True)
class IpEntity:
    """One address, for the rate of new connections from it."""

    entity_type: ClassVar = ConfigEntityType.IP
    address: str

    @property
    def name(self) -> str:
        """The address."""
        return self.address

    def __str__(self) -> str:
        return f"ip {self.address}"


@dataclass(frozen=True, slots=True)
class DefaultEntity:
    """Every user, client id or address without its own quota. The three constants below are the only instances."""

    entity_type: ConfigEntityType
    label: str

    @property
    def name(self) -> str:
        """`<default>`."""
        return DEFAULT_NAME

    def __str__(self) -> str:
        return self.label


DEFAULT_USER_ENTITY: Final = DefaultEntity(ConfigEntityType.DEFAULT_USER, "default user")
DEFAULT_CLIENT_ID_ENTITY: Final = DefaultEntity(ConfigEntityType.DEFAULT_CLIENT_ID, "default client-id")
"""Any client id, of any user or of the user in the same entity. Kafka's code calls it `DEFAULT_USER_CLIENT_ID`."""
DEFAULT_IP_ENTITY: Final = DefaultEntity(ConfigEntityType.DEFAULT_IP, "default ip")

_USERS: Final = frozenset({ConfigEntityType.USER, ConfigEntityType.DEFAULT_USER})
_CLIENTS: Final = frozenset({ConfigEntityType.CLIENT_ID, ConfigEntityType.DEFAULT_CLIENT_ID})


@dataclass(frozen=True, slots=True)
class KafkaQuotaEntity:
    """A user, a client id or a user's client id, each by name or by default (Kafka's `KafkaQuotaEntity`).

    Attributes:
        user_entity: None for a quota on client ids alone.
        client_id_entity: None for a quota on users alone.

    Raises:
        TypeError: one is not an entity, for example a string.
        ValueError: neither is given, or one has the wrong entity type.
    """

    user_entity: ConfigEntity | None
    client_id_entity: ConfigEntity | None

    def __post_init__(self) -> None:
        if self.user_entity is None and self.client_id_entity is None:
            raise ValueError("a quota is set for a user, a client id or both, not for neither")
        _check(self.user_entity, _USERS, "user", "UserEntity")
        _check(self.client_id_entity, _CLIENTS, "client id", "ClientIdEntity")

    @property
    def config_entities(self) -> tuple[ConfigEntity, ...]:
        """The given parts, the user first."""
        return tuple(part for part in (self.user_entity, self.client_id_entity) if part is not None)

    @property
    def sanitized_user(self) -> str:
        """The user in metric tags; empty without one."""
        user = self.user_entity
        if user is None:
            return ""
        return user.sanitized_user if isinstance(user, UserEntity) else user.name

    @property
    def client_id(self) -> str:
        """The client id in metric tags; empty without one."""
        return "" if self.client_id_entity is None else self.client_id_entity.name

    @property
    def has_default(self) -> bool:
        """True if a part is a default, so that the quota applies to many entities."""
        return DEFAULT_USER_ENTITY in self.config_entities or DEFAULT_CLIENT_ID_ENTITY in self.config_entities

    def __str__(self) -> str:
        return " ".join(map(str, self.config_entities))


def _check(part: ConfigEntity | None, kinds: frozenset[ConfigEntityType], what: str, of_class: str) -> None:
    if part is None:
        return
    kind = getattr(part, "entity_type", None)
    if not isinstance(kind, ConfigEntityType):
        name = part if isinstance(part, str) else "..."
        raise TypeError(f"the {what} of a quota is given as {of_class}({name!r}), or a default; not as {part!r}")
    if kind not in kinds:
        raise ValueError(f"not a {what}: {part}")


def sanitize(name: str) -> str:
    """Percent-encodes `name` as Kafka's `Sanitizer` does: letters, digits and `.-_` stay.

    A `:` is always encoded, so that sensor names, which join tags by it, are unambiguous. A lone surrogate becomes
    `%3F`, as in Java.

    >>> sanitize("CN=kafka client,O=*")
    'CN%3Dkafka%20client%2CO%3D%2A'
    """
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(name: str) -> str:
    """Reverses `sanitize`.

    >>> desanitize("CN%3Dkafka%20client%2CO%3D%2A")
    'CN=kafka client,O=*'
    """
    check_types(name=(name, str))
    return unquote(name)
