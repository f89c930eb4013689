"""The keys that say what clients have to prove before they are served, and how many may connect, for the node or for
one listener (`listener.name.<name in lower case>.<key>`, which wins), and what a listener makes of them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from base.redaction import is_secret, shown
from fleetgauge.errors import ConfigError
from quotas.config import QuotaConfig
from quotas.metric_config import INT_MAX
from wire.listener_security import ListenerSecurity
from wire.principal_mapping import DEFAULT_RULES, PrincipalMapper
from wire.proxy_header import ProxyTrust
from wire.sasl.authenticator import MECHANISMS, SaslSettings
from wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from wire.security_protocol import SecurityProtocol
from wire.tls import HOW_TO_CONVERT, TLS_VERSIONS, ClientAuth, TlsConfigError, TlsSettings, make_server_context

LISTENER_PREFIX: Final = "listener.name."
USERS_PREFIX: Final = "sasl.users."
NOT_READ: Final = {
    "sasl.jaas.config": "is not read: users stand in [sasl.users.<name>], as fleetgauge credentials writes them",
    "ssl.keystore.password": "is not read: a PEM file has a password for its private key alone, ssl.key.password",
    "ssl.truststore.password": "is not read: a PEM file of certificates has no password",
}
"""Keys that an operator of Kafka would try, and what to do instead."""

_QUOTAS: Final = QuotaConfig()
_SASL: Final = SaslSettings(mechanisms=(), store=CredentialStore({}))


def comma_separated(value: object) -> object:
    """Kafka's lists are comma-separated; TOML has lists of its own: both are taken."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _joined(value: object) -> object:
    return ",".join(str(item) for item in value) if isinstance(value, list | tuple) else value


def _store_type(value: object) -> object:
    if isinstance(value, str) and value.upper() in ("JKS", "PKCS12"):
        raise ValueError(HOW_TO_CONVERT)
    return value.upper() if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(comma_separated)]
StoreType = Annotated[Literal["PEM"], BeforeValidator(_store_type)]


