"""Whom a quota is set for: users, client ids, both, and the defaults of each; and IP addresses.

In the words of `kafka-configs.sh`:

| arguments | here |
|---|---|
| `--entity-type users --entity-name alice` | `UserEntity.of("alice")` |
| `--entity-type users --entity-default` | `DEFAULT_USER_ENTITY` |
| `--entity-type clients --entity-name app` | `ClientIdEntity("app")` |
| `--entity-type clients --entity-default` | `DEFAULT_USER_CLIENT_ID` |
| `--entity-type ips --entity-name 10.0.0.1` | `IpEntity("10.0.0.1")` |
| `--entity-type ips --entity-default` | `DEFAULT_IP_ENTITY` |
"""

import enum
from dataclasses import dataclass
from typing import Final, Protocol

from quotas.sanitizer import desanitize, sanitize

DEFAULT_NAME: Final = "<default>"
"""How Kafka shows a default in logs and names; a user of this very name is sanitised and so a different one."""


class ConfigEntityType(enum.Enum):
    """What a single part of a quota entity is; the value is the tools' `--entity-type`."""

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
        """The user, client id or address as it was configured; `<default>` for a default."""
        ...

    @property
    def entity_type(self) -> ConfigEntityType:
        """What `name` is the name of."""
        ...


@dataclass(frozen=True, slots=True)
class UserEntity:
    """One user, by the sanitised name of the principal."""

    sanitized_user: str

    @classmethod
    def of(cls, user: str) -> "UserEntity":
        """From the name as a principal has it."""
        return cls(sanitize(user))

    @property
    def name(self) -> str:
        """The name as a principal has it."""
        return desanitize(self.sanitized_user)

    @property
    def entity_type(self) -> ConfigEntityType:
        """See `ConfigEntity.entity_type`."""
        return ConfigEntityType.USER

    def __str__(self) -> str:
        return f"user {self.sanitized_user}"


@dataclass(frozen=True, slots=True)
class ClientIdEntity:
    """One client id, as clients send it."""

    client_id: str

    @property
    def name(self) -> str:
        """The client id."""
        return self.client_id

    @property
    def entity_type(self) -> ConfigEntityType:
        """See `ConfigEntity.entity_type`."""
        return ConfigEntityType.CLIENT_ID

    def __str__(self) -> str:
        return f"client-id {self.client_id}"


@dataclass(frozen=True, slots=True)
class IpEntity:
    """One address, for the rate of new connections from it."""

    address: str

    @property
    def name(self) -> str:
        """The address."""
        return self.address

    @property
    def entity_type(self) -> ConfigEntityType:
        """See `ConfigEntity.entity_type`."""
        return ConfigEntityType.IP

    def __str__(self) -> str:
        return f"ip {self.address}"


@dataclass(frozen=True, slots=True)
class DefaultEntity:
    """Everyone of a kind who has no quota of their own. There are three: the constants below."""

    entity_type: ConfigEntityType
    label: str

    @property
    def name(self) -> str:
        """`<default>`."""
        return DEFAULT_NAME

    def __str__(self) -> str:
        return self.label


DEFAULT_USER_ENTITY: Final = DefaultEntity(ConfigEntityType.DEFAULT_USER, "default user")
DEFAULT_USER_CLIENT_ID: Final = DefaultEntity(ConfigEntityType.DEFAULT_CLIENT_ID, "default client-id")
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
        ValueError: neither is given, or one is not what it stands for.
    """

    user_entity: ConfigEntity | None
    client_id_entity: ConfigEntity | None

    def __post_init__(self) -> None:
        if self.user_entity is None and self.client_id_entity is None:
            raise ValueError("a quota is set for a user, a client id or both, not for neither")
        if self.user_entity is not None and self.user_entity.entity_type not in _USERS:
            raise ValueError(f"not a user: {self.user_entity}")
        if self.client_id_entity is not None and self.client_id_entity.entity_type not in _CLIENTS:
            raise ValueError(f"not a client id: {self.client_id_entity}")

    @property
    def config_entities(self) -> tuple[ConfigEntity, ...]:
        """The parts that are given, the user first."""
        return tuple(part for part in (self.user_entity, self.client_id_entity) if part is not None)

    @property
    def sanitized_user(self) -> str:
        """The user as metric tags have it; empty without one."""
        user = self.user_entity
        if user is None:
            return ""
        return user.sanitized_user if isinstance(user, UserEntity) else user.name

    @property
    def client_id(self) -> str:
        """The client id as metric tags have it; empty without one."""
        return "" if self.client_id_entity is None else self.client_id_entity.name

    @property
    def has_default(self) -> bool:
        """True if a part is a default, so that the quota is that of many."""
        return DEFAULT_USER_ENTITY in self.config_entities or DEFAULT_USER_CLIENT_ID in self.config_entities

    def __str__(self) -> str:
        return " ".join(map(str, self.config_entities))
