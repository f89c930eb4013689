"""The keys of authentication and connection limits, for the node or for one listener.

A key of one listener, `listener.name.<name in lower case>.<key>`, overrides the node's.
"""

import importlib.util
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import ConfigError
from fleetgauge.base.redaction import is_secret, shown
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.metrics.metric_config import INT_MAX
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.messages.proxy_header import ProxyTrust
from fleetgauge.wire.sasl.authenticator import MECHANISMS, OAUTHBEARER, SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.oauthbearer import TokenVerifier
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.principal_mapping import DEFAULT_RULES, PrincipalMapper
from fleetgauge.wire.tls.server import (
    HOW_TO_CONVERT,
    TLS_VERSIONS,
    ClientAuth,
    TlsConfigError,
    TlsSettings,
    expires_at,
    make_server_context,
)

LISTENER_PREFIX: Final = "listener.name."
USERS_PREFIX: Final = "sasl.users."
NOT_READ: Final = {
    "sasl.jaas.config": "is not read: configure users in [sasl.users.<name>], as fleetgauge credentials prints them",
    "ssl.keystore.password": "is not read: a PEM file has a password for its private key alone, ssl.key.password",
    "ssl.truststore.password": "is not read: a PEM file of certificates has no password",
}
"""Keys of Kafka brokers that are not supported, and the alternative."""

_QUOTAS: Final = QuotaConfig()
_SASL: Final = SaslSettings(mechanisms=(), store=CredentialStore({}))


