"""PEM files for TLS connections to a receiver, with errors that name the file and the fault."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.exchange import client_context

if TYPE_CHECKING:
    import grpc

CA_FILE: Final = "tls.ca.file"
CERT_FILE: Final = "tls.cert.file"
KEY_FILE: Final = "tls.key.file"

_NO_CERTIFICATE: Final = "holds no certificate in PEM form"


class TlsFilesError(FleetgaugeError):
    """A TLS file cannot be used.

    Attributes:
        key: the key of `[exporters.<name>]` that names it.
        path: the file.
        problem: the fault.
    """

    def __init__(self, key: str, path: Path, problem: str) -> None:
        super().__init__(key, path, problem)
        self.key = key
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.key} {self.path} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files for `https`, read for each connection, so that a renewed certificate is used with the next one.

    Attributes:
        ca_file: trusted authorities; None is the system's.
        cert_file: the client certificate chain, for mutual TLS; None where `key_file` is.
        key_file: its private key, without a password.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context for HTTP.

        Raises:
            TlsFilesError: a file cannot be read, or has other content.
        """
        if self.ca_file is None:
            context = client_context()
        else:
            with _named(CA_FILE, self.ca_file, _NO_CERTIFICATE):
                context = client_context(self.ca_file)
        self._load_own(context)
        return context

    def credentials(self) -> "grpc.ChannelCredentials":
        """The credentials for gRPC, whose own errors do not tell what is wrong with a file.

        Raises:
            TlsFilesError: as for `context`.
        """
        import grpc  # not for OTLP over HTTP, which has TLS files, too

        lenient = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        lenient.set_ciphers("ALL:@SECLEVEL=0")  # only the format is checked here, not the strength of keys
        if self.ca_file is not None:
            _load_certificates(lenient, CA_FILE, self.ca_file)
        self._load_own(lenient)
        return grpc.ssl_channel_credentials(
            _read(CA_FILE, self.ca_file), _read(KEY_FILE, self.key_file), _read(CERT_FILE, self.cert_file)
        )

    def _load_own(self, context: ssl.SSLContext) -> None:
        if self.cert_file is None or self.key_file is None:
            return
        _load_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), CERT_FILE, self.cert_file)
        with _named(KEY_FILE, self.key_file, f"holds no private key for {CERT_FILE} in PEM form without a password"):
            context.load_cert_chain(self.cert_file, self.key_file, _no_password)


def _load_certificates(context: ssl.SSLContext, key: str, path: Path) -> None:
    with _named(key, path, _NO_CERTIFICATE):
        context.load_verify_locations(path)


@contextmanager
def _named(key: str, path: Path, problem: str) -> Iterator[None]:
    """Translates OpenSSL's errors, which name no file, to errors of this file."""
    try:
        yield
    except ssl.SSLError as error:
        reason = f" (OpenSSL: {error.reason})" if error.reason else ""
        raise TlsFilesError(key, path, problem + reason) from error
    except OSError as error:
        raise TlsFilesError(key, path, f"cannot be read: {error.strerror}") from error


def _no_password() -> bytes:
    """Prevents OpenSSL from asking for a password on the terminal."""
    return b""


def _read(key: str, path: Path | None) -> bytes | None:
    if path is None:
        return None
    with _named(key, path, ""):
        return path.read_bytes()
