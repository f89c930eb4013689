"""Addresses of OTLP receivers, for both protocols."""

import re
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.redaction import names_a_user

GRPC: Final = "grpc"
HTTP_PROTOBUF: Final = "http/protobuf"
PROTOCOLS: Final = (GRPC, HTTP_PROTOBUF)
"""Protocols, named as in `OTEL_EXPORTER_OTLP_PROTOCOL` (OTLP exporter specification, "Specify Protocol")."""

DEFAULT_PORTS: Final = {GRPC: 4317, HTTP_PROTOBUF: 4318}
"""OTLP specification, "OTLP/gRPC Default Port" and "OTLP/HTTP Default Port"."""

METRICS_PATH: Final = "/v1/metrics"
"""OTLP specification, "OTLP/HTTP Request": appended to a base URL."""

_ENDPOINT = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/?#\[\]@]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]*)?"
)
_EXPECTED: Final = {
    GRPC: "expected http://host:port or https://host:port, for example http://localhost:4317",
    HTTP_PROTOBUF: "expected http://host:port or https://host:port, with a path if need be, for example "
    "http://localhost:4318",
}
_WITHOUT_USER: Final = (
    "expected http://host:port or https://host:port without user and password in it; use headers.authorization"
)


@dataclass(frozen=True, slots=True)
class OtlpEndpoint:
    """An OTLP receiver's address.

    Attributes:
        host: name or address; IPv6 in brackets.
        tls: True for `https`.
        path: the path of the request; empty for gRPC.
    """

    host: str
    port: int
    tls: bool
    path: str = ""

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.target}{self.path}"

    @property
    def target(self) -> str:
        """The address in gRPC's notation."""
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, protocol: str = GRPC, *, as_it_is: bool = False) -> "OtlpEndpoint":
        """Reads `http://host:4317`, `https://host:4317` or `host:4317`; the default port is the protocol's.

        For HTTP/protobuf it is a URL: its path is a base to which `/v1/metrics` is added, unless it already ends so,
        and with a scheme its default port is 80 or 443, as for every URL.

        Args:
            text: the address.
            protocol: of `PROTOCOLS`.
            as_it_is: the path is complete (OTLP exporter specification, "Endpoint URLs for OTLP/HTTP": as in
                `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`).

        Raises:
            ValueError: it is not such an address.
        """
        match = _ENDPOINT.fullmatch(text.strip())
        if match is None:
            raise ValueError(_WITHOUT_USER if names_a_user(text) else _EXPECTED[protocol])
        tls, path = match["scheme"] == "https", match["path"] or ""
        port = int(match["port"]) if match["port"] else DEFAULT_PORTS[protocol]
        if protocol == HTTP_PROTOBUF:
            path = (path or "/") if as_it_is else _metrics_path(path)
            if match["scheme"] and not match["port"]:
                port = 443 if tls else 80
        elif path not in ("", "/"):
            raise ValueError(f"{_EXPECTED[GRPC]}; a path belongs to protocol = {HTTP_PROTOBUF!r}")
        if not 1 <= port <= 65_535:
            raise ValueError(_EXPECTED[protocol])
        return cls(match["host"], port, tls, path if protocol == HTTP_PROTOBUF else "")


def _metrics_path(base: str) -> str:
    stripped = base.rstrip("/")
    return stripped if stripped.endswith(METRICS_PATH) else stripped + METRICS_PATH


DEFAULT_ENDPOINTS: Final = {GRPC: "http://localhost:4317", HTTP_PROTOBUF: "http://localhost:4318"}
