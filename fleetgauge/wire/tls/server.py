"""TLS of a listener: makes an `ssl.SSLContext` from Kafka's `ssl.*` keys. `wire.tls.distinguished_name` reads client
certificates.
"""

import enum
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetgauge.base.errors import ConfigError
from fleetgauge.wire.tls.certificate_expiry import earliest_expiry
from fleetgauge.wire.tls.distinguished_name import CertificateError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_VERSIONS: Final = tuple(_VERSIONS)
"""Values of `ssl.enabled.protocols`; older versions are broken, and disabled in Kafka too (KIP-553)."""


class TlsConfigError(ConfigError):
    """A certificate or key cannot be used."""


class ClientAuth(enum.StrEnum):
    """Client certificates (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Kafka's `ssl.*` keys of one listener; an empty text means that a key is not set.

    Attributes:
        keystore_location: a PEM file with the private key and the certificate chain.
        certificate_chain, key: the same as PEM text, instead of the file.
        key_password: of an encrypted private key.
        truststore_location, truststore_certificates: CA certificates of client certificates, as a file or text.
        client_auth: see `ClientAuth`.
        versions: names out of `TLS_VERSIONS`.
        cipher_suites: names of IANA or OpenSSL, see `_choose_ciphers`; empty is Python's choice.
        crl_location: a PEM file with revocation lists for client certificates.
    """

    keystore_location: str = ""
    certificate_chain: str = ""
    key: str = ""
    key_password: str = ""
    truststore_location: str = ""
    truststore_certificates: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = TLS_VERSIONS
    cipher_suites: tuple[str, ...] = ()
    crl_location: str = ""


def make_server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Reads certificates and keys again; open connections keep the ones that they started with.

    Raises:
        TlsConfigError: a file or key is missing, unreadable, or does not match another one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.cipher_suites:
        _choose_ciphers(context, settings)
    # A client must not repeat the expensive part of a handshake on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _load_identity(context, settings)
    _load_trust(context, settings)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    return context


def expires_at(settings: TlsSettings) -> int | None:
    """When the first certificate of the keystore expires [s since the epoch]; None if none can be read."""
    text = settings.certificate_chain
    with suppress(OSError, ValueError, CertificateError):  # OpenSSL loads one without parsing its times
        if settings.keystore_location:
            text = Path(settings.keystore_location).read_text(errors="replace")
        return earliest_expiry(text)
    return None


_TLS13_SUITES: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})


