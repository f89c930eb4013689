"""Serves one page over HTTP from threads of its own: one request a connection, gzip, everything bounded.

The page comes in pieces and goes out as it comes, so that neither memory nor a slow reader grow with it. Nothing else
is served here: the node's HTTP port is another one, in another process.
"""

import http.client
import io
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from typing import Final, NamedTuple

import structlog

from exporters.loopback import is_loopback, names_this_machine
from exporters.prometheus.settings import Address
from wire.errors import FleetgaugeError

log = structlog.get_logger(__name__)

PATH: Final = "/metrics"
MAX_CONNECTIONS: Final = 8
_MAX_HEAD_BYTES: Final = 16 << 10
_HEAD_WITHIN_S: Final = 5.0
_WRITE_WITHIN_S: Final = 10.0
_ANSWER_WITHIN_S: Final = 120.0
_CHUNK_BYTES: Final = 64 << 10
_LET_OTHERS_WORK_S: Final = 0.0005
_GZIP_LEVEL: Final = 1
"""Labels repeat so much that more effort gains little."""


class PageError(FleetgaugeError):
    """The page cannot be served; the text says why and what to do."""


class Page(NamedTuple):
    """A page in pieces, and its content type. After an empty piece others are let work: see `_chunks`."""

    content_type: str
    pieces: Iterator[str]


class _Request(NamedTuple):
    method: str
    path: str
    is_http_1_1: bool
    headers: Message


class _AnswerError(Exception):
    """A request that gets no page."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class PageServer:
    """Listens at an address until it is closed.

    Args:
        address: where; port 0 takes a free one.
        page: makes the page that an `Accept` header asks for; called in a thread a request.
    """

    def __init__(self, address: Address, page: Callable[[str], Page]) -> None:
        """Begins to listen.

        Raises:
            PageError: the address cannot be had.
        """
        self._page = page
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._socket = socket.create_server((address.host, address.port), family=family, backlog=MAX_CONNECTIONS)
        except OSError as error:
            problem = f"client series cannot be served on {address}: {os.strerror(error.errno or 0)}"
            raise PageError(f"{problem}; set listen to an address that is free") from error
        self.address = Address(host=address.host, port=self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="prometheus-page", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.address}{PATH}"

    def close(self) -> None:
        """Accepts no more; answers under way are finished by their threads, which keep no process."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.1)  # out of descriptors, for instance
                continue
            if not self._free.acquire(blocking=False):
                connection.close()  # as many read already as may
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), name="prometheus-page", daemon=True).start()
            except RuntimeError:  # no more threads
                connection.close()
                self._free.release()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._answer(connection)
        except OSError:
            pass  # a peer that is gone or takes too long
        except Exception:
            log.exception("the page of client series could not be made")
        finally:
            self._free.release()

    def _answer(self, connection: socket.socket) -> None:
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        try:
            request = _checked(_read_request(connection), is_local=is_loopback(connection.getsockname()[0]))
        except _AnswerError as error:
            _send_text(connection, error.status, error.text)
            return
        page = self._page(request.headers.get("Accept", ""))
        zipped = _accepts_gzip(request.headers.get("Accept-Encoding", ""))
        headers = {"Content-Type": page.content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        if request.is_http_1_1:
            headers["Transfer-Encoding"] = "chunked"
        _send(connection, _head(HTTPStatus.OK, headers), deadline)
        if request.method == "HEAD":
            return
        for chunk in _chunks(page.pieces, zipped=zipped):
            framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if request.is_http_1_1 else chunk
            _send(connection, framed, deadline)
        if request.is_http_1_1:
            _send(connection, b"0\r\n\r\n", deadline)


def _read_request(connection: socket.socket) -> _Request:
    """The request's head.

    Raises:
        _AnswerError: it is none.
        OSError: it does not come in time.
    """
    deadline = time.monotonic() + _HEAD_WITHIN_S
    head = bytearray()
    while b"\r\n\r\n" not in head:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv(_MAX_HEAD_BYTES)
        if not received or time.monotonic() > deadline:
            raise TimeoutError
        head += received
        if len(head) > _MAX_HEAD_BYTES:
            raise _AnswerError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's headers are too long")
    stream = io.BytesIO(bytes(head))
    words = stream.readline().decode("latin-1").split()
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise _AnswerError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that can be served")
    try:
        headers = http.client.parse_headers(stream)
    except http.client.HTTPException as error:
        raise _AnswerError(HTTPStatus.BAD_REQUEST, "the request's headers cannot be read") from error
    return _Request(words[0], words[1].partition("?")[0], words[2] == "HTTP/1.1", headers)


def _checked(request: _Request, *, is_local: bool) -> _Request:
    """The request.

    Raises:
        _AnswerError: it is of a kind that is not served.
    """
    if request.method not in ("GET", "HEAD"):
        raise _AnswerError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served here")
    if is_local and not names_this_machine(request.headers.get("Host", "")):
        text = "on a loopback address only requests to localhost or to an IP address are served"
        raise _AnswerError(HTTPStatus.MISDIRECTED_REQUEST, text)
    if request.path != PATH:
        raise _AnswerError(HTTPStatus.NOT_FOUND, f"nothing is served there; client series are at {PATH}")
    return request


def _accepts_gzip(header: str) -> bool:
    """True if an `Accept-Encoding` header names gzip and does not rule it out.

    >>> _accepts_gzip("gzip"), _accepts_gzip("br, gzip;q=0.5"), _accepts_gzip("gzip;q=0"), _accepts_gzip("")
    (True, True, False, False)
    """
    for part in header.lower().split(","):
        coding, _, weight = (each.strip() for each in part.partition(";"))
        if coding == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _chunks(pieces: Iterator[str], *, zipped: bool) -> Iterator[bytes]:
    """The pieces as bytes of some size, compressed or not; what cannot be encoded is replaced."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16) if zipped else None
    waiting = bytearray()
    for piece in pieces:
        if not piece:
            # A lock that is let go and taken again at once is never free for a thread that waits for it.
            time.sleep(_LET_OTHERS_WORK_S)
            continue
        data = piece.encode(errors="replace")
        waiting += packer.compress(data) if packer else data
        if len(waiting) >= _CHUNK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if packer:
        waiting += packer.flush()
    if waiting:
        yield bytes(waiting)


def _send_text(connection: socket.socket, status: HTTPStatus, text: str) -> None:
    body = f"{text}\n".encode()
    headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET, HEAD"
    _send(connection, _head(status, headers) + body, time.monotonic() + _WRITE_WITHIN_S)


def _head(status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
    always = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{k}: {v}" for k, v in {**headers, **always}.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _send(connection: socket.socket, data: bytes, deadline: float) -> None:
    """Writes all of it.

    Raises:
        OSError: the peer is gone, or does not read in time.
    """
    connection.settimeout(max(0.001, min(_WRITE_WITHIN_S, deadline - time.monotonic())))
    connection.sendall(data)
