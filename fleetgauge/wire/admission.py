"""Handshake of an accepted socket, up to its channel, on a listener with TLS, SASL or a PROXY header.

Every connection has its own task, so that a slow client delays no other. `wire.context.handshakes` bounds the
unfinished ones. A plaintext listener without PROXY header does not use this module.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass, replace
from typing import Final

from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.accepted import Accepted, MakeChannel
from fleetgauge.wire.context.connection_limits import Refusal
from fleetgauge.wire.context.handshakes import Handshake, HandshakeStage
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.frames import unknown_protocol
from fleetgauge.wire.messages.proxy_header import MAX_V2_BYTES, ProxiedAddress, ProxyHeaderDecoder
from fleetgauge.wire.tls.server_name import server_name_refusal

_TLS_RECORD: Final = 0x16
"""First byte of every TLS connection: the record type of a handshake (RFC 8446, section 5.1)."""
_PEEK_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The handshake of one connection.

    Attributes:
        connection: as it was accepted. With a PROXY header, the client's own address is passed to the limits here, and
            to the channel.
        socket: of the connection; closed here if the handshake fails.
        make_channel: makes the protocol that takes over the socket.
    """

    connection: Accepted
    socket: socket.socket
    make_channel: MakeChannel

    async def run(self) -> None:
        """Completes the handshake, or closes the connection; never raises for an error of the peer."""
        task = asyncio.current_task()
        assert task is not None
        now_ms = self.connection.context.time.hi_res_clock_ms()
        handshake = self.connection.shared.handshakes.begin(lambda _: task.cancel(), now_ms, self.connection.client[0])
        try:
            await self._perform(handshake)
        except asyncio.CancelledError:
            if handshake.reason is None:
                raise
            self._end(handshake, handshake.reason, f"{handshake.stage} was not finished")
        except _RefusedError as error:
            refusal = error.refusal
            self._end(handshake, refusal.reason, refusal.detail, hold_ms=refusal.hold_ms)
        except ProtocolError as error:
            self._end(handshake, error.reason, error.detail)
        except ssl.SSLError as error:
            refused = server_name_refusal() or ProtocolError("tls_handshake_failed", _tls_problem(error))
            self._end(handshake, refused.reason, refused.detail)
        except OSError:
            self._end(handshake, CloseReason.CLIENT_CLOSED, "")

    async def _perform(self, handshake: Handshake) -> None:
        security, client = self.connection.security, self.connection.client
        if security.proxy is not None:
            handshake.stage = HandshakeStage.PROXY_HEADER
            address = await self._read_proxy_header()
            if address is not None:
                client = (address.host, address.port)
                handshake.identify(address.host)
            refusal = self.connection.context.limits.identify(self.connection.place, client[0])
            if refusal is not None:
                raise _RefusedError(refusal)
        if security.tls is not None:
            handshake.stage = HandshakeStage.TLS
            await self._expect_tls()
        await self._connect(handshake, client)

    async def _connect(self, handshake: Handshake, client: tuple[str, int]) -> None:
        """Passes the socket to the loop; with TLS this returns when the TLS handshake is done."""
        context, settings = self.connection.context, self.connection.context.settings
        channel = self.make_channel(replace(self.connection, handshake=handshake, client=client))
        if self.connection.security.tls is None:
            await context.loop.connect_accepted_socket(lambda: channel, self.socket)
            return
        await context.loop.connect_accepted_socket(
            lambda: channel,
            self.socket,
            ssl=self.connection.security.tls,
            # `Handshakes` ends it earlier; this limit is a fallback.
            ssl_handshake_timeout=2 * settings.handshake_timeout_ms / 1000,
            ssl_shutdown_timeout=settings.close_linger_ms / 1000,
        )

    async def _read_proxy_header(self) -> ProxiedAddress | None:
        """Reads the header and not a byte beyond it, since TLS may begin right after."""
        proxy, host = self.connection.security.proxy, self.connection.client[0]
        assert proxy is not None
        if not proxy.includes(host):
            detail = f"{host} is not in proxy.protocol.trusted.addresses"
            raise ProtocolError("untrusted_proxy", detail)
        decoder = ProxyHeaderDecoder()
        while not decoder.is_complete:
            seen = await self._peek(MAX_V2_BYTES)
            if not seen:
                raise ConnectionResetError
            taken = decoder.receive(seen)
            self.socket.recv(taken)
        return decoder.address

    async def _expect_tls(self) -> None:
        """Checks that the connection begins with TLS.

        Raises:
            ProtocolError: `no_tls`, with a description of the bytes.
        """
        first = await self._peek(_PEEK_BYTES)
        if not first:
            raise ConnectionResetError
        if first[0] != _TLS_RECORD:
            looks = unknown_protocol(first) or (
                "it looks like a plaintext Kafka request: set the client's security.protocol to the listener's, "
                f"{self.connection.security.protocol}"
                if first[0] == 0
                else f"it begins with {first!r}"
            )
            raise ProtocolError("no_tls", f"no TLS on a TLS listener; {looks}")

    async def _peek(self, size: int) -> bytes:
        """The received bytes, without consuming them; empty if the peer has closed."""
        while True:
            try:
                return self.socket.recv(size, socket.MSG_PEEK)
            except BlockingIOError:
                await self._readable()

    async def _readable(self) -> None:
        loop = self.connection.context.loop
        arrived: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.socket, _wake, arrived)
        try:
            await arrived
        finally:
            loop.remove_reader(self.socket)

    def _end(self, handshake: Handshake, reason: str, detail: str, *, hold_ms: int = 0) -> None:
        """Closes and counts a connection without a channel; logs errors of the peer."""
        context = self.connection.context
        handshake.finish()
        context.limits.give_back(self.connection.place)
        context.held.close_after(self.socket, hold_ms)
        context.counters.closed[str(reason)] += 1
        if not detail or reason == CloseReason.LISTENER_STOPPED:
            return
        client = f"{self.connection.client[0]}:{self.connection.client[1]}"
        context.report("wire.handshake_failed", str(reason), reason=str(reason), detail=detail, client=client)


class _RefusedError(Exception):
    """The limits refuse the client."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def _wake(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


_TLS_HINTS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth=required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not signed by one of ssl.truststore.*, expired, revoked",
    "UNSUPPORTED_PROTOCOL": "the client supports none of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "client and listener have no cipher in common",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the listener's certificate: its truststore lacks the signer",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client rejects the listener's certificate: not trusted, or of another host",
    "CALLBACK_FAILED": "the client's server name (SNI) is not ASCII",  # Python decodes it before `wire.tls.server_name`
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client rejects the listener's certificate: not trusted, or of another host",
}


def _tls_problem(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    text = reason.lower().replace("_", " ") or str(error)
    hint = _TLS_HINTS.get(reason)
    return f"{hint} ({text})" if hint else text
