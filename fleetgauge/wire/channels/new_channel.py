"""The object that takes over an accepted socket: a channel of the standalone listener, or another one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fleetgauge.wire.channels.secure_channel import SecureChannel
from fleetgauge.wire.channels.tcp_channel import TcpChannel, as_protocol
from fleetgauge.wire.context.connection_limits import Place
from fleetgauge.wire.context.handshakes import Handshake
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.secure_context import SecureContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An accepted connection.

    Attributes:
        context, shared: shared state of the listener's connections.
        security: the listener's security settings when the connection was accepted.
        handshake: the connection's entry in `Handshakes`; None on a plaintext listener without PROXY headers.
        connection_id, client_address, client_port: as in `wire.context.channel.Channel`.
        place: in the connection limits, to be given back when the connection ends.
    """

    context: ListenerContext
    shared: SecureContext
    security: ListenerSecurity
    handshake: Handshake | None
    connection_id: str
    client_address: str
    client_port: int
    place: Place


MakeChannel: TypeAlias = Callable[[Accepted], asyncio.Protocol]
"""Makes the protocol of a connection: an `OpenConnection` with the methods of `Protocol`."""


def make_channel(accepted: Accepted) -> asyncio.Protocol:
    """Makes a channel whose requests the listener's handler answers."""
    if accepted.handshake is None:
        plain = TcpChannel(
            accepted.context,
            connection_id=accepted.connection_id,
            client_address=accepted.client_address,
            client_port=accepted.client_port,
            place=accepted.place,
        )
        return as_protocol(plain)
    secure = SecureChannel(
        accepted.context,
        accepted.shared,
        accepted.security,
        accepted.handshake,
        connection_id=accepted.connection_id,
        client_address=accepted.client_address,
        client_port=accepted.client_port,
        place=accepted.place,
    )
    return as_protocol(secure)
