"""Reads `max.connections.per.ip.overrides` in Kafka's form, `host:count,...`."""

import re
import socket
from collections.abc import Mapping

from fleetgauge.base.errors import ConfigError
from fleetgauge.quotas.connections.connection_quota_config import canonical_address
from fleetgauge.quotas.metrics.metric_config import INT_MAX

PER_IP_OVERRIDES = "max.connections.per.ip.overrides"

_ENTRY = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s\[\]]+))\s*:\s*(?P<count>\d{1,10})")


def parse_overrides(entries: tuple[str, ...]) -> dict[str, int]:
    """Limits by host name or address, as written; an IPv6 address may be in brackets.

    >>> parse_overrides(("127.0.0.1:200", "::1:5", "[2001:db8::1]:6", "batch.example.com:1000"))
    {'127.0.0.1': 200, '::1': 5, '2001:db8::1': 6, 'batch.example.com': 1000}

    Raises:
        ValueError: an entry has another form, or a host occurs twice.
    """
    overrides: dict[str, int] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None or int(match["count"]) > INT_MAX:
            raise ValueError(f"{entry!r} is not host:count, for example 192.0.2.7:100")
        host = match["ipv6"] or match["host"]
        if host in overrides:
            raise ValueError(f"{host} occurs twice")
        overrides[host] = int(match["count"])
    return overrides


def resolve_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Limits by address; a host name counts for all addresses that it resolves to now.

    Raises:
        ConfigError: a host name has no address.
    """
    limits: dict[str, int] = {}
    for host, limit in overrides.items():
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConfigError(PER_IP_OVERRIDES, f"names {host}, which has no address: {error}") from error
        limits |= {canonical_address(str(answer[4][0])): limit for answer in answers}
    return limits
