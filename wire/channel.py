"""A connection as request handlers see it, and a request handler as connections see it. No I/O here."""

from collections.abc import Callable
from typing import Any, Protocol

from base.principal import KafkaPrincipal
from wire.codec import Request


class Channel(Protocol):
    """One connection. Hashable by identity; every call belongs on the listener's loop.

    Attributes:
        connection_id: Kafka's form, `local_host:port-remote_host:port-index`.
        listener_name, security_protocol: e.g. `EXTERNAL` and `PLAINTEXT`.
        principal: who is connected; `User:ANONYMOUS` on plaintext.
        client_address, client_port: the other end; an IPv4 address is in its own form on a dual-stack socket too.
        is_authenticated: False while the client still has to say who it is; `principal` is nobody's then.
        client_software_name, client_software_version: `unknown` until the handler of ApiVersions sets them.
        attachment: whatever the request handler keeps with the connection (Java's `SelectionKey.attachment`); None
            at first.
        instances: the client instances that pushed on this connection, by the bytes of their id, for
            `RequestHandler.push`; None before the first. What changes the principal or the software sets it to None.
    """

    connection_id: str
    listener_name: str
    security_protocol: str
    principal: KafkaPrincipal
    client_address: str
    client_port: int
    client_software_name: str
    client_software_version: str
    attachment: object
    instances: dict[bytes, Any] | None

    @property
    def is_authenticated(self) -> bool:
        """See the class."""
        ...

    def respond(self, slot: int, response: bytes) -> None:
        """Hands over the response to the request of that slot, size prefix included (the encoders write it).

        It leaves with a later `flush`, in its turn. Empty bytes answer a request that has no response. Dropped
        when the connection has ended.

        Raises:
            LocalProtocolError: the slot was never opened, or has its response.
        """
        ...

    def answer(self, slot: int, response: bytes) -> bool:
        """Writes the response to the only request in flight at once; else as `respond`.

        Returns:
            True if `flush` has to be called.

        Raises:
            LocalProtocolError: as `respond`.
        """
        ...

    def flush(self) -> None:
        """Writes every response whose turn has come, joined, and handles frames that waited for room."""
        ...

    def mute(self) -> None:
        """Handles no further request until unmuted; each mute takes one `unmute`. Responses still leave."""
        ...

    def unmute(self) -> None:
        """Ends one mute; may come after the connection's end.

        Raises:
            LocalProtocolError: there is no mute to end.
        """
        ...

    def close(self, reason: str) -> None:
        """Closes the connection after the responses whose turn has come; `reason` is a short stable word to count."""
        ...


class RequestHandler(Protocol):
    """What answers requests. Called on the listener's loop, so it must not block.

    A `ProtocolError` closes the connection with its reason, any other exception is logged and closes it with
    `handler_error`; neither reaches another connection.

    Attributes:
        request_clock: the clock [ns, monotonic] that tells when a request was taken up, where anybody wants to know how
            long requests take; None saves reading it.
    """

    @property
    def request_clock(self) -> Callable[[], int] | None:
        """See the class."""
        ...

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Answers now with a whole response, or returns None and later calls `channel.respond` and `flush`."""
        ...

    @property
    def push(self) -> Callable[[Channel, bytes, int, int], bytes | None]:
        """Takes a push that is a chunk of its own, if there is nothing unusual about it.

        Called with the connection, the whole frame with its size prefix (of PushTelemetry version 0), its place in the
        order of responses if it is taken, and when it arrived [ms, monotonic]. Returns a response for now; nothing if
        `channel.respond` and `flush` are called later; or None if the push is to be given to `handle`, as a request
        like any other.
        """
        ...

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        """A request of an API that is not in the table arrived; the connection is closed.

        Returns:
            True if the handler logs it; otherwise the listener does.
        """
        ...

    def authentication_took(self, nanos: int) -> None:
        """A step of a SASL exchange was handled on the loop [ns]; called only while there is a `request_clock`."""
        ...

    def connection_made(self, channel: Channel) -> None:
        """A client connected."""
        ...

    def connection_lost(self, channel: Channel, reason: str) -> None:
        """The connection ended; called once for each `connection_made`."""
        ...
