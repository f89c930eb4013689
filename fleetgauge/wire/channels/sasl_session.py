"""The SASL of one connection: its exchange, and what renews or ends the session. See `wire.sasl.authenticator` for the
messages of the exchange.
"""

import asyncio
from typing import Final, Protocol

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.handshakes import Handshake
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.secure_context import SecureContext
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.sasl.authenticator import SaslAuthenticator, SaslSettings, SaslStep
from fleetgauge.wire.sasl.credentials import ScramCredential
from fleetgauge.wire.sasl.mechanism import PasswordCheck

_MIN_REAUTH_INTERVAL_MS: Final = 1_000
"""Minimum time between two re-authentications of one connection [ms] (KIP-368)."""


class SaslConnection(Channel, Protocol):
    """A connection whose client authenticates by SASL."""

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed, or closing."""

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """An exchange is complete: the client may send other requests, as this principal."""

    def drain(self, reason: CloseReason = ...) -> None:
        """See `wire.context.open_connection.OpenConnection`."""


class SaslSession:
    """Authenticates one connection's client, and again when its session has expired (KIP-368).

    Args:
        channel: the connection.
        context, shared: shared state of the listener's connections.
        settings: SASL on the listener when the connection was accepted.
        handshake: the connection's entry in `Handshakes`.

    Attributes:
        max_receive_bytes: largest request before authentication [B].
    """

    __slots__ = (
        "_authenticated_ms",
        "_authenticator",
        "_channel",
        "_check",
        "_context",
        "_credential",
        "_expires_in_ms",
        "_failure_delay_ms",
        "_handshake",
        "_mechanism",
        "_renewed_ms",
        "_shared",
        "max_receive_bytes",
    )

    def __init__(
        self,
        channel: SaslConnection,
        context: ListenerContext,
        shared: SecureContext,
        settings: SaslSettings,
        handshake: Handshake,
    ) -> None:
        self._channel = channel
        self._context = context
        self._shared = shared
        self._handshake = handshake
        self._failure_delay_ms = settings.failure_delay_ms
        self._authenticator: SaslAuthenticator | None = SaslAuthenticator(settings, context.api_table)
        self._check: asyncio.Future[bool | None] | None = None
        self._credential: ScramCredential | None = None
        self._mechanism = ""
        self._authenticated_ms = 0
        self._expires_in_ms = 0
        self._renewed_ms = 0
        self.max_receive_bytes = settings.max_receive_bytes

    @property
    def is_authenticated(self) -> bool:
        """See `Channel.is_authenticated`; also False during re-authentication."""
        return self._authenticator is None

    @property
    def may_expire(self) -> bool:
        """True if the session has an end: `connections.max.reauth.ms`, or that of its token."""
        return bool(self._session_ms())

    def admit(self, api_key: int) -> None:
        """Checks that the client may send a request of this API now.

        Raises:
            ProtocolError: `unauthenticated_request`, or `session_expired`.
        """
        if self._authenticator is not None:
            self._authenticator.expect(api_key)
        elif api_key != ApiKey.SASL_HANDSHAKE:
            self._refuse_if_expired(self._session_ms())

    def concerns(self, frame: bytes) -> bool:
        """True if a request belongs to an exchange, or begins one: `receive` takes it.

        Raises:
            ProtocolError: `session_expired`, the session has expired and the frame is another request.
        """
        if self._authenticator is not None:
            return True
        # The current settings, so that a removed user cannot renew its session.
        sasl, session_ms = self._shared.security.sasl, self._session_ms()
        return sasl is not None and session_ms != 0 and self._renews(sasl, session_ms, frame)

    def receive(self, frame: bytes) -> SaslStep:
        """Handles a frame of the exchange, without its size prefix; `follow` applies the result.

        Raises:
            ProtocolError: as `SaslAuthenticator.receive`.
        """
        assert self._authenticator is not None
        return self._authenticator.receive(frame)

    def follow(self, step: SaslStep, slot: int) -> None:
        """Applies the result of one SASL step to the connection; the step's request has this slot."""
        authenticator = self._authenticator
        assert authenticator is not None
        if step.check is not None:
            self._channel.mute()
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
        self._channel.respond(slot, step.response)
        if step.is_complete:
            self.revoke(self._shared.security)  # which may have changed during the exchange

    def revoke(self, security: ListenerSecurity) -> bool:
        """Ends the session if its user was removed, or the credential that it used has changed; requests in flight are
        answered.

        Returns:
            True if the session ends.
        """
        credential, user = self._credential, self._channel.principal.name
        if credential is None or security.sasl is None or security.sasl.store.holds(user, credential):
            return False
        self._channel.drain(CloseReason.CREDENTIAL_REVOKED)
        return True

    def end(self) -> None:
        """Notes that the connection has ended."""
        if self._check is not None:
            self._check.cancel()
        self._authenticator = None

    def _take_result(
        self, authenticator: SaslAuthenticator, work: PasswordCheck, check: asyncio.Future[bool | None], slot: int
    ) -> None:
        self._check = None
        if check.cancelled() or self._channel.is_closed:
            return
        fits = check.result()
        if fits is None:
            self._put_off(work.problem)
            return
        self._handshake.wait_for_client()
        self.follow(authenticator.checked(fits), slot)
        self._channel.flush()
        self._channel.unmute()

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
            client=self._channel.client_address,
        )
        self._channel.close(reason)

    def _let_in(self, authenticator: SaslAuthenticator) -> None:
        counters = self._shared.counters
        if self._mechanism:
            counters.successful_reauthentications += 1
        else:
            counters.successful_authentications += 1
        self._mechanism = authenticator.mechanism
        self._credential = authenticator.credential
        self._expires_in_ms = authenticator.expires_in_ms
        self._authenticated_ms = self._context.time.hi_res_clock_ms()
        self._authenticator = None
        self._handshake.finish()
        self._channel.authenticated(authenticator.principal)
        self._context.handler.authentication_ended(self._channel, "", self._mechanism, "")

    def _turn_away(self, authenticator: SaslAuthenticator, step: SaslStep, slot: int) -> None:
        """Sends the authentication error after `failure_delay_ms`, and closes the connection."""
        context, channel = self._context, self._channel
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
            connection_id=channel.connection_id,
        )
        context.handler.authentication_ended(channel, authenticator.user or "", authenticator.mechanism, reason)
        channel.mute()
        context.loop.call_later(self._failure_delay_ms / 1000, self._close_with, slot, step.response, reason)

    def _close_with(self, slot: int, response: bytes, reason: str) -> None:
        if self._channel.is_closed:
            return
        self._channel.respond(slot, response)
        self._channel.close(reason)

    def _session_ms(self) -> int:
        """Lifetime of the session from its authentication on, the shorter of `connections.max.reauth.ms` and its
        token's [ms]; 0: unlimited.
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
            previous = self._mechanism, self._channel.principal
            self._authenticator = SaslAuthenticator(sasl, self._context.api_table, previous=previous)
            return True
        self._refuse_if_expired(session_ms)
        return False

    def _refuse_if_expired(self, session_ms: int) -> None:
        if session_ms and self._context.time.hi_res_clock_ms() - self._authenticated_ms > session_ms:
            detail = (
                f"the client did not authenticate again within {session_ms} ms (connections.max.reauth.ms, or until "
                "its token expired)"
            )
            raise ProtocolError("session_expired", detail)
