"""Times at which the gateway itself logs in on a connection to a broker, and the client's requests that wait. No I/O.

`gateway.streams.broker_login` has one exchange. Its requests stand among those of the client: the client's next
ones are held from the first request of an exchange until the last answer.
"""

from dataclasses import dataclass
from typing import Final

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.streams.broker_login import BrokerLogin, own_request
from fleetgauge.gateway.streams.request_stream import RequestStream
from fleetgauge.wire.sasl.login import Login

LOGIN_WITHIN_MS: Final = 10_000
"""Time limit for the broker's response to a request of the gateway's own login [ms]."""


@dataclass(slots=True, eq=False)
class OwnUser:
    """The gateway's user at the brokers, which all its connections share.

    Attributes:
        login: of the logins that begin from now on; at first as configured.
        logins: complete ones, first ones and renewals.
    """

    login: Login
    logins: int = 0


class OwnLogin:
    """The gateway's logins on one connection to a broker. Returned frames are for the broker, after what is written.

    Args:
        user: the gateway's.
        requests: the client's, held already; they are no longer when the first login is complete.
        in_flight: requests of both; those of the gateway are added here.
    """

    __slots__ = ("_exchange", "_in_flight", "_renews_at_ns", "_requests", "_user")

    def __init__(self, user: OwnUser, requests: RequestStream, in_flight: list[InFlight]) -> None:
        self._user = user
        self._requests = requests
        self._in_flight = in_flight
        self._exchange: BrokerLogin | None = None  # that is under way, or waits for the end of a request
        self._renews_at_ns = 0

    def begin(self, now_ns: int) -> bytes:
        """Begins the first login, on a connection that is new."""
        self._exchange = BrokerLogin(self._user.login)
        return self._sent(self._exchange.begin(), now_ns)

    def hold_if_due(self, now_ns: int) -> None:
        """Holds the client's next requests until the gateway has logged in again (KIP-368), if that is due. This
        happens when the connection is used, as in Kafka's clients, since an unused one may soon end.
        """
        if self._renews_at_ns and now_ns >= self._renews_at_ns:
            self._renews_at_ns = 0
            self._exchange = BrokerLogin(self._user.login)
            self._requests.mutes += 1

    def renew(self, now_ns: int) -> bytes:
        """Begins the login that `hold_if_due` made due, once no request is in flight; else returns no bytes."""
        exchange = self._exchange
        if exchange is None or exchange.has_begun or self._requests.is_within:
            return b""
        return self._sent(exchange.begin(), now_ns)

    def receive(self, body: bytes, now_ns: int) -> bytes:
        """Takes a response. At the end of an exchange it returns no bytes, and the client's requests are no longer
        held.

        Raises:
            LoginError: see `BrokerLogin.receive`.
        """
        exchange = self._exchange
        assert exchange is not None
        request = exchange.receive(body)
        if request:
            return self._sent(request, now_ns)
        self._user.logins += 1
        self._exchange = None
        self._renews_at_ns = now_ns + exchange.renews_after_ms * 1_000_000 if exchange.renews_after_ms else 0
        self._requests.mutes -= 1
        return b""

    def _sent(self, frame: bytes, now_ns: int) -> bytes:
        self._in_flight.append(own_request(frame, now_ns))
        return frame
