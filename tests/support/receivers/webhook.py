"""A web server in this process that takes pushes from the webhook exporter of `examples/`."""

import base64
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from support.ports import free_port
from support.waiting import PATIENCE_S


class Webhook:
    """Listens on a free port, and on the same one again after `stop`.

    Attributes:
        pushes: everything that was taken, in order.
        refuses: chooses the pushes that are named as refused.
        status: what is answered instead of 200, where it is another.
        hangs: no request is answered.
        hanging: so many requests were not.
    """

    def __init__(self) -> None:
        self.pushes: list[dict[str, Any]] = []
        self.refuses: Callable[[dict[str, Any]], bool] = lambda push: False
        self.status = 200
        self.hangs = False
        self.hanging = 0
        self.port = free_port()
        self.release = threading.Event()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/pushes"

    @property
    def received(self) -> list[str]:
        """The client instance ids of the pushes with metrics."""
        return [str(push["client_instance_id"]) for push in list(self.pushes) if push["metrics"]]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.stop()

    def start(self) -> None:
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Ends every connection, too."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for connection in tuple(server.connections):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, hook: Webhook) -> None:
        self.hook = hook
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", hook.port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def do_POST(self) -> None:  # the name that http.server looks for
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hook = self.server.hook
        if hook.hangs:
            hook.hanging += 1
            hook.release.wait(PATIENCE_S)
            return
        answer: dict[str, Any] = {}
        if hook.status == 200:
            pushes = json.loads(body)["pushes"]
            refused = [push["push_id"] for push in pushes if hook.refuses(push)]
            answer = {"refused": [{"push_id": each, "reason": "unwanted", "detail": "not here"} for each in refused]}
            hook.pushes += [
                {**push, "metrics": base64.b64decode(push["metrics"])}
                for push in pushes
                if push["push_id"] not in refused
            ]
        encoded = json.dumps(answer).encode()
        self.send_response(hook.status)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
