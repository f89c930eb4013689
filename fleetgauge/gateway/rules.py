"""The interface between the data path and the rules that judge and observe its traffic: quotas, statistics. No I/O.

Everything is called on the loop of the connection, in the order of the stream: `request` when a request's header, and
as much of its body as the rules need, is at hand, before a byte of it reaches the broker; `response` if
`InFlight.response_bytes` is set, when these bytes of the broker's answer are at hand, before a byte of it reaches the
client; `sent` for every answer; `interrupted` after a turn that ends within an answer.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.gateway.in_flight import InFlight

WHOLE_FRAME: Final = -1
"""As a number of bytes: the whole body."""
MAX_BODY_BYTES: Final = 1 << 20
"""Most bytes of a body that the data path keeps for the rules [B]. Of a longer body that is needed whole they get these
first bytes, and a length below that of the frame; it can then be passed or refused, not rewritten."""


class ClientConnection(Protocol):
    """The connection of a client, as rules see it. Hashable by identity.

    Attributes:
        connection_id, listener_name, client_address, client_port: as in `wire.context.channel.Channel`.
        principal: of the client's certificate, or of a SASL exchange that the broker accepted; else ANONYMOUS.
        client_software_name, client_software_version: as ApiVersions named them.
        spends_unanswered: True while the loop's time is that of a request without an answer.
        traffic: what the rules keep with the connection, the size of its last fetched response; initially None.
    """

    connection_id: str
    listener_name: str
    client_address: str
    client_port: int
    principal: KafkaPrincipal
    client_software_name: str
    client_software_version: str
    spends_unanswered: bool
    traffic: Any

    def mute(self) -> None:
        """Reads no further request until each `mute` has its `unmute`; answers are still sent."""

    def unmute(self) -> None:
        """Ends one mute; allowed after the connection has ended."""

    def take_loop_ns(self, *, to_now: bool = False) -> int:
        """Time that the loop has spent with this connection since the last call, but for `take_unanswered_ns` [ns].

        Args:
            to_now: True to count what the loop is doing now; else that counts the next time.
        """

    def take_unanswered_ns(self) -> int:
        """Time that the loop has spent with requests without an answer since the last call [ns]."""

    def begin_request(self, is_answered: bool) -> None:
        """Sets `spends_unanswered`: from now on the time is that of a request that has an answer, or has none."""


@dataclass(frozen=True, slots=True)
class More:
    """Calls `request` again when `body_bytes` of the body are at hand, or the whole of a shorter one.

    Attributes:
        body_bytes: at most `MAX_BODY_BYTES`; `WHOLE_FRAME` for the whole body.
    """

    body_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The request is not passed to the broker: the client gets `response` in its turn.

    Attributes:
        response: a whole frame with its size prefix; empty if the request has no answer (acks=0).
    """

    response: bytes


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The request is passed with another body, of any length. Only for a body that is at hand as a whole.

    Attributes:
        body: what follows the request header.
    """

    body: bytes


RequestVerdict: TypeAlias = More | Answer | Rewrite | None
"""None passes the request as it is, the usual case."""


@dataclass(frozen=True, slots=True)
class Patched:
    """The answer is passed with another beginning.

    Attributes:
        body: in place of the body's bytes that `response` got; of any number.
        replaces_all: True if `body` is the whole answer: what follows of the broker's is dropped as it arrives.
    """

    body: bytes
    replaces_all: bool = False


class Rules(Protocol):
    """Judges and observes the traffic of all connections."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        """Judges a request.

        Args:
            connection: of the client.
            request: its header; `response_bytes`, `note` may be set.
            body: as much of the body (after the header, with its tagged fields) as the last `More` of this request
                asked for; empty in the first call.
            now_ns: monotonic [ns].
        """

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        """Observes an answer of the broker, and may patch it.

        Args:
            connection: of the client.
            request: that it answers.
            size: of the answer, without the size prefix [B], as Kafka's quotas count it.
            body: the first `request.response_bytes` bytes of the body (after the response header), or the whole of a
                shorter one.
            now_ns: monotonic [ns].
        """

    def sent(self, connection: ClientConnection, request: InFlight, size: int, now_ns: int) -> None:
        """Records that a response of `size` bytes [B] is passed on, after `response`: the broker's or a local one.
        `InFlight.local` may still be replaced by one of the same size.
        """

    def interrupted(self, connection: ClientConnection, request: InFlight, now_ns: int) -> int:
        """Records that a turn of the connection has ended within the response to `request`; returns the delay of its
        next turn [ms].
        """


class NoRules:
    """Passes everything."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        """See `Rules.request`."""
        return None

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        """See `Rules.response`."""
        return None

    def sent(self, connection: ClientConnection, request: InFlight, size: int, now_ns: int) -> None:
        """See `Rules.sent`."""

    def interrupted(self, connection: ClientConnection, request: InFlight, now_ns: int) -> int:
        """See `Rules.interrupted`."""
        return 0
