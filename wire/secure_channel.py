"""A connection that authenticates its client: by TLS certificate, SASL, or both; with both, the principal is SASL's.

See `wire.sasl.authenticator` for the SASL exchange, `wire.tcp_channel` for the rest of a connection.
"""

import asyncio
import ssl
from typing import Final, cast

from base.principal import ANONYMOUS, KafkaPrincipal
from wire.api_table import ApiKey
from wire.close_reason import CloseReason
from wire.connection import ConnectionState
from wire.connection_limits import Place
from wire.distinguished_name import CertificateError, subject_of
from wire.errors import ProtocolError
from wire.handshakes import Handshake, Handshakes, HandshakeStage
from wire.listener_context import ListenerContext
from wire.listener_counters import AuthenticationCounters
from wire.listener_security import ListenerSecurity
from wire.password_checks import PasswordChecks
from wire.principal_mapping import PrincipalMapper
from wire.sasl.authenticator import SaslAuthenticator, SaslSettings, SaslStep
from wire.sasl.credentials import ScramCredential
from wire.sasl.mechanism import PasswordCheck
from wire.security_protocol import SecurityProtocol
from wire.tcp_channel import TcpChannel

_MIN_REAUTH_INTERVAL_MS: Final = 1_000
"""Minimum time between two re-authentications of one connection [ms] (KIP-368)."""


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


