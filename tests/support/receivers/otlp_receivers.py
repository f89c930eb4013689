"""OTLP receivers within the test itself, whose answers a test sets: over gRPC and over HTTP, with TLS or without."""

import ssl
import threading
from collections.abc import Callable
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc
from support.waiting import PATIENCE_S

from fleetgauge.exporters.otlp.grpc_transport import EXPORT_METHOD

GrpcAnswer = Callable[[bytes, grpc.ServicerContext], bytes]
HttpAnswer = Callable[["HttpHandler"], None]

if TYPE_CHECKING:
    RpcHandler = grpc.GenericRpcHandler[bytes, bytes]
else:  # generic for type checkers alone
    RpcHandler = grpc.GenericRpcHandler


class HttpHandler(BaseHTTPRequestHandler):
    """Keeps what came, and answers as the receiver is told to."""

    protocol_version = "HTTP/1.1"
    server: "HttpReceiver"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, dict(self.headers.items()), body))
        self.server.peers.append(self.client_address[1])
        self.server.answer(self)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


class HttpReceiver(ThreadingHTTPServer):
    """An OTLP/HTTP receiver; `answer` may be replaced, and `closed` connections are counted."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), HttpHandler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server_port
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.peers: list[int] = []
        self.closed = 0
        self.answer: HttpAnswer = lambda handler: handler.reply(200, b"\x0a\x00")
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed += 1

    def handle_error(self, request: object, client_address: object) -> None: ...

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class GrpcReceiver(RpcHandler):
    """An OTLP receiver: keeps the raw requests that it took and their metadata; `answer` may be replaced."""

    def __init__(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self.requests: list[bytes] = []
        self.metadata: list[dict[str, str]] = []
        self.answer: GrpcAnswer = lambda request, context: b"\x0a\x00"
        self._server = grpc.server(
            futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 4 << 20)]
        )
        self._server.add_generic_rpc_handlers((self,))
        address = f"127.0.0.1:{port}"
        secure = self._server.add_secure_port
        self.port = secure(address, credentials) if credentials else self._server.add_insecure_port(address)
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return grpc.unary_unary_rpc_method_handler(self._export) if details.method == EXPORT_METHOD else None

    def _export(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
        response = self.answer(request, context)
        self.requests.append(request)
        return response

    def stop(self) -> None:
        self._server.stop(grace=None).wait(PATIENCE_S)
