"""The server that a client names in its TLS handshake (SNI: RFC 6066, section 3), for a listener before several.

A listener that does not ask for names takes every one, as Kafka's brokers do.
"""

import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeAlias

from fleetgauge.wire.errors import ProtocolError

FindServer: TypeAlias = Callable[[str], tuple[str, int] | None]
"""Finds the server of a name, which is empty if the client sends none; raises `ProtocolError` for a name to refuse."""


class NamedServer:
    """Server that a client's TLS server name selected.

    Args:
        find: finds it.

    Attributes:
        address: as found; None before the handshake.
        refusal: why the handshake ended; None if the name did not end it.
    """

    __slots__ = ("_find", "address", "refusal")

    def __init__(self, find: FindServer) -> None:
        self._find = find
        self.address: tuple[str, int] | None = None
        self.refusal: ProtocolError | None = None

    def take(self, name: str) -> bool:
        """Takes the name; False if the handshake must end."""
        try:
            self.address = self._find(name)
        except ProtocolError as error:
            self.refusal = error
        return self.refusal is None


_expected: Final[ContextVar[NamedServer]] = ContextVar("expected")
"""Result for the handshake that this task began: Python's callback gets no connection that identifies it."""


def expect_server_name(context: ssl.SSLContext, find: FindServer) -> NamedServer:
    """Makes the next handshake of the running task, which uses `context`, read the server name."""
    context.sni_callback = _take
    expected = NamedServer(find)
    _expected.set(expected)
    return expected


def server_name_refusal() -> ProtocolError | None:
    """Why the server name ended the handshake of the running task; None if it did not."""
    expected = _expected.get(None)
    return None if expected is None else expected.refusal


def _take(_connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
    # asyncio and uvloop close without sending the alert, which would be fatal to Java's clients.
    return None if _expected.get().take(name or "") else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
