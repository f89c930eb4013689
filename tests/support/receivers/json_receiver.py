"""A receiver of JSON by POST: a real HTTP server that keeps what it got and answers as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonReceiver:
    """Answers with one status after the other, the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.address = ""

    def answered(self) -> None:
        """Called before each answer."""

    @property
    def url(self) -> str:
        """With a secret in it."""
        return f"{self.address}/hook?token=secret"


@contextmanager
def listening(*statuses: int, receiver: JsonReceiver | None = None) -> Iterator[JsonReceiver]:
    target = receiver or JsonReceiver(*statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            target.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            target.headers.append(dict(self.headers))
            target.paths.append(self.path)
            target.answered()
            self.send_response(target.statuses.pop(0) if len(target.statuses) > 1 else target.statuses[0])
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        target.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield target
        finally:
            server.shutdown()
            thread.join()
