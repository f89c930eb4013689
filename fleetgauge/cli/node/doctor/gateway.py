"""Checks the broker behind a gateway, as the gateway connects to it, with requests that need no log-in or before it."""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from kio.index import load_response_schema
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from fleetgauge.base.errors import ConfigError
from fleetgauge.cli.node.doctor.certificate import name_problem
from fleetgauge.cli.node.doctor.finding import Finding, error, ok, skipped, warning
from fleetgauge.gateway.gateway import GatewaySettings
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.gateway.streams.broker_login import BrokerLogin
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.gateway_node import gateway_settings
from fleetgauge.wire.api_table import TELEMETRY_KEYS
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.proxy_header import LOCAL_V2
from fleetgauge.wire.sasl.login import Login, LoginError

_TIMEOUT_S: Final = 5.0
_MAX_RESPONSE_BYTES: Final = 1 << 24
_REQUEST: Final = struct.Struct(">ihhih")
"""Size, API key, version, correlation id, null client id."""
_API_VERSIONS: Final = (18, 0, b"")
_METADATA: Final = (3, 2, b"\0\0\0\0")
"""Request for no topic, in the first version with the cluster's id (all brokers from 0.10.1 on)."""

_DOCUMENT: Final = "docs/start/gateway.md"


def check_gateway(config: ServiceConfig) -> Iterator[Finding]:
    """The settings of `[gateway]`, the broker, and the addresses that clients learn."""
    check = f"gateway.broker {config.gateway_broker}"
    try:
        settings = gateway_settings(config)
    except ConfigError as problem:
        yield error("gateway", str(problem), f"Correct it; {_DOCUMENT} has an example.")
        return
    try:
        with _connected(settings) as connection:
            served = {each.api_key for each in _ask(connection, *_API_VERSIONS).api_keys}
            yield _broker(check, settings, receives=served >= TELEMETRY_KEYS)
            if settings.login is not None:
                _log_in(connection, settings.login)
                yield ok(f"gateway.sasl.username {settings.login.username}", "the broker accepts it")
            if settings.requires_sasl:
                yield skipped("gateway.nodes", "the broker names addresses only to clients that have logged in")
            else:
                metadata = _ask(connection, *_METADATA)
                yield from _cluster(config, metadata)
                if settings.server_names is None:
                    yield from _addresses(config, settings, metadata)
                else:
                    tls = _tls_by_host(config)
                    for host, context in tls.items():
                        yield _certificate(f"certificate for {host}", context, host)
                    for each in sorted(metadata.brokers, key=lambda each: each.node_id):
                        yield _named(config, settings, settings.server_names, each)
                        yield from _certificate_of_broker(settings, tls, each)
    except ConfigError as problem:
        yield error("certificate", str(problem), "Correct it.")
    except (OSError, SerialError, ValueError) as problem:
        remedy = "Start the broker, or correct gateway.broker, gateway.security.protocol or gateway.tls.*."
        yield error(check, _text(problem), remedy)
    except LoginError as problem:
        remedy = "Correct gateway.sasl.* or gateway.security.protocol, or make this user at the broker."
        yield error(check, f"the broker does not take the gateway: {problem}", remedy)


def _broker(check: str, settings: GatewaySettings, *, receives: bool) -> Finding:
    shown = f"answers; receives {'' if receives else 'no '}telemetry itself"
    if settings.answers_telemetry or receives:
        return ok(check, f"{shown}, {'the gateway does' if settings.answers_telemetry else 'and gets it'}")
    return warning(check, shown, "Set gateway.telemetry=answer, or add a plugin for telemetry to the broker.")


def _cluster(config: ServiceConfig, metadata: Any) -> Iterator[Finding]:
    if config.cluster_id and config.cluster_id != metadata.cluster_id:
        remedy = f"Set cluster.id to {metadata.cluster_id}: telemetry is labelled with it."
        yield warning("cluster.id", f"{config.cluster_id} is not the broker's cluster", remedy)


def _addresses(config: ServiceConfig, settings: GatewaySettings, metadata: Any) -> Iterator[Finding]:
    """Checks that the configuration is of this broker, and that its addresses lead clients to this gateway."""
    advertised = {each.node_id: (each.host, each.port) for each in metadata.brokers}
    if config.node_id not in advertised:
        known = ", ".join(map(str, sorted(advertised)))
        remedy = "Set node.id to the id of the broker behind this gateway."
        yield warning("node.id", f"{config.node_id} is not one of the cluster's brokers: {known}", remedy)
        return
    host, port = _for_clients(settings, config.node_id, *advertised[config.node_id])
    own = config.advertised_listeners or config.listeners
    check = f"address of broker {config.node_id} for clients"
    if (host, port) in {(each.host, each.port) for each in own}:
        yield ok(check, f"{host}:{port}, this gateway")
    else:
        addresses = ", ".join(f"{each.host}:{each.port}" for each in own)
        remedy = "Set gateway.nodes, or advertised.listeners of the broker, unless both names are of this gateway."
        yield warning(check, f"{host}:{port}; this gateway is {addresses}", remedy)


