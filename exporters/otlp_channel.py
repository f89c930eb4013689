"""Where an OTLP receiver is and how to reach it: endpoint, TLS, channel options."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

DEFAULT_PORT: Final = 4317
"""OTLP/gRPC's (OTLP specification, "OTLP/gRPC Default Port")."""

_ENDPOINT = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@]+)(?::(?P<port>\d{1,5}))?/?"
)

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # After an outage the connection is back within a second and delivery within five.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # As often as a Go server allows by default; a shorter time is answered with GOAWAY.
    ("grpc.keepalive_time_ms", 300_000),
    # Also how long unacknowledged bytes may wait before the connection counts as dead (TCP_USER_TIMEOUT).
    ("grpc.keepalive_timeout_ms", 5_000),
    # A channel that is opened anew gets a connection of its own, not the pooled one that was given up.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)


@dataclass(frozen=True, slots=True)
class OtlpEndpoint:
    """An OTLP receiver's address.

    Attributes:
        host: name or address; IPv6 in brackets.
        tls: True for `https`.
    """

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.target}"

    @property
    def target(self) -> str:
        """As gRPC names it."""
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "OtlpEndpoint":
        """Reads `http://host:4317`, `https://host:4317` or `host:4317`; without a port it is 4317.

        Raises:
            ValueError: it is none of these.
        """
        match = _ENDPOINT.fullmatch(text.strip())
        port = int(match["port"] or DEFAULT_PORT) if match else 0
        if match is None or not 1 <= port <= 65_535:
            raise ValueError("expected http://host:port or https://host:port, for example http://localhost:4317")
        return cls(match["host"], port, match["scheme"] == "https")


DEFAULT_ENDPOINT: Final = OtlpEndpoint("localhost", DEFAULT_PORT, tls=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files for `https`.

    Attributes:
        ca_file: whom to trust; the system's authorities when None.
        cert_file: our own certificate chain, for mutual TLS.
        key_file: its private key.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files, anew each time, so that a renewed certificate is used from the next connection on.

        Raises:
            OSError: a file cannot be read.
        """
        return grpc.ssl_channel_credentials(_read(self.ca_file), _read(self.key_file), _read(self.cert_file))


def open_channel(endpoint: OtlpEndpoint, tls: TlsFiles, *, user_agent: str) -> grpc.Channel:
    """A channel that reconnects by itself; connecting happens in the background.

    Raises:
        OSError: a TLS file cannot be read.
    """
    options: tuple[tuple[str, int | str], ...] = (*_OPTIONS, ("grpc.primary_user_agent", user_agent))
    if endpoint.tls:
        return grpc.secure_channel(endpoint.target, tls.credentials(), options=options)
    return grpc.insecure_channel(endpoint.target, options=options)


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