class SecureContext:
    """State that the connections of one listener share, in addition to `ListenerContext`.

    Attributes:
        security: current security settings of the listener.
        handshakes: connections that are not authenticated yet.
        counters: counts of authentications.
        checks: password checks.
    """

    def __init__(self, security: ListenerSecurity, handshakes: Handshakes, counters: AuthenticationCounters) -> None:
        self.security = security
        self.handshakes = handshakes
        self.counters = counters
        # At most half of the unfinished handshakes wait for a check, which exempts them from eviction; the other half
        # can be closed in favour of new connections.
        self.checks = PasswordChecks(handshakes.max_unfinished // 2)

    def check(self, check: PasswordCheck, network: str, loop: asyncio.AbstractEventLoop) -> asyncio.Future[bool | None]:
        """Submits a password check to a thread; see `PasswordChecks.submit`."""
        return self.checks.submit(check, network, loop)


class SecureChannel(TcpChannel):
    """A connection behind TLS, SASL or a load balancer; see `TcpChannel`.

    Args:
        context, shared: shared state of the listener's connections.
        security: the listener's security settings when the connection was accepted.
        handshake: the connection's entry in `Handshakes`.
        connection_id, client_address, client_port: as in `Channel`.
        place: as in `TcpChannel`.
    """

    __slots__ = (
        "_authenticated_ms",
        "_authenticator",
        "_check",
        "_credential",
        "_expires_in_ms",
        "_handshake",
        "_mechanism",
        "_renewed_ms",
        "_security",
        "_shared",
    )

    def __init__(
        self,
        context: ListenerContext,
        shared: SecureContext,
        security: ListenerSecurity,
        handshake: Handshake,
        *,
        connection_id: str,
        client_address: str,
        client_port: int,
        place: Place = None,
    ) -> None:
        super().__init__(
            context,
            connection_id=connection_id,
            client_address=client_address,
            client_port=client_port,
            place=place,
        )
        self._shared = shared
        self._security = security
        self._handshake = handshake
        self._authenticator: SaslAuthenticator | None = None
        self._check: asyncio.Future[bool | None] | None = None
        self._credential: ScramCredential | None = None
        self._mechanism = ""
        self._authenticated_ms = 0
        self._expires_in_ms = 0
        self._renewed_ms = 0
        self.security_protocol = security.protocol.value

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: the connection is open, TLS is done."""
        self._handshake.abort = self.abort
        self._handshake.stage = HandshakeStage.SASL
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
            self._handshake.finish()
            if self.principal is not ANONYMOUS and self._close_reason is None:
                self._context.handler.authentication_ended(self, "", SecurityProtocol.SSL.value, "")
        elif self._close_reason is None:
            self._begin(sasl)

    def eof_received(self) -> bool:
        """Called by the loop: the peer has closed its side. TLS closes both directions at once."""
        return super().eof_received() and self._security.tls is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the connection has ended."""
        self._handshake.finish()
        if self._check is not None:
            self._check.cancel()
        self._authenticator = None
        super().connection_lost(exc)

    @property
    def is_authenticated(self) -> bool:
        """See `Channel.is_authenticated`; also False during re-authentication."""
        return self._authenticator is None

    def _begin(self, sasl: SaslSettings) -> None:
        self._authenticator = SaslAuthenticator(sasl, self._context.api_table)
        self._connection.bound_frames(1, sasl.max_receive_bytes, "sasl.server.max.receive.size")

    def _handle_push(self, data: bytes, now_ms: int) -> bool:
        if self._authenticator is not None or self._session_ms():
            return False  # every frame is checked for expired sessions and re-authentication
        return super()._handle_push(data, now_ms)

    def _handle(self, frame: bytes) -> None:
        if self._authenticator is None:
            # The current settings, so that a removed user cannot renew its session.
            sasl = self._shared.security.sasl
            session_ms = self._session_ms()
            if sasl is None or session_ms == 0 or not self._renews(sasl, session_ms, frame):
                super()._handle(frame)
                return
        authenticator = self._authenticator
        assert authenticator is not None
        handler = self._context.handler
        clock = handler.request_clock
        started_ns = 0 if clock is None else clock()
        step = authenticator.receive(frame)
        if step.passes is not None:
            super()._handle(frame)
            return
        self._context.counters.requests[step.api_key] += 1
        slot = self._connection.open_slot()
        self._follow(authenticator, step, slot)
        if clock is not None:
            handler.authentication_took(clock() - started_ns)

    def _follow(self, authenticator: SaslAuthenticator, step: SaslStep, slot: int) -> None:
        """Applies the result of one SASL step to the connection."""
        if step.check is not None:
            self.mute()
            self._handshake.wait_for_node()
            self._check = self._shared.check(step.check, self._handshake.network, self._context.loop)
            work = step.check
            self._check.add_done_callback(lambda check: self._take_result(authenticator, work, check, slot))
            return
        if step.failure is not None:
            self._turn_away(authenticator, step, slot)
            return
        if step.is_complete:
            self._let_in(authenticator)
        self._connection.respond(slot, step.response)
        if step.is_complete:
            self.revoke(self._shared.security)  # which may have changed during the exchange

    def _take_result(
        self, authenticator: SaslAuthenticator, work: PasswordCheck, check: asyncio.Future[bool | None], slot: int
    ) -> None:
        self._check = None
        if check.cancelled() or self._connection.state is ConnectionState.CLOSED:
            return
        fits = check.result()
        if fits is None:
            self._put_off(work.problem)
            return
        self._handshake.wait_for_client()
        self._follow(authenticator, authenticator.checked(fits), slot)
        self.flush()
        self.unmute()

    def _put_off(self, problem: str) -> None:
        """Closes without a response because the password or token was not checked: Kafka's clients reconnect after a
        pause, whereas SASL_AUTHENTICATION_FAILED, the only error code that fits here, is fatal to them.

        Args:
            problem: why a token could not be checked; empty if there were too many checks.
        """
        reason = CloseReason.TOKEN_KEYS_UNAVAILABLE if problem else CloseReason.TOO_MANY_PASSWORD_CHECKS
        overload = "passwords arrive faster than they can be checked"
        self._context.report(
            "wire.authentication_put_off" if problem else "wire.password_checks_overloaded",
            reason,
            message=f"closed connections because {problem or overload}",
            reason=reason.value,
            client=self.client_address,
        )
        self.close(reason)

    def revoke(self, security: ListenerSecurity) -> bool:
        """Ends the session if its user was removed, or the credential that it used has changed; requests in flight are
        answered.

        Returns:
            True if the session ends.
        """
        credential = self._credential
        if credential is None or security.sasl is None or security.sasl.store.holds(self.principal.name, credential):
            return False
        self.drain(CloseReason.CREDENTIAL_REVOKED)
        return True

    def _let_in(self, authenticator: SaslAuthenticator) -> None:
        settings = self._context.settings
        counters = self._shared.counters
        if self._mechanism:
            counters.successful_reauthentications += 1
        else:
            counters.successful_authentications += 1
        self.principal = authenticator.principal
        self.usual_pushes = ()
        self._mechanism = authenticator.mechanism
        self._credential = authenticator.credential
        self._expires_in_ms = authenticator.expires_in_ms
        self._authenticated_ms = self._context.time.hi_res_clock_ms()
        self._authenticator = None
        self._handshake.finish()
        self._connection.bound_frames(None, settings.socket_request_max_bytes, "socket.request.max.bytes")
        self._context.handler.authentication_ended(self, "", self._mechanism, "")

    def _turn_away(self, authenticator: SaslAuthenticator, step: SaslStep, slot: int) -> None:
        """Sends the authentication error after `failure_delay_ms`, and closes the connection."""
        context = self._context
        assert step.failure is not None
        reason: str = step.failure.value
        counters = self._shared.counters
        if self._mechanism:
            counters.failed_reauthentications += 1
        else:
            counters.failed_authentications += 1
        context.report(
            "wire.authentication_failed",
            reason,
            reason=reason,
            detail=step.detail,
            user=authenticator.user or "(none that exists)",
            mechanism=authenticator.mechanism,
            connection_id=self.connection_id,
        )
        context.handler.authentication_ended(self, authenticator.user or "", authenticator.mechanism, reason)
        self.mute()
        sasl = self._security.sasl
        delay_ms = sasl.failure_delay_ms if sasl is not None else 0
        context.loop.call_later(delay_ms / 1000, self._close_with, slot, step.response, reason)

    def _close_with(self, slot: int, response: bytes, reason: str) -> None:
        if self._connection.state is ConnectionState.CLOSED:
            return
        self._connection.respond(slot, response)
        self.close(reason)

    def _session_ms(self) -> int:
        """How long the session lasts from its authentication on: `connections.max.reauth.ms`, and its token [ms]; 0:
        without end.
        """
        sasl = self._shared.security.sasl
        limit_ms = 0 if sasl is None else sasl.max_reauth_ms
        expires_in_ms = self._expires_in_ms
        return min(limit_ms, expires_in_ms) if limit_ms and expires_in_ms else limit_ms or expires_in_ms

    def _renews(self, sasl: SaslSettings, session_ms: int, frame: bytes) -> bool:
        """True if the frame begins a re-authentication (KIP-368).

        Raises:
            ProtocolError: `session_expired`, the session has expired and the frame is another request.
        """
        now_ms = self._context.time.hi_res_clock_ms()
        is_handshake = frame[:2] == int(ApiKey.SASL_HANDSHAKE).to_bytes(2)
        if is_handshake and now_ms - self._renewed_ms >= _MIN_REAUTH_INTERVAL_MS:
            self._renewed_ms = now_ms
            self._authenticator = SaslAuthenticator(
                sasl, self._context.api_table, previous=(self._mechanism, self.principal)
            )
            return True
        if now_ms - self._authenticated_ms > session_ms:
            detail = (
                f"the client did not authenticate again within {session_ms} ms (connections.max.reauth.ms, or until "
                "its token expired)"
            )
            raise ProtocolError("session_expired", detail)
        return False
