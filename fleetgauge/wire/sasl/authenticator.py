"""The SASL exchange of one connection (KIP-43, KIP-152, KIP-368), as in Kafka's `SaslServerAuthenticator`: frames in,
responses and a result out.
"""

import datetime
import enum
import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.wire.api_table import ApiKey, ApiTable
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request, encode_response, parse_request
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import PasswordCheck, SaslAuthenticationError, SaslMechanism, SaslTokenError
from fleetgauge.wire.sasl.oauthbearer import OAuthBearerServer, TokenVerifier
from fleetgauge.wire.sasl.plain import PlainServer
from fleetgauge.wire.sasl.scram import ScramServer

MECHANISMS: Final[dict[str, Callable[[CredentialStore], SaslMechanism]]] = {
    "PLAIN": PlainServer,
    **{name.value: functools.partial(ScramServer, name) for name in ScramMechanism},
}
"""The mechanisms of users with passwords, by the values of `sasl.enabled.mechanisms`."""
OAUTHBEARER: Final = "OAUTHBEARER"

_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")
_FIRST_WITH_AUTHENTICATE: Final = 1
"""Version of SaslHandshake from which on tokens are sent in SaslAuthenticate (KIP-152); before, as bare frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """SASL on one listener.

    Attributes:
        mechanisms: the enabled ones, in the order that clients see.
        store: the users with passwords.
        tokens: checks the tokens of OAUTHBEARER; None if that is not enabled.
        max_receive_bytes: largest frame before authentication [B] (`sasl.server.max.receive.size`).
        max_reauth_ms: lifetime of a session until re-authentication [ms] (`connections.max.reauth.ms`); 0: unlimited.
        failure_delay_ms: delay of the response to a failed authentication [ms]
            (`connection.failed.authentication.delay.ms`).
    """

    mechanisms: tuple[str, ...]
    store: CredentialStore
    tokens: TokenVerifier | None = None
    max_receive_bytes: int = 524_288
    max_reauth_ms: int = 0
    failure_delay_ms: int = 100


class FailedAuthentication(enum.StrEnum):
    """Reasons for which an authentication fails, as counted and logged."""

    SASL_AUTHENTICATION_FAILED = "sasl_authentication_failed"
    UNSUPPORTED_SASL_MECHANISM = "unsupported_sasl_mechanism"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslStep:
    """The result of one frame.

    Attributes:
        api_key: the frame's API.
        response: the response with its size prefix; empty for none. After a failure, it is sent after the delay.
        passes: an ApiVersions request, which the listener's handler answers.
        check: work for another thread, whose result goes to `SaslAuthenticator.checked`.
        failure: why the connection is to be closed.
        detail: a sentence for the log.
        is_complete: True if the client is authenticated, so that its other requests are served.
    """

    api_key: ApiKey = ApiKey.SASL_AUTHENTICATE
    response: bytes = b""
    passes: Request | None = None
    check: PasswordCheck | None = None
    failure: FailedAuthentication | None = None
    detail: str = ""
    is_complete: bool = False


class SaslAuthenticator:
    """One exchange: SaslHandshake, then the mechanism's tokens.

    Args:
        settings: of the listener.
        table: the served APIs.
        previous: mechanism and principal of the session that is re-authenticated; neither may change (KIP-368).
    """

    __slots__ = ("_mechanism", "_previous", "_request", "_settings", "_table", "_uses_bare_tokens")

    def __init__(
        self, settings: SaslSettings, table: ApiTable, *, previous: tuple[str, KafkaPrincipal] | None = None
    ) -> None:
        self._settings = settings
        self._table = table
        self._previous = previous
        self._mechanism: SaslMechanism | None = None
        self._uses_bare_tokens = False
        self._request: Request | None = None

    @property
    def mechanism(self) -> str:
        """The mechanism chosen by the client; empty before."""
        return self._mechanism.name if self._mechanism is not None else ""

    @property
    def user(self) -> str:
        """The user name sent by the client, if such a user exists; any other text may be a password."""
        user = self._mechanism.user if self._mechanism is not None else ""
        return user if user in self._settings.store else ""

    @property
    def expires_in_ms(self) -> int:
        """After what time the session's token expires, after a complete step [ms]; 0 without a token."""
        return (self._mechanism.expires_in_ms or 0) if self._mechanism is not None else 0

    @property
    def credential(self) -> ScramCredential | None:
        """The credential of the client's user; None before the user name is known."""
        return self._mechanism.credential if self._mechanism is not None else None

    @property
    def principal(self) -> KafkaPrincipal:
        """The authenticated principal, after a complete step."""
        assert self._mechanism is not None
        return KafkaPrincipal("User", self._mechanism.user)

    def receive(self, frame: bytes) -> SaslStep:
        """Handles one frame, without its size prefix.

        Raises:
            ProtocolError: `unauthenticated_request` for an unexpected request, else as `parse_request`.
        """
        mechanism = self._mechanism
        if mechanism is not None and self._uses_bare_tokens:
            return self._evaluate(mechanism, frame)
        if len(frame) >= _API_KEY.size:
            self.expect(*_API_KEY.unpack_from(frame))
        request = parse_request(frame, self._table)
        if request.api_key == ApiKey.API_VERSIONS:
            return SaslStep(passes=request)
        if mechanism is None:
            return self._shake_hands(request)
        self._request = request
        return self._evaluate(mechanism, request.body.auth_bytes)

    def expect(self, api_key: int) -> None:
        """Checks that a request of this API is the next one of the exchange.

        Raises:
            ProtocolError: `unauthenticated_request`.
        """
        is_new = self._mechanism is None
        expected = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE} if is_new else {ApiKey.SASL_AUTHENTICATE}
        if api_key not in expected:
            raise _unexpected(api_key, expected)

    def checked(self, fits: bool) -> SaslStep:
        """Handles the result of a step's check."""
        mechanism = self._mechanism
        assert mechanism is not None
        try:
            return self._proceed(mechanism, mechanism.checked(fits))
        except SaslAuthenticationError as error:
            return self._fail(str(error), error.detail)

    def _shake_hands(self, request: Request) -> SaslStep:
        name, enabled = request.body.mechanism, self._settings.mechanisms
        is_enabled = name in enabled
        error = ErrorCode.NONE if is_enabled else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        schema: Any = load_response_schema(ApiKey.SASL_HANDSHAKE, request.api_version)
        response = encode_response(request.correlation_id, schema(error_code=KioErrorCode(error), mechanisms=enabled))
        if not is_enabled:
            return SaslStep(
                api_key=ApiKey.SASL_HANDSHAKE,
                response=response,
                failure=FailedAuthentication.UNSUPPORTED_SASL_MECHANISM,
                detail=f"the client requests mechanism {name[:40]!r}, sasl.enabled.mechanisms is {','.join(enabled)}",
            )
        self._mechanism = self._new_mechanism(name)
        self._uses_bare_tokens = request.api_version < _FIRST_WITH_AUTHENTICATE
        return SaslStep(api_key=ApiKey.SASL_HANDSHAKE, response=response)

    def _new_mechanism(self, name: str) -> SaslMechanism:
        if name == OAUTHBEARER:
            assert self._settings.tokens is not None  # of the configuration, where it is enabled
            return OAuthBearerServer(self._settings.tokens)
        return MECHANISMS[name](self._settings.store)

    def _evaluate(self, mechanism: SaslMechanism, token: bytes) -> SaslStep:
        try:
            self._refuse_another_mechanism(mechanism)
            outcome = mechanism.evaluate(token)
            if isinstance(outcome, PasswordCheck):
                return SaslStep(check=outcome)
            return self._proceed(mechanism, outcome)
        except SaslAuthenticationError as error:
            return self._fail(str(error), error.detail)
        except SaslTokenError as error:
            doing = "authentication" if self._previous is None else "re-authentication"
            message = (
                f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {mechanism.name}"
            )
            return self._fail(message, f"{message}: {error}")

    def _proceed(self, mechanism: SaslMechanism, token: bytes) -> SaslStep:
        if mechanism.is_complete and self._previous is not None and self._previous[1] != self.principal:
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {self._previous[1]}: {self.principal}"
            )
        limits = (self._settings.max_reauth_ms, self.expires_in_ms) if mechanism.is_complete else ()
        lifetime_ms = min(filter(None, limits), default=0)
        response = self._answer(ErrorCode.NONE, None, token, lifetime_ms)
        return SaslStep(response=response, is_complete=mechanism.is_complete)

    def _refuse_another_mechanism(self, mechanism: SaslMechanism) -> None:
        if self._previous is not None and self._previous[0] != mechanism.name:
            raise SaslAuthenticationError(
                f"SASL mechanism '{mechanism.name}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._previous[0]}'"
            )

    def _fail(self, message: str, detail: str) -> SaslStep:
        response = self._answer(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", 0)
        return SaslStep(response=response, failure=FailedAuthentication.SASL_AUTHENTICATION_FAILED, detail=detail)

    def _answer(self, error: ErrorCode, message: str | None, token: bytes, lifetime_ms: int) -> bytes:
        """A SaslAuthenticate response; or a bare token, which cannot carry an error."""
        request = self._request
        if request is None:
            return b"" if error else _SIZE.pack(len(token)) + token
        schema: Any = load_response_schema(ApiKey.SASL_AUTHENTICATE, request.api_version)
        values: dict[str, Any] = {
            "error_code": KioErrorCode(error),
            "error_message": message,
            "auth_bytes": token,
        }
        if request.api_version >= 1:
            values["session_lifetime"] = datetime.timedelta(milliseconds=lifetime_ms)
        return encode_response(request.correlation_id, schema(**values))


def _unexpected(api_key: int, expected: set[ApiKey]) -> ProtocolError:
    names = {key.value: key.name for key in ApiKey}
    expected_names = " or ".join(sorted(key.name for key in expected))
    return ProtocolError(
        "unauthenticated_request",
        f"api key {api_key} ({names.get(api_key, 'not served')}) where {expected_names} is expected; is the client's "
        "security.protocol one with SASL, as the listener's?",
    )
