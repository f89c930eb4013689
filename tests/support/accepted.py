"""Accepted connections, as a listener makes channels of them."""

from fleetgauge.wire.context.accepted import Accepted
from fleetgauge.wire.context.handshakes import Handshake, Handshakes
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import AuthenticationCounters
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.secure_context import SecureContext


def accepted(
    context: ListenerContext,
    shared: SecureContext | None = None,
    handshake: Handshake | None = None,
    *,
    client: tuple[str, int] = ("127.0.0.1", 1),
    index: int = 0,
) -> Accepted:
    """A connection of a listener, by default one in plaintext."""
    if shared is None:
        handshakes = Handshakes(max_unfinished=1, timeout_ms=1_000)
        shared = SecureContext(ListenerSecurity(), handshakes, AuthenticationCounters())
    return Accepted(
        context=context,
        shared=shared,
        security=shared.security,
        local=("127.0.0.1", 9092),
        client=client,
        index=index,
        place=None,
        handshake=handshake,
    )
