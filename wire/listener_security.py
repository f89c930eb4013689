"""How a listener's clients prove who they are, as one value that can be exchanged while the listener runs."""

import ssl
from dataclasses import dataclass, field

from wire.principal_mapping import PrincipalMapper
from wire.proxy_header import ProxyTrust
from wire.sasl.authenticator import SaslSettings
from wire.security_protocol import SecurityProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The security of one listener.

    Attributes:
        protocol: what it speaks.
        tls: certificates and versions; there if the protocol has TLS.
        principal_mapper: names clients by their certificates.
        sasl: mechanisms and users; there if the protocol has SASL.
        proxy: who sends a PROXY header; None where nobody does.

    Raises:
        ValueError: the protocol needs what is not there.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: ssl.SSLContext | None = None
    principal_mapper: PrincipalMapper = field(default_factory=PrincipalMapper)
    sasl: SaslSettings | None = None
    proxy: ProxyTrust | None = None

    def __post_init__(self) -> None:
        if self.protocol.has_tls is not (self.tls is not None) or self.protocol.has_sasl is not (self.sasl is not None):
            raise ValueError(f"a listener of {self.protocol} has TLS and SASL exactly as its name says")

    @property
    def has_handshake(self) -> bool:
        """True if something comes before the first request."""
        return self.protocol is not SecurityProtocol.PLAINTEXT or self.proxy is not None