class ListenerKeys(BaseModel):
    """The keys that may be set for each listener by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    ssl_keystore_type: StoreType = Field(
        default="PEM", alias="ssl.keystore.type", description="PEM, the only form that is read."
    )
    ssl_keystore_location: str = Field(
        default="",
        alias="ssl.keystore.location",
        description="PEM file with the listener's private key and certificate chain; reread on SIGHUP.",
    )
    ssl_keystore_certificate_chain: str = Field(
        default="",
        alias="ssl.keystore.certificate.chain",
        description="The certificate chain as PEM text, instead of the file.",
    )
    ssl_keystore_key: str = Field(
        default="", alias="ssl.keystore.key", description="The private key as PEM text, instead of the file."
    )
    ssl_key_password: str = Field(
        default="", alias="ssl.key.password", description="Password of an encrypted private key."
    )
    ssl_truststore_type: StoreType = Field(
        default="PEM", alias="ssl.truststore.type", description="PEM, the only form that is read."
    )
    ssl_truststore_location: str = Field(
        default="",
        alias="ssl.truststore.location",
        description="PEM file with the certificates that sign those of clients; reread on SIGHUP.",
    )
    ssl_truststore_certificates: str = Field(
        default="", alias="ssl.truststore.certificates", description="The same as PEM text, instead of the file."
    )
    ssl_client_auth: Literal["none", "requested", "required"] = Field(
        default="none",
        alias="ssl.client.auth",
        description="Whether clients show a certificate; on SASL_SSL only as listener.name.<name>.ssl.client.auth.",
    )
    ssl_enabled_protocols: Names = Field(
        default=TLS_VERSIONS, alias="ssl.enabled.protocols", description="Versions of TLS that clients may speak."
    )
    ssl_principal_mapping_rules: Annotated[str, BeforeValidator(_joined)] = Field(
        default=DEFAULT_RULES,
        alias="ssl.principal.mapping.rules",
        description="RULE:pattern/replacement/[LU] or DEFAULT,...: from a certificate's subject to a principal's name.",
    )
    sasl_enabled_mechanisms: Names = Field(
        default=tuple(mechanism.value for mechanism in ScramMechanism),
        alias="sasl.enabled.mechanisms",
        description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: how clients may prove who they are.",
    )
    sasl_server_max_receive_size: int = Field(
        default=_SASL.max_receive_bytes,
        ge=1024,
        le=INT_MAX,
        alias="sasl.server.max.receive.size",
        description="Largest request before a client is authenticated [B].",
    )
    connections_max_reauth_ms: int = Field(
        default=_SASL.max_reauth_ms,
        ge=0,
        alias="connections.max.reauth.ms",
        description="A client authenticates again within this time or is closed; 0: never [ms].",
    )
    connection_failed_authentication_delay_ms: int = Field(
        default=_SASL.failure_delay_ms,
        ge=0,
        le=60_000,
        alias="connection.failed.authentication.delay.ms",
        description="A client that failed to authenticate is told so, and closed, after this time [ms].",
    )
    max_connections: int = Field(
        default=_QUOTAS.max_connections,
        ge=0,
        le=INT_MAX,
        alias="max.connections",
        description="Connections of the node, and of each listener; over it, those that come wait to be accepted. By "
        "default as many as open files and a 16th of the memory allow.",
    )
    max_connection_creation_rate: int = Field(
        default=_QUOTAS.max_connection_creation_rate,
        ge=0,
        le=INT_MAX,
        alias="max.connection.creation.rate",
        description="New connections of the node, and of each listener [1/s]; those over it wait to be accepted.",
    )
    proxy_protocol_enable: bool = Field(
        default=False,
        alias="proxy.protocol.enable",
        description="Whether connections begin with a load balancer's PROXY header, version 1 or 2.",
    )
    proxy_protocol_trusted_addresses: Names = Field(
        default=(),
        alias="proxy.protocol.trusted.addresses",
        description="Addresses and networks (CIDR) of the load balancers; others cannot connect.",
    )

    @field_validator("ssl_enabled_protocols")
    @classmethod
    def _know_versions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= set(TLS_VERSIONS):
            raise ValueError(f"takes {' and '.join(TLS_VERSIONS)}; older versions are broken")
        return value

    @field_validator("ssl_principal_mapping_rules")
    @classmethod
    def _read_rules(cls, value: str) -> str:
        PrincipalMapper(value)
        return value

    @field_validator("sasl_enabled_mechanisms")
    @classmethod
    def _know_mechanisms(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(name.upper() for name in value)
        if not names or not set(names) <= set(MECHANISMS) or len(set(names)) != len(names):
            raise ValueError(f"takes each of {', '.join(MECHANISMS)} at most once, and one at least")
        return names

    @field_validator("proxy_protocol_trusted_addresses")
    @classmethod
    def _read_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        ProxyTrust(value)
        return value


LISTENER_KEYS: Final = tuple(str(field.alias) for field in ListenerKeys.model_fields.values())


def read_protocol_map(entries: tuple[str, ...]) -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL` entries as a mapping.

    >>> read_protocol_map(("EXTERNAL:SASL_SSL",))["EXTERNAL"].value
    'SASL_SSL'

    Raises:
        ValueError: an entry has another form, or a name occurs twice.
    """
    found: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, colon, protocol = entry.rpartition(":")
        if not colon or not name or protocol.upper() not in list(SecurityProtocol):
            allowed = ", ".join(SecurityProtocol)
            raise ValueError(f"{entry!r} is not NAME:PROTOCOL with one of {allowed}, for example EXTERNAL:SASL_SSL")
        if name.upper() in found:
            raise ValueError(f"{name} stands there twice")
        found[name.upper()] = SecurityProtocol(protocol.upper())
    return found


def read_users(users: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[ScramCredential, ...]]:
    """The users of `[sasl.users.<name>]`, each with its credentials, the strongest first.

    Raises:
        ConfigError: a credential cannot be used.
    """
    return {user: _credentials(user, keys) for user, keys in users.items()}


