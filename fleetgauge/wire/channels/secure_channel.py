"""A connection that authenticates its client: by TLS certificate, SASL, or both; with both, the principal is SASL's.

See `wire.channels.sasl_session` for SASL, `wire.channels.tcp_channel` for the rest of a connection.
"""

import asyncio
import ssl
from typing import cast

from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.wire.channels.base_channel import as_protocol
from fleetgauge.wire.channels.sasl_session import SaslSession
from fleetgauge.wire.channels.tcp_channel import TcpChannel
from fleetgauge.wire.context.accepted import Accepted
from fleetgauge.wire.context.handshakes import Handshake, HandshakeStage
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.distinguished_name import CertificateError, subject_of
from fleetgauge.wire.tls.principal_mapping import PrincipalMapper


def certificate_principal(transport: asyncio.BaseTransport, mapper: PrincipalMapper) -> KafkaPrincipal:
    """The principal of the client's certificate.

    Raises:
        ProtocolError: no principal mapping rule matches, or the certificate cannot be read.
    """
    connection = cast(ssl.SSLObject, transport.get_extra_info("ssl_object"))
    certificate = connection.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    try:
        subject = subject_of(certificate)
    except CertificateError as error:
        raise ProtocolError("unreadable_certificate", str(error)) from error
    name = mapper.name_of(subject)
    if name is None:
        detail = f"no rule of ssl.principal.mapping.rules fits {subject[:200]!r}"
        raise ProtocolError("no_principal_mapping_rule", detail)
    return KafkaPrincipal("User", name)


class SecureChannel(TcpChannel):
    """A connection behind TLS, SASL or a load balancer; see `TcpChannel`."""

    __slots__ = ("_shared",)

    def __init__(self, accepted: Accepted) -> None:
        super().__init__(accepted)
        self._shared = accepted.shared

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: the connection is open, TLS is done."""
        handshake = self._handshake
        assert handshake is not None
        handshake.abort = self.abort
        handshake.stage = HandshakeStage.SASL
        try:
            # As in Kafka, the mapping rules apply only where the certificate is the principal.
            if self._security.tls is not None and self._security.sasl is None:
                self.principal = certificate_principal(transport, self._security.principal_mapper)
            super().connection_made(transport)
        except ProtocolError as error:
            # The handler must know the connection before a failed authentication reports its end.
            super().connection_made(transport)
            self._context.handler.authentication_ended(self, "", SecurityProtocol.SSL.value, error.reason)
            self._refuse(error)
        sasl = self._security.sasl
        if sasl is None:
            handshake.finish()
            if self.principal is not ANONYMOUS and self._close_reason is None:
                self._context.handler.authentication_ended(self, "", SecurityProtocol.SSL.value, "")
        elif self._close_reason is None:
            self._begin_session(handshake, sasl)

    def eof_received(self) -> bool:
        """Called by the loop: the peer has closed its side. TLS closes both directions at once."""
        return super().eof_received() and self._security.tls is None

    def _begin_session(self, handshake: Handshake, sasl: SaslSettings) -> None:
        self._session = SaslSession(self, self._context, self._shared, sasl, handshake)
        self._connection.bound_frames(1, sasl.max_receive_bytes, "sasl.server.max.receive.size")

    def _handle_push(self, data: bytes, now_ms: int) -> bool:
        session = self._session
        if session is not None and (not session.is_authenticated or session.may_expire):
            return False  # every frame is checked for expired sessions and re-authentication
        return super()._handle_push(data, now_ms)

    def _handle(self, frame: bytes) -> None:
        session = self._session
        if session is None or not session.concerns(frame):
            super()._handle(frame)
            return
        handler = self._context.handler
        clock = handler.request_clock
        started_ns = 0 if clock is None else clock()
        step = session.receive(frame)
        if step.passes is not None:
            super()._handle(frame)
            return
        self._context.counters.requests[step.api_key] += 1
        session.follow(step, self._connection.open_slot())
        if clock is not None:
            handler.authentication_took(clock() - started_ns)

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """See `wire.channels.sasl_session.SaslConnection`."""
        super().authenticated(principal)
        settings = self._context.settings
        self._connection.bound_frames(None, settings.socket_request_max_bytes, "socket.request.max.bytes")


def make_channel(accepted: Accepted) -> asyncio.Protocol:
    """Makes a channel whose requests the listener's handler answers: a `wire.context.accepted.MakeChannel`."""
    return as_protocol(TcpChannel(accepted) if accepted.handshake is None else SecureChannel(accepted))
