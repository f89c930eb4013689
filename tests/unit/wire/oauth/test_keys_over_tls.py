"""Keys of a token issuer are taken over TLS from the host that the configuration names, and from no other."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest
from support.certificates import Authority, Certificate
from support.tokens import Issuer, jwks

from fleetgauge.wire.oauth.jwks import _load

KEYS = jwks(Issuer(algorithm="ES256"))


class Keys(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(KEYS)))
        self.end_headers()
        self.wfile.write(KEYS)

    def log_message(self, *_: object) -> None:
        pass


class Endpoint(HTTPServer):
    """Serves the keys over TLS, each connection in turn."""

    def __init__(self, certificate: Certificate) -> None:
        super().__init__(("127.0.0.1", 0), Keys)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate, certificate.key)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        connection, address = self.socket.accept()
        with connection:
            return self._context.wrap_socket(connection, server_side=True), address

    def read(self) -> bytes:
        return _load(f"https://127.0.0.1:{self.server_port}/keys")

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture(params=[True, False], ids=["strict", "by-default"])
def authority(request: pytest.FixtureRequest, tmp_path: Path) -> Authority:
    return Authority(tmp_path, is_strict=request.param)


def test_keys_come_from_a_host_whose_certificate_is_trusted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with Endpoint(authority.issue("keys", "/CN=keys")) as endpoint:
        assert endpoint.read() == KEYS


def test_none_come_from_a_host_of_an_unknown_authority(authority: Authority) -> None:
    with Endpoint(authority.issue("keys", "/CN=keys")) as endpoint, pytest.raises(URLError, match="verify failed"):
        endpoint.read()


def test_none_come_from_a_host_with_the_certificate_of_another(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    other = authority.issue("other", "/CN=other", names="DNS:elsewhere.example.com")
    with Endpoint(other) as endpoint, pytest.raises(URLError, match="verify failed"):
        endpoint.read()
