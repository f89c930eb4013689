"""Who sends a request, as quota managers see it."""

from dataclasses import dataclass, field

from base.principal import KafkaPrincipal
from quotas.entity import sanitize


@dataclass(frozen=True, slots=True)
class Session:
    """Kafka's `Session`: made once a connection, since the sanitised name is worked out when it is made.

    Attributes:
        principal: who is connected.
        client_address: the other end; no quota here looks at it.
        sanitized_user: the principal's name in the form of metric tags.
    """

    principal: KafkaPrincipal
    client_address: str = ""
    sanitized_user: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sanitized_user", sanitize(self.principal.name))
