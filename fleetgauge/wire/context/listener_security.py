"""The security settings of a listener, as one value that can be replaced while the listener runs."""

import ssl
from dataclasses import dataclass, field, replace

from fleetgauge.wire.messages.proxy_header import ProxyTrust
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.principal_mapping import PrincipalMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The security of one listener.

    Attributes:
        protocol: the security protocol.
        tls: certificates and versions, exactly if the protocol has TLS.
        certificate_expires_at: when the first of these certificates expires [s since the epoch]; None if unknown.
        principal_mapper: maps certificates to principals.
        sasl: mechanisms and users, exactly if the protocol has SASL.
        proxy: addresses that send a PROXY header; None for none.

    Raises:
        ValueError: `tls` or `sasl` does not match the protocol.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: ssl.SSLContext | None = None
    certificate_expires_at: int | None = None
    principal_mapper: PrincipalMapper = field(default_factory=PrincipalMapper)
    sasl: SaslSettings | None = None
    proxy: ProxyTrust | None = None

    def __post_init__(self) -> None:
        if self.protocol.has_tls is not (self.tls is not None) or self.protocol.has_sasl is not (self.sasl is not None):
            raise ValueError(f"a listener of {self.protocol} has TLS and SASL exactly as its name says")

    def with_users(self, store: CredentialStore) -> "ListenerSecurity":
        """Returns the same settings with other SASL users."""
        return self if self.sasl is None else replace(self, sasl=replace(self.sasl, store=store))

    @property
    def has_handshake(self) -> bool:
        """True if a handshake precedes the first request."""
        return self.protocol is not SecurityProtocol.PLAINTEXT or self.proxy is not None
