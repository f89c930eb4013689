"""The authenticated sender of a request."""

from dataclasses import dataclass, field

from fleetgauge.base.arguments import check_types
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.entity import sanitize


@dataclass(frozen=True, slots=True)
class Session:
    """Kafka's `Session`: create it once per connection, since it computes the sanitised name.

    Attributes:
        principal: of the connection.
        client_address: of the connection; not used by quotas.
        sanitized_user: the principal's name in metric tags.
    """

    principal: KafkaPrincipal
    client_address: str = ""
    sanitized_user: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_types(principal=(self.principal, KafkaPrincipal))
        object.__setattr__(self, "sanitized_user", sanitize(self.principal.name))
