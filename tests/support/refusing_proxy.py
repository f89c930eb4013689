"""A proxy before a broker in which a transaction's commit fails."""

import contextlib
import socket
import struct
import threading

from support.proxies.proxy import Proxy

_END_TXN = 26
_ERROR_CODE_AT = 4 + 4 + 4
"""In an answer of versions 0 to 2: after the size, correlation id and throttle time."""


class RefusingProxy(Proxy):
    """Passes everything on; a commit (EndTxn 0-2) is answered with an error code of the test's.

    Attributes:
        codes: error codes of the next commits.
        aborts: these commits are aborts at the broker; otherwise it commits, and only the answer says otherwise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []
        self.aborts = False

    def serve(self, client: socket.socket, upstream: socket.socket) -> None:
        """See `Proxy.serve`."""
        failing: dict[int, int] = {}
        threading.Thread(target=_answers, args=(upstream, client, failing), daemon=True).start()
        while frame := _frame(client):
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
            if api_key == _END_TXN and frame[-1] and self.codes:  # the last byte is `committed`
                assert version <= 2
                failing[correlation_id] = self.codes.pop(0)
                frame[-1] = not self.aborts
            upstream.sendall(frame)
        upstream.shutdown(socket.SHUT_RDWR)


def _answers(upstream: socket.socket, client: socket.socket, failing: dict[int, int]) -> None:
    with contextlib.suppress(OSError):
        while frame := _frame(upstream):
            code = failing.pop(struct.unpack_from(">i", frame, 4)[0], None)
            if code is not None:
                struct.pack_into(">h", frame, _ERROR_CODE_AT, code)
            client.sendall(frame)
        client.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytearray:
    """The next frame with its size; empty at the end of the stream."""
    size = _read(source, 4)
    return size + _read(source, int.from_bytes(size, "big")) if size else size


def _read(source: socket.socket, count: int) -> bytearray:
    found = bytearray()
    while len(found) < count:
        more = source.recv(count - len(found))
        if not more:
            return bytearray()
        found += more
    return found
