"""Access to a page on a loopback address: for programs of this machine, not for web pages in its browsers."""

import ipaddress
import re
from contextlib import suppress
from typing import Final

_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")
"""`Host` of a request as a whole (RFC 9110, section 7.2): an address of IPv6 in brackets, or a name; and the port."""


def is_loopback(address: str) -> bool:
    """True for a loopback address, also one of IPv4 written as IPv6."""
    with suppress(ValueError):
        ip = ipaddress.ip_address(address)
        mapped = getattr(ip, "ipv4_mapped", None)
        return bool((mapped or ip).is_loopback)
    return False


def names_this_machine(host: str) -> bool:
    """True if a request's `Host` is missing, `localhost` or an IP address.

    A web page whose name was made to point to this machine would have its visitor's browser read us; its requests name
    that name.

    >>> names_this_machine("localhost:9464"), names_this_machine("[::1]:9464"), names_this_machine("evil.example")
    (True, True, False)
    >>> names_this_machine("[::1].evil.example"), names_this_machine("127.0.0.1:80.evil.example")
    (False, False)
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name, ipv6 = match["name"], match["ipv6"]
    if name in ("", "localhost"):
        return True
    with suppress(ValueError):
        ipaddress.IPv4Address(name) if ipv6 is None else ipaddress.IPv6Address(ipv6)
        return True
    return False
