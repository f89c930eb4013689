"""Interfaces between connections and request handlers. No I/O."""

from collections.abc import Callable
from typing import Any, Protocol

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.wire.messages.codec import Request


class Channel(Protocol):
    """Interface of one connection for request handlers. Hashable by identity; to be called on the listener's loop.

    Attributes:
        connection_id: Kafka's form, `local_host:port-remote_host:port-index`.
        listener_name, security_protocol: e.g. `EXTERNAL` and `PLAINTEXT`.
        principal: the authenticated user; `User:ANONYMOUS` on plaintext.
        client_address, client_port: the peer; IPv4 addresses are in dotted form on a dual-stack socket too.
        is_authenticated: False until authentication has finished; `principal` is meaningless until then.
        client_software_name, client_software_version: `unknown` until the handler of ApiVersions sets them.
        attachment: data that the request handler keeps with the connection (Java's `SelectionKey.attachment`);
            initially None.
        push_templates: what `RequestHandler.push` keeps of pushes that it may handle on this connection; emptied when
            the principal or the software changes.
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
    push_templates: tuple[Any, ...]

    @property
    def is_authenticated(self) -> bool:
        """See the class."""

    def respond(self, slot: int, response: bytes) -> None:
        """Sets the response to the request of that slot, including the size prefix (the encoders write it).

        A later `flush` sends it, in the order of requests. Empty bytes stand for a request without a response. Dropped
        if the connection has ended.

        Raises:
            LocalProtocolError: the slot was never opened, or already has a response.
        """

    def answer(self, slot: int, response: bytes) -> bool:
        """Writes the response to the only request in flight at once; else as `respond`.

        Returns:
            True if `flush` has to be called.

        Raises:
            LocalProtocolError: as `respond`.
        """

    def flush(self) -> None:
        """Writes all responses that are due in order, joined, and handles frames that waited for a free slot."""

    def mute(self) -> None:
        """Pauses handling of requests until each `mute` has its `unmute`. Responses are still sent."""

    def unmute(self) -> None:
        """Ends one mute; allowed after the connection has ended.

        Raises:
            LocalProtocolError: the connection is not muted.
        """

    def close(self, reason: str) -> None:
        """Closes the connection after the responses that are due; `reason` is a short stable name for the counters."""


class RequestHandler(Protocol):
    """Interface of a request handler. Called on the listener's loop, so it must not block.

    A `ProtocolError` closes the connection with its reason, any other exception is logged and closes it with
    `handler_error`; neither reaches another connection.

    Attributes:
        request_clock: clock [ns, monotonic] for the start times of requests; None while request times are not measured.
    """

    @property
    def request_clock(self) -> Callable[[], int] | None:
        """See the class."""

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Returns a complete response, or None and calls `channel.respond` and `flush` later."""

    @property
    def push(self) -> Callable[[Channel, bytes, int, int], bytes | None]:
        """Handler of the usual push: its frame arrived as exactly one chunk.

        Its arguments are the connection, the frame with its size prefix (PushTelemetry version 0), its slot, and its
        time of arrival [ms, monotonic]. It returns a response; empty bytes if `channel.respond` and `flush` are called
        later; or None if the push must be passed to `handle`, like any other request.
        """

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        """Called for a request of an API that is not in the table; the connection is closed.

        Returns:
            True if the handler logs it; otherwise the listener does.
        """

    def authentication_took(self, nanos: int) -> None:
        """Records the time of one SASL step on the loop [ns]; called only while there is a `request_clock`."""

    def authentication_ended(self, channel: Channel, user: str, mechanism: str, failure: str) -> None:
        """Called after each SASL exchange, and for each client certificate.

        Args:
            channel: the connection; its principal is the authenticated one unless there is a failure.
            user: after a failure, the user if it exists; else empty: people type passwords into the wrong field.
            mechanism: the SASL mechanism, or SSL.
            failure: why it failed, a short stable name; empty if it succeeded.
        """

    def connection_made(self, channel: Channel) -> None:
        """Called when a client has connected."""

    def connection_lost(self, channel: Channel, reason: str) -> None:
        """Called when the connection has ended, once for each `connection_made`."""
