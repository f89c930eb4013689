"""The gateway's own authentication at a broker, where the SASL of clients ends at the gateway. No I/O.

Requests for the broker stand among those of the client: the same connection has both, and answers them in order.
"""

import struct
from typing import Final

from fleetgauge.gateway.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.policy import ENDS_WITHIN
from fleetgauge.gateway.responses.splices import read_text
from fleetgauge.wire.sasl.login import Login, LoginError

_HEADER: Final = struct.Struct(">ihhih")
"""Size, API key, version, correlation id, null client id."""
_VERSION: Final = 1
"""Version of both APIs: tokens in SaslAuthenticate, and the session's lifetime in its response (KIP-368): Kafka 2.2."""
_CORRELATION_ID: Final = 714
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_RENEWS_AFTER: Final = 0.85
"""Part of a session's lifetime after which the next request begins another authentication, as in Kafka's clients."""


class BrokerLogin:
    """One authentication at a broker.

    >>> login = BrokerLogin(Login(mechanism="PLAIN", username="gateway", password="secret"))
    >>> login.begin()[4:8].hex(), login.receive(bytes.fromhex("0000" "00000000"))[4:8].hex()
    ('00110001', '00240001')
    >>> login.receive(bytes.fromhex("0000" "ffff" "00000000" "0000000000000bb8")), login.renews_after_ms
    (b'', 2550)

    Args:
        login: the gateway's user.

    Attributes:
        has_begun: True after `begin`.
        renews_after_ms: how long after a complete authentication the next one is due [ms]; 0: never.
    """

    __slots__ = ("_exchange", "_is_token", "_login", "has_begun", "renews_after_ms")

    def __init__(self, login: Login) -> None:
        self._login = login
        self._exchange = login.exchange()
        self._is_token = False
        self.has_begun = False
        self.renews_after_ms = 0

    def begin(self) -> bytes:
        """The first request, a whole frame."""
        self.has_begun = True
        mechanism = self._login.mechanism.encode()
        return _frame(SASL_HANDSHAKE, _INT16.pack(len(mechanism)) + mechanism)

    def receive(self, body: bytes) -> bytes:
        """Takes the body of the response to the latest request; returns the next request, empty if there is none.

        Raises:
            LoginError: the broker refuses the user, or what it answers is wrong.
        """
        try:
            return self._take_token(body) if self._is_token else self._take_mechanisms(body)
        except ENDS_WITHIN as error:
            raise LoginError("its answer does not follow the schema") from error

    def _take_mechanisms(self, body: bytes) -> bytes:
        (error,) = _INT16.unpack_from(body)
        if error == _UNSUPPORTED_MECHANISM:
            enabled = ", ".join(_texts(body, 2)) or "none"
            raise LoginError(f"its listener has {enabled}, and gateway.sasl.mechanism is {self._login.mechanism}")
        if error == _ILLEGAL_STATE:
            raise LoginError("its listener has no SASL: set gateway.security.protocol to the listener's")
        if error:
            raise LoginError(f"SaslHandshake is answered with error code {error}")
        self._is_token = True
        return self._authenticate(self._exchange.first())

    def _take_token(self, body: bytes) -> bytes:
        (error,) = _INT16.unpack_from(body)
        message, position = read_text(body, 2, flexible=False)
        if error:
            shown = message.decode(errors="replace")[:300] or f"error code {error}"
            raise LoginError(f"it refuses the user {self._login.username} of gateway.sasl.username: {shown}")
        (length,) = _INT32.unpack_from(body, position)
        start = position + _INT32.size
        end = start + max(length, 0)
        answer = self._exchange.next(body[start:end])
        if answer is not None:
            return self._authenticate(answer)
        (lifetime_ms,) = _INT64.unpack_from(body, end)
        self.renews_after_ms = int(max(lifetime_ms, 0) * _RENEWS_AFTER)
        return b""

    def _authenticate(self, token: bytes) -> bytes:
        return _frame(SASL_AUTHENTICATE, _INT32.pack(len(token)) + token)


def own_request(frame: bytes, now_ns: int) -> InFlight:
    """The state of a request of the gateway itself."""
    size, key, version, correlation_id, _ = _HEADER.unpack_from(frame)
    request = InFlight(key, version, correlation_id, "", size, now_ns)
    request.is_own = True
    return request


def _frame(key: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size - _INT32.size + len(body), key, _VERSION, _CORRELATION_ID, -1) + body


def _texts(body: bytes, position: int) -> list[str]:
    (count,) = _INT32.unpack_from(body, position)
    position += _INT32.size
    texts = []
    for _ in range(count):
        text, position = read_text(body, position, flexible=False)
        texts.append(text.decode(errors="replace"))
    return texts
