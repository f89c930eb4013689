"""An example of your own exporter (docs/develop/write-an-exporter.md): one POST of JSON per batch to a web server.

    [exporters.hook]
    type = "webhook_exporter:webhook_exporter"      # the module must be importable, for example by PYTHONPATH
    url = "http://localhost:8080/pushes"

The body is `{"pushes": [...]}`: for each push its client, its time of receipt, and its metrics, OTLP `MetricsData` in
base64. The server answers 2xx when it has them all. It may name pushes that it rejects permanently, `{"refused":
[{"push_id": ..., "reason": ..., "detail": ...}]}`: those become dead letters.
"""

import base64
import http.client
import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from fleetgauge.exporters import (
    Batch,
    BatchSettings,
    Delivered,
    Options,
    Outcome,
    PushRecord,
    Refused,
    RefusedRecord,
    Retry,
    RetrySettings,
    TooLarge,
    batch_settings,
    retry_settings,
)

DEFAULT_BATCH = BatchSettings(max_bytes=1_000_000, max_records=1_000, linger_ms=500)
OUR_FAULT = {401: "check its credentials", 403: "check its credentials", 404: "check its url", 405: "check its url"}
"""Answers that are not the pushes' fault: they wait in the log until an operator has solved the problem."""


class WebhookExporter:
    """Delivers to one URL, one request at a time."""

    def __init__(self, name: str, url: str, *, timeout_s: float, batch: BatchSettings, retry: RetrySettings) -> None:
        self.name = name
        self.batch = batch
        self.retry = retry
        self._url = urlsplit(url)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._is_exporting = self._is_cut = False
        self._closed = False

    def start(self) -> None:
        """Does nothing: the first batch connects, and can return a failure with its reason."""

    def export(self, batch: Batch) -> Outcome:
        """Sends one POST. A network fault is a reason to retry, never an exception."""
        body = json.dumps({"pushes": [as_object(record) for record in batch.records]}).encode()
        try:
            status, retry_after, answer = self._post(body)
        except (OSError, http.client.HTTPException) as error:
            return Retry(reason="unreachable", detail=f"{self._url.geturl()}: {error or type(error).__name__}")
        return outcome(status, retry_after, answer)

    def close(self) -> None:
        """Ends a running request: `close` comes from another thread when a stop has waited long enough."""
        with self._lock:
            self._closed = True
            connection = self._connection
            if not self._is_exporting:
                self._disconnect()
            elif connection is not None:
                self._cut(connection)

    def _post(self, body: bytes) -> tuple[int, str | None, bytes]:
        with self._lock:
            connection = self._connected()
            self._is_exporting, self._is_cut = True, False
        # http.client's own timeout starts anew with every byte; this one is of the whole exchange.
        deadline = threading.Timer(self._timeout_s, self._cut, (connection,))
        deadline.daemon = True
        deadline.start()
        try:
            return self._answer(connection, body)
        except BaseException:
            with self._lock:
                self._disconnect()
            raise
        finally:
            deadline.cancel()
            with self._lock:
                self._is_exporting = False
                if self._closed:
                    self._disconnect()

    def _answer(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[int, str | None, bytes]:
        path = self._url.path or "/"
        query = f"?{self._url.query}" if self._url.query else ""
        if connection.sock is None:
            connection.connect()
        self._raise_if_cut()  # a TLS handshake has no socket yet that could be cut
        connection.request("POST", path + query, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        found = response.status, response.getheader("Retry-After"), response.read(1_000_000)
        self._raise_if_cut()  # a head that was cut off reads as a whole one
        return found

    def _cut(self, connection: http.client.HTTPConnection) -> None:
        """Aborts a request of another thread, which fails there."""
        self._is_cut = True
        if connection.sock is not None:
            with suppress(OSError):  # the peer was faster
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _raise_if_cut(self) -> None:
        if self._is_cut:
            raise TimeoutError(f"no whole answer within {self._timeout_s:g} s")

    def _connected(self) -> http.client.HTTPConnection:
        if self._closed:
            raise ConnectionError("the exporter is closed")
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._url.hostname or "", self._url.port, timeout=self._timeout_s)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def outcome(status: int, retry_after: str | None, answer: bytes) -> Outcome:
    """The outcome for a response."""
    if 200 <= status < 300:
        return Delivered(refused=refused_records(answer))
    detail = f"answered {status}: {answer[:200].decode(errors='replace')}"
    if status == 413:
        return TooLarge(reason="too_large", detail=detail)
    if status in OUR_FAULT:
        return Retry(reason=f"http_{status}", detail=f"{detail} ({OUR_FAULT[status]})")
    if 400 <= status < 500 and status not in (408, 425, 429):
        return Refused(reason=f"http_{status}", detail=detail)
    after_ms = int(retry_after) * 1_000 if retry_after is not None and retry_after.isdecimal() else None
    return Retry(reason=f"http_{status}", detail=detail, after_ms=after_ms)


def refused_records(answer: bytes) -> tuple[RefusedRecord, ...]:
    """The pushes that the server rejects; none if the answer has another form."""
    try:
        named = json.loads(answer)["refused"]
        return tuple(
            RefusedRecord(push_id=each["push_id"], reason=str(each["reason"]), detail=str(each.get("detail", "")))
            for each in named
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def as_object(record: PushRecord) -> dict[str, object]:
    """A push as a JSON object."""
    return {**record._asdict(), "metrics": base64.b64encode(record.metrics).decode()}


def webhook_exporter(name: str, values: Mapping[str, object]) -> WebhookExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`: `url`, `timeout.ms`, and those that all types share.

    Raises:
        ExporterConfigError: a key is unknown, `url` is missing, or a value is not allowed.
    """
    options = Options(name, values)
    url = options.text("url", "")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise options.error("url", url, "expected http://host/path or https://host/path")
    exporter = WebhookExporter(
        name,
        url,
        timeout_s=options.integer("timeout.ms", 10_000, minimum=1) / 1_000,
        batch=batch_settings(options, DEFAULT_BATCH),
        retry=retry_settings(options, RetrySettings()),
    )
    options.finish()
    return exporter
