"""What counts as one source of connections where sources are bounded or compared. Imports nothing of the project."""

import functools
import ipaddress
from typing import Final

_IPV6_NETWORK_BITS: Final = 64
"""What one IPv6 customer is given at the least (RFC 6177): its single addresses cost nothing."""
_KEPT: Final = 4_096


@functools.lru_cache(_KEPT)
def network_of(address: str) -> str:
    """An IPv4 address itself, the /64 network of an IPv6 address; a text that is neither stays as it is.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4"), network_of("fe80::1%eth0")
    ('192.0.2.7', '2001:db8:1:2::/64', 'fe80::/64')
    """
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], _IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return address
