"""Initial limits of connection quotas, and the canonical form of an address."""

import functools
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.quotas.limits import checked_number
from fleetgauge.quotas.metrics.metric_config import (
    INT_MAX,
    NUM_QUOTA_SAMPLES_DEFAULT,
    QUOTA_WINDOW_SIZE_SECONDS_DEFAULT,
)

UNLIMITED: Final = INT_MAX
"""No limit."""

MAX_CONNECTIONS: Final = "max.connections"
MAX_CONNECTIONS_PER_IP: Final = "max.connections.per.ip"
MAX_CONNECTIONS_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
MAX_CONNECTION_CREATION_RATE: Final = "max.connection.creation.rate"

_NUMBERS: Final = {
    "max_connections": (MAX_CONNECTIONS, 0),
    "max_connections_per_ip": (MAX_CONNECTIONS_PER_IP, 0),
    "max_connection_creation_rate": (MAX_CONNECTION_CREATION_RATE, 0),
    "num_quota_samples": ("quota.window.num", 1),
    "quota_window_size_seconds": ("quota.window.size.seconds", 1),
}
"""Kafka's key and smallest value per field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionQuotaConfig:
    """Initial limits under Kafka's names; addresses are numeric, never host names.

    Attributes:
        max_connections: of the whole broker.
        max_connections_per_ip: of one address.
        max_connections_per_ip_overrides: overrides for single addresses.
        max_connection_creation_rate: of the whole broker [1/s].
        inter_broker_listener_name: the listener exempt from the broker-wide limits, once there is another listener.
        num_quota_samples: `quota.window.num`.
        quota_window_size_seconds: `quota.window.size.seconds` [s].

    Raises:
        InvalidConfigError: a limit is below 0, a window below 1, or `max_connections_per_ip` 0 for all addresses.
        ValueError: an address is not an IP address.
    """

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = UNLIMITED
    inter_broker_listener_name: str = ""
    num_quota_samples: int = NUM_QUOTA_SAMPLES_DEFAULT
    quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        for name, (key, minimum) in _NUMBERS.items():
            object.__setattr__(self, name, checked_number(key, getattr(self, name), minimum))
        canonical_overrides(self.max_connections_per_ip_overrides)
        check_per_ip(self.max_connections_per_ip, self.max_connections_per_ip_overrides)


def check_per_ip(max_connections_per_ip: int, overrides: Collection[object]) -> None:
    """Refuses a `max.connections.per.ip` that admits no address.

    Raises:
        InvalidConfigError: it is 0, and no override admits an address.
    """
    if max_connections_per_ip == 0 and not overrides:
        raise InvalidConfigError(
            f"{MAX_CONNECTIONS_PER_IP} can be set to zero only if {MAX_CONNECTIONS_PER_IP_OVERRIDES} property is set."
        )


def check_listener_limits(max_connections: object, max_connection_creation_rate: object) -> tuple[int, int]:
    """Checks new limits of an existing listener: 0 is allowed only when it is added, as in Kafka.

    Raises:
        InvalidConfigError: one of them is 0, or below it.
    """
    numbers = {
        MAX_CONNECTIONS: checked_number(MAX_CONNECTIONS, max_connections),
        MAX_CONNECTION_CREATION_RATE: checked_number(MAX_CONNECTION_CREATION_RATE, max_connection_creation_rate),
    }
    for key, number in numbers.items():
        if number == 0:
            raise InvalidConfigError(f"Invalid {key} 0")
    return numbers[MAX_CONNECTIONS], numbers[MAX_CONNECTION_CREATION_RATE]


@functools.lru_cache(maxsize=4_096)
def canonical_address(address: str) -> str:
    """Returns the canonical form of an address: without zone, and IPv4-mapped addresses as IPv4.

    >>> canonical_address("::ffff:192.0.2.7"), canonical_address("2001:DB8:0::1")
    ('192.0.2.7', '2001:db8::1')

    Raises:
        TypeError: it is not a string.
        ValueError: it is not a numeric address.
    """
    if not isinstance(address, str):
        raise TypeError(f"an address is text, for example '192.0.2.7', not {address!r}")
    read = ipaddress.ip_address(address.partition("%")[0])
    mapped = read.ipv4_mapped if isinstance(read, ipaddress.IPv6Address) else None
    return str(mapped or read)


def canonical_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Returns limits by canonical address.

    Raises:
        InvalidConfigError: a limit is below 0. (Kafka takes it, and refuses every connection, as under 0.)
        ValueError: an address is not an IP address.
    """
    check_types(overrides=(overrides, Mapping))
    return {
        canonical_address(address): checked_number(f"{MAX_CONNECTIONS_PER_IP_OVERRIDES} of {address}", limit)
        for address, limit in overrides.items()
    }
