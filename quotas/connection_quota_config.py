"""The limits that connection quotas start with, and the one form of an address under which connections are counted."""

import functools
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from quotas.defaults import INT_MAX, NUM_QUOTA_SAMPLES_DEFAULT, QUOTA_WINDOW_SIZE_SECONDS_DEFAULT

UNLIMITED: Final = INT_MAX
"""No limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionQuotaConfig:
    """The limits at the start, by Kafka's names; addresses are numeric, never host names.

    Attributes:
        max_connections: of the whole broker.
        max_connections_per_ip: of one address.
        max_connections_per_ip_overrides: of some addresses instead of that.
        max_connection_creation_rate: of the whole broker [1/s].
        inter_broker_listener_name: the listener that the limits of the whole broker spare, as soon as there is another.
        num_quota_samples: `quota.window.num`.
        quota_window_size_seconds: `quota.window.size.seconds` [s].

    Raises:
        ValueError: a limit is below 0, a window below 1, or an address is none.
    """

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = UNLIMITED
    inter_broker_listener_name: str = ""
    num_quota_samples: int = NUM_QUOTA_SAMPLES_DEFAULT
    quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            lowest = 1 if each.name in ("num_quota_samples", "quota_window_size_seconds") else 0
            if isinstance(value, int) and value < lowest:
                raise ValueError(f"{each.name} must be at least {lowest}, not {value}")
        canonical_overrides(self.max_connections_per_ip_overrides)


@functools.lru_cache(maxsize=4_096)
def canonical_address(address: str) -> str:
    """An address in the one form that is counted: without zone, and an IPv4 one in its own form.

    >>> canonical_address("::ffff:192.0.2.7"), canonical_address("2001:DB8:0::1")
    ('192.0.2.7', '2001:db8::1')

    Raises:
        ValueError: it is no address in numbers.
    """
    read = ipaddress.ip_address(address.partition("%")[0])
    mapped = read.ipv4_mapped if isinstance(read, ipaddress.IPv6Address) else None
    return str(mapped or read)


def canonical_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Limits by address, with each address in its canonical form.

    Raises:
        ValueError: an address is none, or a limit below 0.
    """
    for address, limit in overrides.items():
        if limit < 0:
            raise ValueError(f"max_connections_per_ip_overrides has {limit} for {address}, and it must be at least 0")
    return {canonical_address(address): limit for address, limit in overrides.items()}
