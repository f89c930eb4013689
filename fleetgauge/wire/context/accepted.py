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
        local, client: addresses and ports of the two ends.
        index: the connection's number.
        place: in the connection limits, to be given back when the connection ends.
        handshake: the connection's entry in `Handshakes`; None on a plaintext listener without PROXY headers.
    """

    context: ListenerContext
    shared: SecureContext
    security: ListenerSecurity
    local: tuple[str, int]
    client: tuple[str, int]
    index: int
    place: Place
    handshake: Handshake | None = None

    @property
    def connection_id(self) -> str:
        """See `wire.context.channel.Channel`."""
        return f"{self.local[0]}:{self.local[1]}-{self.client[0]}:{self.client[1]}-{self.index}"


MakeChannel: TypeAlias = Callable[[Accepted], asyncio.Protocol]
"""Makes the protocol of a connection: an `OpenConnection` with the methods of `Protocol`."""
