"""A webhook's receiver: a real HTTP server that keeps what it got and answers as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AlertReceiver:
    """Answers with one status after the other, the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [alert for body in self.bodies for alert in body["alerts"]]

    def answer(self, body: bytes, headers: dict[str, str]) -> int:
        self.bodies.append(json.loads(body))
        self.headers.append(headers)
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def listening(*statuses: int) -> Iterator[AlertReceiver]:
    receiver = AlertReceiver(*statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.answer(body, dict(self.headers))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        receiver.url = f"http://127.0.0.1:{server.server_port}/alerts?token=secret"
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
