"""Reads `listeners` and `advertised.listeners` in Kafka's form, `NAME://host:port,...`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from pydantic import BeforeValidator

from fleetgauge.base.redaction import names_a_user

_ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>\d+)"
)
HTTP = "http"
HTTPS = "https"
LOOPBACK = "loopback"
"""In `admin.listeners`: every listener that is bound to a loopback address."""
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # recognised, not bound to


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners`.

    Attributes:
        listener_name: upper case, as Kafka normalises it.
        host: empty for every interface, as in Kafka.
        port: 0 lets the system choose (not in `advertised.listeners`).
    """

    listener_name: str
    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """True if `host` means every interface, so that clients cannot connect to it."""
        return self.host in _WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """True if only clients of this machine can connect to it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Reads a list of endpoints.

    >>> parse_endpoints("PLAINTEXT://127.0.0.1:9092, INTERNAL://[::1]:0")[1]
    Endpoint(listener_name='INTERNAL', host='::1', port=0)

    Raises:
        ValueError: an entry is not `NAME://host:port`, a port is above 65535, or a name occurs twice.
    """
    endpoints = [_parse_endpoint(entry.strip()) for entry in text.split(",") if entry.strip()]
    if not endpoints:
        raise ValueError("needs at least one NAME://host:port, for example PLAINTEXT://127.0.0.1:9092")
    names = [endpoint.listener_name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ValueError(f"each listener needs its own name, but the names are {', '.join(names)}")
    return tuple(endpoints)


def _parse_endpoint(entry: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(entry)
    if match is None:
        raise ValueError(f"{entry!r} is not NAME://host:port{_hint(entry)}, for example PLAINTEXT://127.0.0.1:9092")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"{entry!r} has port {port}; the highest port is 65535")
    return Endpoint(match["name"].upper(), match["ipv6"] or match["host"] or "", port)


def _hint(entry: str) -> str:
    """A hint for an entry with user and password, which are removed from the error's text."""
    return " without user and password in it" if names_a_user(entry) else ""


def parse_http_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Reads `http.listeners`: `http://host:port,https://host:port,...`; empty is none.

    >>> [str(each) for each in parse_http_endpoints("http://127.0.0.1:9465, http://[::1]:0")]
    ['http://127.0.0.1:9465', 'http://[::1]:0']

    Raises:
        ValueError: an entry is neither `http://host:port` nor `https://host:port`, or occurs twice.
    """
    endpoints = []
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        match = _ENDPOINT.fullmatch(entry.removesuffix("/"))
        if match is None or match["name"] not in (HTTP, HTTPS) or int(match["port"]) > 65535:
            raise ValueError(
                f"{entry!r} is not http://host:port or https://host:port{_hint(entry)}, for example http://127.0.0.1:9465"
            )
        endpoints.append(Endpoint(match["name"], match["ipv6"] or match["host"] or "", int(match["port"])))
    fixed = [endpoint for endpoint in endpoints if endpoint.port]
    if len({(each.host, each.port) for each in fixed}) != len(fixed):
        raise ValueError("an address occurs twice")
    return tuple(endpoints)


def _read_by(parse: Callable[[str], tuple[Endpoint, ...]]) -> BeforeValidator:
    """Reads a text, or a TOML list of texts; leaves other values to pydantic."""

    def read(value: object) -> object:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        return (parse(value) if value else ()) if isinstance(value, str) else value

    return BeforeValidator(read)


Endpoints = Annotated[tuple[Endpoint, ...], _read_by(parse_endpoints)]
HttpEndpoints = Annotated[tuple[Endpoint, ...], _read_by(parse_http_endpoints)]
