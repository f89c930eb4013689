"""OTLP over HTTP: one persistent connection, replaced when it fails. Source: OTLP specification, "OTLP/HTTP".

Requests are protobuf, not JSON. Redirects are not followed, and proxies named by variables are not used.
"""

import gzip
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import zstandard
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from fleetgauge.exporters.exporter import Outcome, Retry
from fleetgauge.exporters.otlp.http_status import http_failure
from fleetgauge.exporters.otlp.settings import OtlpSettings
from fleetgauge.exporters.otlp.status import closed_at_once, protocol_fault, success, tls_fault
from fleetgauge.exporters.tls_files import TlsFilesError

_MAX_RESPONSE_BYTES: Final = 65_536
"""Limit of an answer's body; a longer one is cut, and the connection is not used again [B]."""
_GZIP_LEVEL: Final = 1
"""Metrics repeat themselves: a higher level costs far more time than it saves bytes."""

_COMPRESSORS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "none": lambda body: body,
    "gzip": lambda body: gzip.compress(body, _GZIP_LEVEL, mtime=0),
    "zstd": lambda body: zstandard.ZstdCompressor().compress(body),
}

_UNAUTHORISED: Final = frozenset({401, 403})

_Connection = HTTPConnection | HTTPSConnection


class HttpTransport:
    """Sends requests to one OTLP/HTTP receiver, one at a time.

    Args:
        settings: endpoint and options.
        user_agent: value of the header.
    """

    def __init__(self, settings: OtlpSettings, user_agent: str) -> None:
        self._settings = settings
        self._headers = {
            "user-agent": user_agent,
            **dict(settings.headers),
            "content-type": "application/x-protobuf",
        }
        if settings.compression != "none":
            self._headers["content-encoding"] = settings.compression
        self._compress = _COMPRESSORS[settings.compression]
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._connection: _Connection | None = None
        self._closed = False

    def open(self) -> None:
        """See `OtlpTransport.open`."""
        if self._settings.endpoint.tls:
            self._settings.tls.context()

    def send(self, request: bytes) -> Outcome:
        """See `OtlpTransport.send`."""
        with self._sending:
            outcome = self._send(request)
            if self._closed:
                self._drop()
        return outcome

    def _send(self, request: bytes) -> Outcome:
        late = threading.Event()
        try:
            with self._bounded(late):
                response, body = self._post(self._compress(request))
            if late.is_set():  # a truncated head looks like a complete one
                raise TimeoutError
        except TlsFilesError as error:
            return Retry(reason="tls_files", detail=str(error))
        except (HTTPError, OSError, http.client.HTTPException) as error:
            self._drop()
            return self._failed(error, late=late.is_set())
        if 200 <= response.status < 300:
            return success(body)
        if response.status in _UNAUTHORISED:
            self._drop()  # the next connection reads the client certificate again
        tls = self._settings.endpoint.tls
        return http_failure(response.status, response.headers.get("retry-after"), body, tls=tls)

    def close(self) -> None:
        """See `OtlpTransport.close`."""
        self._closed = True
        self._shut()
        if self._sending.acquire(blocking=False):  # else the running `send` closes the connection
            self._drop()
            self._sending.release()

    def _failed(self, error: Exception, *, late: bool) -> Retry:
        text = str(error) or type(error).__name__
        if self._closed:
            return Retry(reason="cancelled", detail="the exporter is closed")
        if late or isinstance(error, TimeoutError):
            return Retry(reason="deadline_exceeded", detail=f"no response within {self._settings.timeout_ms} ms")
        if fault := tls_fault(text) or protocol_fault(text):
            return fault
        is_reset = "reset by peer" in text and not self._settings.endpoint.tls
        return Retry(reason="unavailable", detail=closed_at_once(text, tls=False) if is_reset else text)

    @contextmanager
    def _bounded(self, late: threading.Event) -> Iterator[None]:
        """Closes the connection after the timeout: a socket's own timeout restarts with every byte."""

        def end() -> None:
            late.set()
            self._shut()

        timer = threading.Timer(self._settings.timeout_ms / 1000, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _post(self, body: bytes) -> tuple[BaseHTTPResponse, bytes]:
        connection = self._connected()
        if connection.is_closed:
            _connect(connection)
        # A receiver that rejects a request before it has read it answers, and closes.
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            connection.request(
                "POST", self._settings.endpoint.path, body=body, headers=self._headers, preload_content=False
            )
        response = connection.getresponse()
        answer = response.read(_MAX_RESPONSE_BYTES + 1, decode_content=False)
        if len(answer) > _MAX_RESPONSE_BYTES or response.headers.get("connection", "").lower() == "close":
            self._drop()
        return response, answer[:_MAX_RESPONSE_BYTES]

    def _connected(self) -> _Connection:
        """The connection; a new one, not connected yet, if the receiver has closed it meanwhile."""
        with self._lock:
            if self._closed:
                raise ConnectionAbortedError("the exporter is closed")
            if self._connection is not None and self._connection.is_connected:
                return self._connection
        self._drop()
        connection = self._make()
        with self._lock:
            self._connection = connection
        return connection

    def _make(self) -> _Connection:
        endpoint, timeout_s = self._settings.endpoint, self._settings.timeout_ms / 1000
        host = endpoint.host.strip("[]")
        if not endpoint.tls:
            return HTTPConnection(host, endpoint.port, timeout=timeout_s)
        context = self._settings.tls.context()
        return HTTPSConnection(host, endpoint.port, timeout=timeout_s, ssl_context=context)

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _shut(self) -> None:
        """Makes a request that waits for its socket fail now; from any thread."""
        with self._lock:
            opened = None if self._connection is None else self._connection.sock
        if opened is not None:
            with suppress(OSError):
                # Not SSLSocket's own, which would make the reading thread continue without TLS.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _connect(connection: _Connection) -> None:
    """Connects, including TLS; not within the request, where a closed connection may have an answer."""
    try:
        connection.connect()
    except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise ConnectionAbortedError(closed_at_once(str(error), tls=True)) from error
