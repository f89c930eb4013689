"""Who may read a page that is served on a loopback address: programs of this machine, not web pages in its browsers."""

import ipaddress
from contextlib import suppress


def is_loopback(address: str) -> bool:
    """True for a loopback address, also one of IPv4 written as IPv6."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        mapped = getattr(found, "ipv4_mapped", None)
        return bool((mapped or found).is_loopback)
    return False


def names_this_machine(host: str) -> bool:
    """True if a request's `Host` is missing, `localhost` or an IP address.

    A web page whose name was made to point to this machine would have its visitor's browser read us; its requests name
    that name.

    >>> names_this_machine("localhost:9464"), names_this_machine("[::1]:9464"), names_this_machine("evil.example")
    (True, True, False)
    """
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name in ("", "localhost"):
        return True
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
