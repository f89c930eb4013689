"""The connections to the brokers behind a gateway."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from fleetgauge.wire.messages.proxy_header import encode_v2

CONNECT_WITHIN_S: Final = 10.0
"""Time limit to open a connection to a broker [s], as in Kafka's clients (`socket.connection.setup.timeout.ms`)."""


class BrokerEvents(Protocol):
    """Handles the events of a connection to a broker: a `gateway.client_channel.ClientChannel`."""

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """The connection is open."""

    def broker_sent(self, data: bytes) -> None:
        """Bytes arrived."""

    def broker_reads(self, reads: bool) -> None:
        """The broker takes bytes again, or too many are waiting for it."""

    def broker_lost(self, error: Exception | None) -> None:
        """The connection has ended."""


class BrokerSide(asyncio.Protocol):
    """The connection to a broker: hands every event to its receiver."""

    __slots__ = ("_receiver",)

    def __init__(self, receiver: BrokerEvents) -> None:
        self._receiver = receiver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: the connection is open."""
        self._receiver.broker_connected(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        """Called by the loop: bytes arrived."""
        self._receiver.broker_sent(data)

    def pause_writing(self) -> None:
        """Called by the loop: the broker does not read."""
        self._receiver.broker_reads(False)

    def resume_writing(self) -> None:
        """Called by the loop: the broker reads."""
        self._receiver.broker_reads(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the connection has ended."""
        self._receiver.broker_lost(exc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Settings of the connections to brokers.

    Attributes:
        host, port, tls, server_hostname, sends_proxy_header: see `gateway.gateway.GatewaySettings`.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    sends_proxy_header: bool = False

    async def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        receiver: BrokerEvents,
        address: tuple[str, int],
        *,
        client: tuple[str, int],
        local: tuple[str, int],
    ) -> None:
        """Connects to a broker, whose events `receiver` gets.

        Args:
            loop: the running one.
            receiver: of the connection's events.
            address: host and port of the broker.
            client: address and port of the client that the connection is for.
            local: address and port that the client has connected to.

        Raises:
            OSError: the broker cannot be reached, its certificate is not accepted, or `CONNECT_WITHIN_S` is over.
            ValueError: the host is no name.
        """
        name = (self.server_hostname or address[0]) if self.tls is not None else None
        make: Callable[[], BrokerSide] = lambda: BrokerSide(receiver)  # noqa: E731  # one line for both ways
        async with asyncio.timeout(CONNECT_WITHIN_S):
            if not self.sends_proxy_header:
                await loop.create_connection(make, *address, ssl=self.tls, server_hostname=name)
                return
            connected = await _connected(loop, *address)
            try:
                await loop.sock_sendall(connected, encode_v2(client, local))  # before TLS (section 2)
                await loop.create_connection(make, sock=connected, ssl=self.tls, server_hostname=name)
            except BaseException:
                connected.close()
                raise


async def _connected(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """A socket to the first address of a host that takes the connection."""
    refused = OSError("the name has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            await loop.sock_connect(connecting, address)
        except OSError as error:
            connecting.close()
            refused = error
        except BaseException:
            connecting.close()
            raise
        else:
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connecting
    raise refused
