"""The network of an address, which counts as one source where sources are limited."""

import functools
import ipaddress
from typing import Final

_IPV6_NETWORK_BITS: Final = 64
"""The smallest network of an IPv6 customer (RFC 6177), who can use any of its addresses."""
_CACHE_SIZE: Final = 4_096


def unmapped(host: str) -> str:
    """The address of a socket's peer; an IPv4 peer of a dual-stack socket as an IPv4 address, as in Java.

    >>> unmapped("::ffff:192.0.2.7"), unmapped("192.0.2.7"), unmapped("2001:db8::7")
    ('192.0.2.7', '192.0.2.7', '2001:db8::7')
    """
    return host.removeprefix("::ffff:") if "." in host else host


@functools.lru_cache(_CACHE_SIZE)
def network_of(address: str) -> str:
    """An IPv4 address itself, or the /64 network of an IPv6 address; any other text is returned unchanged.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4"), network_of("fe80::1%eth0")
    ('192.0.2.7', '2001:db8:1:2::/64', 'fe80::/64')
    """
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], _IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return address
