"""An accepted connection, from which the listener makes a channel."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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