def _credentials(user: str, keys: Mapping[str, str]) -> tuple[ScramCredential, ...]:
    found = []
    for mechanism in reversed(ScramMechanism):
        key = mechanism.value.lower()
        if key not in keys:
            continue
        try:
            found.append(ScramCredential.parse(mechanism, keys[key]))
        except ValueError as error:
            # Not the value: it is nearly a password.
            raise ConfigError(
                f"{USERS_PREFIX}{user}.{key}", f"{error}; fleetgauge credentials {user} makes one"
            ) from error
    return tuple(found)


class SecurityKeys:
    """The security of every listener, out of a configuration.

    Args:
        common: the node's keys.
        own: `listener.name.` keys without that prefix.
        protocols: security protocol by listener name.
        users: as `[sasl.users]` has them.

    Raises:
        ConfigError: a key is unknown, a value is not allowed, or what belongs together is not there.
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
        self._keys = _split(common, own, protocols)
        for name, keys in self._keys.items():
            self._check(name, keys)

    @property
    def by_listener(self) -> Mapping[str, ListenerKeys]:
        """Each listener's keys: its own, and the node's for the rest."""
        return self._keys

    def build(self) -> dict[str, ListenerSecurity]:
        """Reads the certificates, and makes each listener's security.

        Raises:
            ConfigError: certificates or keys cannot be used.
        """
        store = CredentialStore(self._users)
        return {name: self._build(name, keys, store) for name, keys in self._keys.items()}

    def _check(self, name: str, keys: ListenerKeys) -> None:
        if keys.proxy_protocol_enable and not keys.proxy_protocol_trusted_addresses:
            raise ConfigError(
                "proxy.protocol.trusted.addresses",
                f"listener {name} has proxy.protocol.enable=true, and needs the addresses of its load balancers, for "
                "example 10.0.0.0/8",
            )
        if self._protocols[name].has_sasl and not self._users:
            raise ConfigError(
                "sasl.users", f"listener {name} lets nobody in: make a user by fleetgauge credentials NAME"
            )

    def _build(self, name: str, keys: ListenerKeys, store: CredentialStore) -> ListenerSecurity:
        protocol = self._protocols[name]
        try:
            context = make_server_context(_tls_settings(keys)) if protocol.has_tls else None
        except TlsConfigError as error:
            raise ConfigError(error.key, f"{error.problem} (listener {name})") from error
        sasl = SaslSettings(
            mechanisms=keys.sasl_enabled_mechanisms,
            store=store,
            max_receive_bytes=keys.sasl_server_max_receive_size,
            max_reauth_ms=keys.connections_max_reauth_ms,
            failure_delay_ms=keys.connection_failed_authentication_delay_ms,
        )
        return ListenerSecurity(
            protocol=protocol,
            tls=context,
            principal_mapper=PrincipalMapper(keys.ssl_principal_mapping_rules),
            sasl=sasl if protocol.has_sasl else None,
            proxy=ProxyTrust(keys.proxy_protocol_trusted_addresses) if keys.proxy_protocol_enable else None,
        )


def _split(
    common: ListenerKeys, own: Mapping[str, object], protocols: Mapping[str, SecurityProtocol]
) -> dict[str, ListenerKeys]:
    """Each listener's keys: its own, and the node's for the rest."""
    by_listener: dict[str, dict[str, object]] = {name: {} for name in protocols}
    for key, value in own.items():
        name, inner = _own_key(key, protocols)
        by_listener[name][inner] = value
    values = {alias: getattr(common, name) for name, alias in _fields()}
    return {name: _merged(name, values, keys, protocols[name]) for name, keys in by_listener.items()}


def _fields() -> list[tuple[str, str]]:
    return [(name, str(field.alias)) for name, field in ListenerKeys.model_fields.items()]


def _own_key(key: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[str, str]:
    for name in sorted(protocols, key=len, reverse=True):
        inner = key.removeprefix(f"{name.lower()}.")
        if inner == key:
            continue
        if inner in LISTENER_KEYS:
            return name, inner
        hint = NOT_READ.get(inner) or f"is none of {', '.join(LISTENER_KEYS)}"
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
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        told = "its value" if is_secret(key) else repr(shown(key, own.get(key)))
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{LISTENER_PREFIX}{name.lower()}.{key}", f"{told} is not allowed: {message}") from error


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
    )
