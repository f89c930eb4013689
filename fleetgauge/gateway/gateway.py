"""A gateway: objects shared by its connections, and its figures."""

import asyncio
import ssl
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from fleetgauge.gateway.addresses import NodeAddresses
from fleetgauge.gateway.apis import DELEGATION_TOKENS, GET_TELEMETRY_SUBSCRIPTIONS, PASSED, PUSH_TELEMETRY
from fleetgauge.gateway.brokers import Brokers
from fleetgauge.gateway.client_channel import ClientChannel
from fleetgauge.gateway.policy import Policy
from fleetgauge.gateway.responses.splices import api_versions_splicer
from fleetgauge.gateway.rules import NoRules, Rules
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.gateway.shared import Shared
from fleetgauge.gateway.streams.own_login import OwnUser
from fleetgauge.wire.channels.base_channel import as_protocol
from fleetgauge.wire.context.accepted import Accepted
from fleetgauge.wire.sasl.login import Login

_TELEMETRY_VERSIONS: Final = {GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), PUSH_TELEMETRY: (0, 0)}
_MAX_LOCAL_EXTRA_BYTES: Final = 64 * 1024
"""Most bytes that a push may have besides its payload, mainly a client id [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Settings of a gateway.

    Attributes:
        host, port: the broker's address for the gateway; with `server_names`, of the one for bootstrap.
        tls: for connections to the broker; None for plaintext.
        login: the gateway's user at the brokers, where the SASL of clients ends at the gateway; None if it passes, or
            there is none.
        server_hostname: the name that a broker's certificate must have; None for its host. Without effect where `tls`
            does not check it.
        sends_proxy_header: True if connections to the broker begin with a PROXY header, version 2, before TLS.
        server_names: finds the broker by a client's TLS server name; None if there is one broker.
        addresses: under which clients reach the brokers; None if the brokers advertise their gateways.
        answers_telemetry: True if the gateway answers the telemetry APIs; else they pass.
        requires_sasl: True if the broker's listener does, and the clients' SASL passes; see `gateway.policy.Policy`.
        request_max_bytes: largest request [B].
        telemetry_max_bytes: largest payload of a push [B].
        max_in_flight_requests: of one connection.
        response_timeout_ms: a connection whose oldest request is unanswered for this long is closed [ms].
        rules: judge and observe the traffic.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    login: Login | None = None
    server_hostname: str | None = None
    sends_proxy_header: bool = False
    server_names: ServerNames | None = None
    addresses: NodeAddresses | None = None
    answers_telemetry: bool = True
    requires_sasl: bool = False
    request_max_bytes: int
    telemetry_max_bytes: int
    max_in_flight_requests: int
    response_timeout_ms: int
    rules: Rules = field(default_factory=NoRules)


class Gateway:
    """One gateway; `channel` makes its connections, for `wire.listener.Listener`.

    Args:
        settings: as configured.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        own = _TELEMETRY_VERSIONS if settings.answers_telemetry else {}
        withheld = frozenset() if settings.login is None else DELEGATION_TOKENS
        self._settings = settings
        self._shared = Shared(
            policy=Policy(
                addresses=settings.addresses,
                api_versions=api_versions_splicer(own, withheld),
                answers_telemetry=settings.answers_telemetry,
                requires_sasl=settings.requires_sasl,
                withheld=withheld,
                max_request_bytes=settings.request_max_bytes,
                max_local_bytes=settings.telemetry_max_bytes + _MAX_LOCAL_EXTRA_BYTES,
                max_in_flight=settings.max_in_flight_requests,
                rules=settings.rules,
            ),
            brokers=Brokers(
                host=settings.host,
                port=settings.port,
                tls=settings.tls,
                server_hostname=settings.server_hostname,
                sends_proxy_header=settings.sends_proxy_header,
            ),
            own_user=None if settings.login is None else OwnUser(settings.login),
            server_names=settings.server_names,
            response_timeout_ms=settings.response_timeout_ms,
            requests=defaultdict(int),
        )

    def channel(self, accepted: Accepted) -> asyncio.Protocol:
        """Makes the protocol of a client's connection: a `wire.context.accepted.MakeChannel`."""
        return as_protocol(ClientChannel(self._shared, accepted))

    def replace_login(self, login: Login) -> None:
        """Makes later logins of the gateway's user use another password. A broker ends a session that is renewed as
        another user, or by another mechanism (KIP-368).
        """
        assert self._shared.own_user is not None
        self._shared.own_user.login = login

    def status(self) -> dict[str, Any]:
        """The figures, as plain values."""
        shared, settings = self._shared, self._settings
        return {
            "broker": f"{settings.host}:{settings.port}",
            "broker_user": "" if settings.login is None else settings.login.username,
            "by_server_name": settings.server_names is not None,
            "telemetry": "answer" if settings.answers_telemetry else "pass",
            "rewrites_addresses": settings.addresses is not None,
            "broker_connections": shared.broker_connections,
            "broker_connect_failures": shared.broker_connect_failures,
            "broker_logins": 0 if shared.own_user is None else shared.own_user.logins,
            "bytes_to_broker": shared.bytes_to_broker,
            "bytes_from_broker": shared.bytes_from_broker,
            "requests": {PASSED[key].name: count for key, count in sorted(shared.requests.items())},
        }