def openssl_cipher(name: str) -> str:
    """OpenSSL's name of a TLS 1.2 cipher suite, which Kafka's files call by IANA's name.

    >>> openssl_cipher("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), openssl_cipher("TLS_RSA_WITH_AES_256_CBC_SHA")
    ('ECDHE-RSA-AES128-GCM-SHA256', 'AES256-SHA')
    >>> openssl_cipher("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"), openssl_cipher("ECDHE-RSA-AES256-SHA384")
    ('ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-AES256-SHA384')
    """
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _choose_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Allows these TLS 1.2 suites alone. Python's ssl offers all three suites of TLS 1.3 or none."""
    key = "ssl.cipher.suites"
    newest = _TLS13_SUITES & set(settings.cipher_suites)
    if newest and newest != _TLS13_SUITES and "TLSv1.3" in settings.versions:
        raise TlsConfigError(
            key,
            f"names {', '.join(sorted(newest))} only, but Python's ssl cannot choose among the suites of TLS 1.3: "
            f"name all of {', '.join(sorted(_TLS13_SUITES))}, or leave TLSv1.3 out of ssl.enabled.protocols",
        )
    older = [name for name in settings.cipher_suites if name not in _TLS13_SUITES]
    if not older:
        if "TLSv1.3" not in settings.versions:
            raise TlsConfigError(key, "names only suites of TLS 1.3, but ssl.enabled.protocols has no TLSv1.3")
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    for name in older:
        # One by one, since OpenSSL ignores what it does not know beside what it knows.
        try:
            if not re.fullmatch(r"[A-Z0-9_-]+", name):
                raise ssl.SSLError
            context.set_ciphers(openssl_cipher(name))
        except ssl.SSLError as error:
            raise TlsConfigError(
                key,
                f"{name!r} is not a cipher suite of this OpenSSL; for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            ) from error
    context.set_ciphers(":".join(map(openssl_cipher, older)))


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.keystore_location:
        if settings.key or settings.certificate_chain:
            raise TlsConfigError(
                "ssl.keystore.location",
                "is set beside ssl.keystore.key or ssl.keystore.certificate.chain: use only one of them",
            )
        _load_chain(context, "ssl.keystore.location", settings.keystore_location, settings.key_password)
    elif settings.key and settings.certificate_chain:
        pem = f"{settings.key}\n{settings.certificate_chain}\n"
        with _private_file(pem) as path:
            _load_chain(context, "ssl.keystore.key", path, settings.key_password)
    else:
        raise TlsConfigError(
            "ssl.keystore.location",
            "a listener with TLS needs a PEM file with its private key and certificate chain; or "
            "ssl.keystore.key and ssl.keystore.certificate.chain with the same as text",
        )


def _load_chain(context: ssl.SSLContext, key: str, path: str, password: str) -> None:
    _refuse_other_stores(key, path)
    try:
        # A password is always passed, since OpenSSL would otherwise prompt for it on the terminal.
        context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise TlsConfigError(key, _identity_problem(error, path, has_password=bool(password))) from error
    except (OSError, ValueError) as error:
        raise TlsConfigError(key, f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _identity_problem(error: ssl.SSLError, path: str, *, has_password: bool) -> str:
    reason = error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"the private key in {path} belongs to another certificate; the node's own certificate comes first"
    # OpenSSL reports a wrong password in many ways, so the file's content decides.
    if b"ENCRYPTED" in Path(path).read_bytes():
        hint = "ssl.key.password does not open it" if has_password else "it is encrypted: set ssl.key.password"
        return f"the private key in {path} cannot be read: {hint}"
    return f"{path} must hold a private key and its certificate in PEM form ({reason or error})"


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    location, text = settings.truststore_location, settings.truststore_certificates
    if settings.crl_location:
        _load_crls(context, settings)
    if location and text:
        raise TlsConfigError(
            "ssl.truststore.location", "is set beside ssl.truststore.certificates: use only one of them"
        )
    if not location and not text:
        if settings.client_auth is not ClientAuth.NONE:
            raise TlsConfigError(
                "ssl.truststore.location",
                f"ssl.client.auth={settings.client_auth} needs the CA certificates of client certificates",
            )
        return
    key = "ssl.truststore.location" if location else "ssl.truststore.certificates"
    if location:
        _refuse_other_stores(key, location)
    try:
        context.load_verify_locations(cafile=location or None, cadata=text or None)
    except ssl.SSLError as error:
        raise TlsConfigError(key, f"{location or 'the text'} holds no certificates in PEM form ({error})") from error
    except (OSError, ValueError) as error:
        raise TlsConfigError(key, f"cannot read {location}: {getattr(error, 'strerror', None) or error}") from error


def _load_crls(context: ssl.SSLContext, settings: TlsSettings) -> None:
    key, path = "ssl.crl.location", settings.crl_location
    if settings.client_auth is ClientAuth.NONE:
        raise TlsConfigError(
            key, "has no effect without client certificates: set ssl.client.auth=required or requested"
        )
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise TlsConfigError(key, f"{path} holds no revocation list in PEM form ({error.reason or error})") from error
    except (OSError, ValueError) as error:
        raise TlsConfigError(key, f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    stats = context.cert_store_stats()
    if not stats["crl"]:
        raise TlsConfigError(key, f"{path} holds no revocation list (BEGIN X509 CRL)")
    if stats["x509"]:  # nothing else is loaded yet; it would be trusted
        raise TlsConfigError(key, f"{path} holds certificates too; those belong to ssl.truststore.location")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


_JKS: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"


def _refuse_other_stores(key: str, path: str) -> None:
    """Raises an error with the remedy if a file is a Java keystore, a PKCS12 store or a bare DER certificate."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(4)
    except (OSError, ValueError):
        return  # the caller reports it
    if first == _JKS:
        raise TlsConfigError(key, f"{path} is a Java keystore (JKS). {HOW_TO_CONVERT}")
    if first.startswith(_DER):
        raise TlsConfigError(key, f"{path} is a PKCS12 store or another DER file. {HOW_TO_CONVERT}")


HOW_TO_CONVERT: Final = (
    "Only PEM is supported: convert a JKS store with keytool -importkeystore -srckeystore STORE -destkeystore "
    "STORE.p12 -deststoretype PKCS12, and a PKCS12 store with openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem"
)


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """A temporary file that only this user can read, since Python's ssl loads keys only from files."""
    descriptor, path = tempfile.mkstemp(prefix="fleetgauge-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        Path(path).unlink()
