"""The object that takes over an accepted socket: a channel of the standalone listener, or another one."""

import asyncio
from typing import Protocol

from wire.connection_limits import Place
from wire.handshakes import Handshake
from wire.listener_context import ListenerContext
from wire.listener_security import ListenerSecurity
from wire.secure_channel import SecureChannel, SecureContext
from wire.tcp_channel import TcpChannel, as_protocol


class MakeChannel(Protocol):
    """Makes the protocol of a connection."""

    def __call__(
        self,
        context: ListenerContext,
        shared: SecureContext,
        security: ListenerSecurity,
        handshake: Handshake | None,
        *,
        connection_id: str,
        client_address: str,
        client_port: int,
        place: Place,
    ) -> asyncio.Protocol:
        """Makes a `wire.open_connection.OpenConnection` with the methods of `asyncio.Protocol`.

        `handshake` is None on a plaintext listener without PROXY headers. `place` is to be given back when the
        connection ends. The rest is as in `wire.secure_channel.SecureChannel`.
        """


def make_channel(
    context: ListenerContext,
    shared: SecureContext,
    security: ListenerSecurity,
    handshake: Handshake | None,
    *,
    connection_id: str,
    client_address: str,
    client_port: int,
    place: Place,
) -> asyncio.Protocol:
    """Makes a channel whose requests the listener's handler answers; see `MakeChannel`."""
    if handshake is None:
        plain = TcpChannel(
            context, connection_id=connection_id, client_address=client_address, client_port=client_port, place=place
        )
        return as_protocol(plain)
    secure = SecureChannel(
        context,
        shared,
        security,
        handshake,
        connection_id=connection_id,
        client_address=client_address,
        client_port=client_port,
        place=place,
    )
    return as_protocol(secure)
