"""Keys for access to the HTTP port and the Prometheus page, and for their TLS.

They are named as a listener's. A `prometheus` exporter has them, too, in its table; by default it has the node's.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from fleetgauge.base.errors import ConfigError
from fleetgauge.http.access import AccessSettings
from fleetgauge.node.config.listeners import HTTPS, Endpoint
from fleetgauge.node.config.security import Names, OptionalPath, TlsVersions, key_of
from fleetgauge.wire.tls.server import TLS_VERSIONS, ClientAuth, TlsSettings


class HttpKeys(BaseModel):
    """The keys; their names with underscores."""

    http_users_file: OptionalPath = None
    """File with the users of the HTTP port, made by fleetgauge credentials --http; reread when it changes. Without it,
    loopback addresses need no login, and others are refused."""
    http_anonymous_access: Literal["loopback", "everywhere"] = "loopback"
    """everywhere: without http.users.file, everyone who reaches the HTTP port may read it, from other machines too."""
    http_ssl_keystore_location: str = ""
    """PEM file with the private key and certificate chain of https:// addresses; reread when it changes."""
    http_ssl_key_password: str = ""
    """Password of an encrypted private key."""
    http_ssl_truststore_location: str = ""
    """PEM file with the CA certificates for client certificates; reread when it changes."""
    http_ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Client certificates on https:// addresses: none, requested or required."""
    http_ssl_enabled_protocols: TlsVersions = TLS_VERSIONS
    """Allowed TLS versions."""
    http_ssl_cipher_suites: Names = ()
    """Allowed cipher suites of TLS 1.2, by the names of IANA or OpenSSL; by default Python's choice."""
    http_ssl_crl_location: str = ""
    """PEM file with revocation lists (CRL) of the CAs of client certificates; reread when it changes."""

    def http_access(self, operator_token: str | None = None) -> AccessSettings:
        """The settings that these keys make."""
        tls = TlsSettings(
            keystore_location=self.http_ssl_keystore_location,
            key_password=self.http_ssl_key_password,
            truststore_location=self.http_ssl_truststore_location,
            client_auth=ClientAuth(self.http_ssl_client_auth),
            versions=self.http_ssl_enabled_protocols,
            cipher_suites=self.http_ssl_cipher_suites,
            crl_location=self.http_ssl_crl_location,
        )
        return AccessSettings(
            users_file=self.http_users_file,
            everywhere=self.http_anonymous_access == "everywhere",
            operator_token=operator_token,
            tls=tls if self.http_ssl_keystore_location else None,
        )

    def page_keys(self) -> dict[str, Any]:
        """The keys that differ from their defaults, as an exporter has them."""
        values = {name: getattr(self, name) for name in HttpKeys.model_fields}
        return {
            key_of(name): str(value) if isinstance(value, Path) else value
            for name, value in values.items()
            if value != HttpKeys.model_fields[name].default
        }


def check_http_listeners(endpoints: tuple[Endpoint, ...], access: AccessSettings) -> None:
    """Refuses addresses that everyone could read without its being wanted.

    Raises:
        ConfigError: with the remedy.
    """
    for each in endpoints:
        problem = access.refusal(str(each), is_loopback=each.is_loopback, is_secure=each.listener_name == HTTPS)
        if problem:
            raise ConfigError("http.listeners", problem)