def _for_clients(settings: GatewaySettings, node_id: int, host: str, port: int) -> tuple[str, int]:
    """The address of a broker as the gateway tells it clients."""
    return (host, port) if settings.addresses is None else settings.addresses.of(node_id, host, port)


def _named(config: ServiceConfig, settings: GatewaySettings, names: ServerNames, broker: Any) -> Finding:
    """Checks one of several brokers: its address leads clients to this gateway, and the gateway reaches it."""
    check = f"broker {broker.node_id}"
    host, port = _for_clients(settings, broker.node_id, broker.host, broker.port)
    ports = {each.port for each in config.advertised_listeners or config.listeners}
    if port not in ports:
        shown = ", ".join(map(str, sorted(ports)))
        remedy = "Correct gateway.nodes or advertised.listeners, unless a port of this number leads to the gateway."
        return warning(check, f"clients will connect to {host}:{port}, and this gateway's port is {shown}", remedy)
    try:
        address = names.find(host) or (settings.host, settings.port)
        with _connected(settings, address) as connection:
            if settings.login is not None:
                _log_in(connection, settings.login)
            _ask(connection, *_API_VERSIONS)
    except ProtocolError as problem:
        return error(check, problem.detail, "Add an entry for it to gateway.brokers.")
    except (OSError, SerialError, ValueError, LoginError) as problem:
        remedy = "Start this broker, or correct its entry in gateway.brokers."
        return error(check, f"{address[0]}:{address[1]}: {_text(problem)}", remedy)
    return ok(check, f"clients connect to {host}:{port}, the gateway to {address[0]}:{address[1]}, which answers")


def _tls_by_host(config: ServiceConfig) -> dict[str, ssl.SSLContext]:
    """The certificates of the listeners for clients, by the advertised host of each.

    Raises:
        ConfigError: a certificate cannot be read.
    """
    keys, passing = config.security_keys(), config.passing_listener_names()
    own = {each.listener_name: each.host for each in config.advertised_listeners or config.listeners}
    contexts = {host: keys.tls_of(name) for name, host in own.items() if name in passing}
    return {host: tls for host, tls in contexts.items() if tls is not None}


def _certificate_of_broker(
    settings: GatewaySettings, tls: Mapping[str, ssl.SSLContext], broker: Any
) -> Iterator[Finding]:
    """Checks that each listener's certificate has the name of this broker, if the name is a host of its own."""
    host, _ = _for_clients(settings, broker.node_id, broker.host, broker.port)
    for context in tls.values():
        yield _certificate(f"certificate for broker {broker.node_id}", context, host)


def _certificate(check: str, context: ssl.SSLContext, host: str) -> Finding:
    problem = name_problem(context, host)
    if not problem:
        return ok(check, f"good for {host}")
    remedy = f"Have a certificate issued for {host}, or a wildcard that fits it, in ssl.keystore.*."
    return error(check, f"clients refuse it: {problem}", remedy)


def _text(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def _connected(
    settings: GatewaySettings, address: tuple[str, int] | None = None
) -> AbstractContextManager[socket.socket]:
    host, port = address or (settings.host, settings.port)
    plain = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    if settings.sends_proxy_header:
        plain.sendall(LOCAL_V2)
    if settings.tls is None:
        return plain
    return settings.tls.wrap_socket(plain, server_hostname=settings.server_hostname or host)


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> Any:
    """The response to one request.

    Raises:
        ValueError: it is no response of Kafka, or the broker ended the connection.
        OSError: it does not come.
    """
    frame = _exchanged(connection, _REQUEST.pack(_REQUEST.size - 4 + len(body), key, version, 0, -1) + body)
    return entity_reader(load_response_schema(key, version))(frame, 4)[0]


def _log_in(connection: socket.socket, user: Login) -> None:
    """Authenticates as the gateway does.

    Raises:
        LoginError: the broker refuses the user.
        ValueError, OSError: as `_ask`.
    """
    login = BrokerLogin(user)
    request = login.begin()
    while request:
        request = login.receive(_exchanged(connection, request)[4:])


def _exchanged(connection: socket.socket, request: bytes) -> bytes:
    """The answer to a request: its frame without the size prefix."""
    connection.sendall(request)
    with connection.makefile("rb") as stream:
        size = int.from_bytes(_exactly(stream.read, 4), signed=True)
        if not 4 <= size <= _MAX_RESPONSE_BYTES:
            raise ValueError("the server there is not a Kafka broker, or requires TLS: see gateway.security.protocol")
        return _exactly(stream.read, size)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    received = read(size)
    if len(received) < size:
        raise ValueError("the broker ended the connection: it requires TLS or is not a Kafka broker")
    return received