def comma_separated(value: object) -> object:
    """Accepts a comma-separated text, as in Kafka, and a TOML list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _joined(value: object) -> object:
    return ",".join(str(item) for item in value) if isinstance(value, list | tuple) else value


def _store_type(value: object) -> object:
    if isinstance(value, str) and value.upper() in ("JKS", "PKCS12"):
        raise ValueError(HOW_TO_CONVERT)
    return value.upper() if isinstance(value, str) else value


def checked(parse: Callable[[Any], object]) -> AfterValidator:
    """Refuses the values that `parse` refuses, and keeps the others as they are written."""

    def check(value: object) -> object:
        parse(value)
        return value

    return AfterValidator(check)


Names = Annotated[tuple[str, ...], BeforeValidator(comma_separated)]


def _check_versions(value: tuple[str, ...]) -> None:
    if not value or not set(value) <= set(TLS_VERSIONS):
        raise ValueError(f"takes {' and '.join(TLS_VERSIONS)}; older versions are broken")


TlsVersions = Annotated[Names, checked(_check_versions)]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: None if value == "" else value)]
"""A path; an empty text is none."""
StoreType = Annotated[Literal["PEM"], BeforeValidator(_store_type)]


def key_of(field_name: str) -> str:
    """The configuration key of a field: its name with dots.

    >>> key_of("ssl_keystore_location")
    'ssl.keystore.location'
    """
    return field_name.replace("_", ".")


class ListenerKeys(BaseModel):
    """The keys that may also be set for one listener."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, alias_generator=key_of)

    ssl_keystore_type: StoreType = "PEM"
    """PEM, the only supported format."""
    ssl_keystore_location: str = ""
    """PEM file with the listener's private key and certificate chain; reread on SIGHUP."""
    ssl_keystore_certificate_chain: str = ""
    """The certificate chain as PEM text, instead of the file."""
    ssl_keystore_key: str = ""
    """The private key as PEM text, instead of the file."""
    ssl_key_password: str = ""
    """Password of an encrypted private key."""
    ssl_truststore_type: StoreType = "PEM"
    """PEM, the only supported format."""
    ssl_truststore_location: str = ""
    """PEM file with the CA certificates for client certificates; reread on SIGHUP."""
    ssl_truststore_certificates: str = ""
    """The CA certificates as PEM text, instead of the file."""
    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Client certificates: none, requested or required; for SASL_SSL set listener.name.<name>.ssl.client.auth."""
    ssl_enabled_protocols: TlsVersions = TLS_VERSIONS
    """Allowed TLS versions."""
    ssl_cipher_suites: Names = ()
    """Allowed cipher suites of TLS 1.2, by the names of IANA or OpenSSL; by default Python's choice."""
    ssl_crl_location: str = ""
    """PEM file with revocation lists (CRL) of the CAs of client certificates; reread on SIGHUP."""
    ssl_principal_mapping_rules: Annotated[str, BeforeValidator(_joined), checked(PrincipalMapper)] = DEFAULT_RULES
    """RULE:pattern/replacement/[LU] or DEFAULT,...: maps a certificate's subject to a principal name."""
    sasl_enabled_mechanisms: Names = tuple(mechanism.value for mechanism in ScramMechanism)
    """Allowed SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."""
    sasl_oauthbearer_jwks_endpoint_url: str = ""
    """https://, http:// or file:// with the JSON Web Key Set of the issuer of tokens (extra: oauth)."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = Field(default=3_600_000, ge=1_000)
    """Time between two readings of these keys; an unknown key id asks for another, at most every 10 s [ms]."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = Field(default=100, ge=1)
    """Wait after a failed reading, doubled after each [ms]."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = Field(default=10_000, ge=1)
    """The longest such wait [ms]."""
    sasl_oauthbearer_expected_audience: Names = ()
    """One of these has to be in the claim aud of a token; by default only tokens without that claim are accepted."""
    sasl_oauthbearer_expected_issuer: str = ""
    """The claim iss of a token; by default any."""
    sasl_oauthbearer_clock_skew_seconds: int = Field(default=30, ge=0, le=3600)
    """Largest accepted difference to the issuer's clock [s]."""
    sasl_oauthbearer_scope_claim_name: str = Field(default="scope", min_length=1)
    """The claim with the scopes of a token, which are only checked for their form."""
    sasl_oauthbearer_sub_claim_name: str = Field(default="sub", min_length=1)
    """The claim with the user's name."""
    sasl_server_max_receive_size: int = Field(default=_SASL.max_receive_bytes, ge=1024, le=INT_MAX)
    """Largest request of an unauthenticated client [B]."""
    connections_max_reauth_ms: int = Field(default=_SASL.max_reauth_ms, ge=0)
    """Clients must re-authenticate within this time, or their connection is closed; 0: never [ms]."""
    connection_failed_authentication_delay_ms: int = Field(default=_SASL.failure_delay_ms, ge=0, le=60_000)
    """Delay of the error response, and of the close, after a failed authentication [ms]."""
    max_connections: int = Field(default=_QUOTAS.max_connections, ge=0, le=INT_MAX)
    """Connections of the node, and of each listener; new connections beyond it wait to be accepted. By default what the
    limit of open files and a 16th of the memory allow."""
    max_connection_creation_rate: int = Field(default=_QUOTAS.max_connection_creation_rate, ge=0, le=INT_MAX)
    """New connections of the node, and of each listener [1/s]; beyond it, they wait to be accepted."""
    proxy_protocol_enable: bool = False
    """Expect a load balancer's PROXY header, version 1 or 2, on each connection."""
    proxy_protocol_trusted_addresses: Annotated[Names, checked(ProxyTrust)] = ()
    """Addresses and networks (CIDR) of the load balancers; no other address can connect."""

    @field_validator("sasl_enabled_mechanisms")
    @classmethod
    def _check_mechanisms(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(name.upper() for name in value)
        if not names or not set(names) <= {*MECHANISMS, OAUTHBEARER} or len(set(names)) != len(names):
            known = ", ".join((*MECHANISMS, OAUTHBEARER))
            raise ValueError(f"takes each of {known} at most once, and one at least")
        return names


LISTENER_KEYS: Final = tuple(map(key_of, ListenerKeys.model_fields))


def read_protocol_map(entries: tuple[str, ...]) -> dict[str, SecurityProtocol]:
    """Parses `NAME:PROTOCOL` entries.

    >>> read_protocol_map(("EXTERNAL:SASL_SSL",))["EXTERNAL"].value
    'SASL_SSL'

    Raises:
        ValueError: an entry has another form, or a name occurs twice.
    """
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, colon, protocol = entry.rpartition(":")
        if not colon or not name or protocol.upper() not in list(SecurityProtocol):
            allowed = ", ".join(SecurityProtocol)
            raise ValueError(f"{entry!r} is not NAME:PROTOCOL with one of {allowed}, for example EXTERNAL:SASL_SSL")
        if name.upper() in protocols:
            raise ValueError(f"{name} occurs twice")
        protocols[name.upper()] = SecurityProtocol(protocol.upper())
    return protocols


def read_users(users: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[ScramCredential, ...]]:
    """The users of `[sasl.users.<name>]`, each with its credentials, the strongest mechanism first.

    Raises:
        ConfigError: a credential cannot be used.
    """
    return {user: _credentials(user, keys) for user, keys in users.items()}


def _credentials(user: str, keys: Mapping[str, str]) -> tuple[ScramCredential, ...]:
    credentials = []
    for mechanism in reversed(ScramMechanism):
        key = mechanism.value.lower()
        if key not in keys:
            continue
        try:
            credentials.append(ScramCredential.parse(mechanism, keys[key]))
        except ValueError as error:
            # The value is left out of the error: it is nearly a password.
            raise ConfigError(
                f"{USERS_PREFIX}{user}.{key}", f"{error}; create one with fleetgauge credentials {user}"
            ) from error
    return tuple(credentials)


class SecurityKeys:
    """The security settings of every listener.

    Args:
        common: the node's keys.
        own: keys of single listeners, without their prefix `listener.name.`.
        protocols: security protocol by listener name.
        users: the content of `[sasl.users]`.

    Attributes:
        by_listener: the keys of each listener: its own values, else the node's.

    Raises:
        ConfigError: a key is unknown, a value is not allowed, or a required key is missing.
    """

    def __init__(
        self,
        common: ListenerKeys,
        own: Mapping[str, object],
        protocols: Mapping[str, SecurityProtocol],
        users: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._protocols = dict(protocols)
        self._users = read_users(users)
        self.by_listener = _split(common, own, protocols)
        for name, keys in self.by_listener.items():
            self._check(name, keys)

    def build(self) -> dict[str, ListenerSecurity]:
        """Reads the certificates and returns the security settings of each listener.

        Raises:
            ConfigError: certificates or keys cannot be used.
        """
        store = CredentialStore(self._users)
        return {name: self._build(name, keys, store) for name, keys in self.by_listener.items()}

    def tls_of(self, name: str) -> ssl.SSLContext | None:
        """Reads the certificates of a listener; None if it has no TLS.

        Raises:
            ConfigError: certificates or keys cannot be used.
        """
        if not self._protocols[name].has_tls:
            return None
        try:
            return make_server_context(_tls_settings(self.by_listener[name]))
        except TlsConfigError as error:
            raise ConfigError(error.key, f"{error.problem} (listener {name})") from error

    def _check(self, name: str, keys: ListenerKeys) -> None:
        if keys.proxy_protocol_enable and not keys.proxy_protocol_trusted_addresses:
            raise ConfigError(
                "proxy.protocol.trusted.addresses",
                f"listener {name} has proxy.protocol.enable=true and needs the addresses of its load balancers, for "
                "example 10.0.0.0/8",
            )
        if not self._protocols[name].has_sasl:
            return
        mechanisms = keys.sasl_enabled_mechanisms
        if OAUTHBEARER in mechanisms:
            _check_oauth(name, keys)
        if set(mechanisms) != {OAUTHBEARER} and not self._users:
            raise ConfigError(
                "sasl.users", f"listener {name} needs at least one user: create one with fleetgauge credentials NAME"
            )

    def _build(self, name: str, keys: ListenerKeys, store: CredentialStore) -> ListenerSecurity:
        protocol = self._protocols[name]
        context = self.tls_of(name)
        sasl = SaslSettings(
            mechanisms=keys.sasl_enabled_mechanisms,
            store=store,
            tokens=_verifier(name, keys) if protocol.has_sasl and OAUTHBEARER in keys.sasl_enabled_mechanisms else None,
            max_receive_bytes=keys.sasl_server_max_receive_size,
            max_reauth_ms=keys.connections_max_reauth_ms,
            failure_delay_ms=keys.connection_failed_authentication_delay_ms,
        )
        return ListenerSecurity(
            protocol=protocol,
            tls=context,
            certificate_expires_at=None if context is None else expires_at(_tls_settings(keys)),
            principal_mapper=PrincipalMapper(keys.ssl_principal_mapping_rules),
            sasl=sasl if protocol.has_sasl else None,
            proxy=ProxyTrust(keys.proxy_protocol_trusted_addresses) if keys.proxy_protocol_enable else None,
        )


def _split(
    common: ListenerKeys, own: Mapping[str, object], protocols: Mapping[str, SecurityProtocol]
) -> dict[str, ListenerKeys]:
    """The keys of each listener: its own values, else the node's."""
    by_listener: dict[str, dict[str, object]] = {name: {} for name in protocols}
    for key, value in own.items():
        name, inner = _own_key(key, protocols)
        by_listener[name][inner] = value
    values = {key_of(name): getattr(common, name) for name in ListenerKeys.model_fields}
    return {name: _merged(name, values, keys, protocols[name]) for name, keys in by_listener.items()}


def _own_key(key: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[str, str]:
    for name in sorted(protocols, key=len, reverse=True):
        inner = key.removeprefix(f"{name.lower()}.")
        if inner == key:
            continue
        if inner in LISTENER_KEYS:
            return name, inner
        hint = NOT_READ.get(inner) or f"is not one of {', '.join(LISTENER_KEYS)}"
        raise ConfigError(f"{LISTENER_PREFIX}{key}", hint)
    listeners = ", ".join(f"{LISTENER_PREFIX}{name.lower()}." for name in protocols)
    raise ConfigError(f"{LISTENER_PREFIX}{key}", f"belongs to no listener; they begin with {listeners}")


def _merged(name: str, common: dict[str, Any], own: Mapping[str, object], protocol: SecurityProtocol) -> ListenerKeys:
    if protocol is SecurityProtocol.SASL_SSL:
        # Kafka applies the node's ssl.client.auth to SSL listeners alone (KIP-684).
        common = {**common, "ssl.client.auth": "none"}
    try:
        return ListenerKeys.model_validate({**common, **own})
    except ValidationError as error:
        key, message = first_problem(error)
        problem = f"{shown_in_error(key, own.get(key))} is not allowed: {message}"
        raise ConfigError(f"{LISTENER_PREFIX}{name.lower()}.{key}", problem) from error


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The key of the first problem of a configuration, empty for one of several keys, and what is wrong."""
    first = error.errors(include_url=False)[0]
    return str(first["loc"][0]) if first["loc"] else "", first["msg"].removeprefix("Value error, ")


def shown_in_error(key: str, value: object) -> str:
    """The text of a value in an error, without secrets."""
    return "its value" if is_secret(key) else repr(shown(key, value))


_JWKS_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"


def _check_oauth(name: str, keys: ListenerKeys) -> None:
    if not keys.sasl_oauthbearer_jwks_endpoint_url.startswith(("https://", "http://", "file:///")):
        raise ConfigError(
            _JWKS_KEY,
            f"listener {name} has OAUTHBEARER and needs the address of the issuer's keys, for example "
            "https://login.example.com/keys or file:///etc/fleetgauge/jwks.json",
        )
    if importlib.util.find_spec("jwt") is None:
        raise ConfigError(
            "sasl.enabled.mechanisms", "OAUTHBEARER needs the extra oauth: pip install 'fleetgauge[oauth]'"
        )


def _verifier(name: str, keys: ListenerKeys) -> TokenVerifier:
    from fleetgauge.wire.oauth.jwks import JwksError, JwksSettings, jwks_of  # needs the extra
    from fleetgauge.wire.oauth.verifier import JwtVerifier, OAuthSettings

    source = JwksSettings(
        url=keys.sasl_oauthbearer_jwks_endpoint_url,
        refresh_ms=keys.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        retry_backoff_ms=keys.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        retry_backoff_max_ms=keys.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )
    settings = OAuthSettings(
        audience=keys.sasl_oauthbearer_expected_audience,
        issuer=keys.sasl_oauthbearer_expected_issuer,
        clock_skew_s=keys.sasl_oauthbearer_clock_skew_seconds,
        sub_claim=keys.sasl_oauthbearer_sub_claim_name,
        scope_claim=keys.sasl_oauthbearer_scope_claim_name,
    )
    try:
        return JwtVerifier(jwks_of(source), settings, SystemTime())
    except JwksError as error:
        raise ConfigError(_JWKS_KEY, f"{error} (listener {name})") from error


def _tls_settings(keys: ListenerKeys) -> TlsSettings:
    return TlsSettings(
        keystore_location=keys.ssl_keystore_location,
        certificate_chain=keys.ssl_keystore_certificate_chain,
        key=keys.ssl_keystore_key,
        key_password=keys.ssl_key_password,
        truststore_location=keys.ssl_truststore_location,
        truststore_certificates=keys.ssl_truststore_certificates,
        client_auth=ClientAuth(keys.ssl_client_auth),
        versions=keys.ssl_enabled_protocols,
        cipher_suites=keys.ssl_cipher_suites,
        crl_location=keys.ssl_crl_location,
    )
