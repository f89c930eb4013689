"""The TLS of a listener: cipher suites, revocation lists, and when certificates expire; handshakes in memory."""

import datetime
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from support.certificates import Authority, Certificate, openssl

from fleetgauge.wire.tls.certificate_expiry import earliest_expiry
from fleetgauge.wire.tls.server import ClientAuth, TlsConfigError, TlsSettings, expires_at, make_server_context

DAY_S = 86_400


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.issue("server", "/CN=localhost", days=10)


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.issue("client", "/CN=client")


def settings(server: Certificate, **more: object) -> TlsSettings:
    return TlsSettings(keystore_location=str(server.keystore), **more)  # type: ignore[arg-type]


def shaken(settings: TlsSettings, authority: Authority, *, version: str = "", client: Certificate | None = None) -> str:
    """The cipher suite that a client of ours gets; raises ssl.SSLError if the server refuses it."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(back, there, server_hostname="localhost")
    theirs = make_server_context(settings).wrap_bio(there, back, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (ours, theirs):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
        if len(done) == 2:
            cipher = theirs.cipher()
            assert cipher is not None
            return cipher[0]
    raise AssertionError("the handshake does not end")


@pytest.mark.parametrize(
    ("names", "versions", "version", "found"),
    [
        (("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), ("TLSv1.2",), "", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (("ECDHE-ECDSA-AES256-GCM-SHA384",), ("TLSv1.2", "TLSv1.3"), "TLSv1_2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (
            ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
            ("TLSv1.2",),
            "",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), ("TLSv1.2", "TLSv1.3"), "TLSv1_3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_only_these_suites_are_offered(
    authority: Authority,
    server: Certificate,
    names: tuple[str, ...],
    versions: tuple[str, ...],
    version: str,
    found: str,
) -> None:
    chosen = settings(server, cipher_suites=names, versions=versions)
    assert shaken(chosen, authority, version=version) == found
    older = [each["name"] for each in make_server_context(chosen).get_ciphers() if not each["name"].startswith("TLS_")]
    assert len(older) == 1


def test_the_three_suites_of_tls_1_3_alone_disable_tls_1_2(authority: Authority, server: Certificate) -> None:
    three = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
    chosen = settings(server, cipher_suites=three)
    assert shaken(chosen, authority).startswith("TLS_")
    with pytest.raises(ssl.SSLError):
        shaken(chosen, authority, version="TLSv1_2")


@pytest.mark.parametrize(
    ("names", "versions", "problem"),
    [
        (("TLS_AES_128_GCM_SHA256",), ("TLSv1.2", "TLSv1.3"), "cannot choose among the suites of TLS 1.3"),
        (("TLS_AES_128_GCM_SHA256",), ("TLSv1.2",), "names only suites of TLS 1.3"),
        (("TLS_RSA_WITH_NULL_OF_OURS",), ("TLSv1.2",), "is not a cipher suite of this OpenSSL"),
        (("ECDHE-RSA-AES128-GCM-SHA256:ALL",), ("TLSv1.2",), "is not a cipher suite"),
        (("ECDHE-RSA-AES128-GCM-SHA256", "@SECLEVEL=0"), ("TLSv1.2",), "is not a cipher suite"),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    server: Certificate, names: tuple[str, ...], versions: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(TlsConfigError, match=problem):
        make_server_context(settings(server, cipher_suites=names, versions=versions))


def crl(authority: Authority, path: Path, *revoked: Certificate, days: int = 5) -> str:
    """A revocation list of the authority, in a file."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    key = load_pem_private_key((authority.directory / "ca.key").read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(now - datetime.timedelta(days=9)).next_update(now + datetime.timedelta(days=days))
    for each in revoked:
        number = x509.load_pem_x509_certificate(each.certificate.read_bytes()).serial_number
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
        )
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))  # type: ignore[arg-type]
    return str(path)


def test_a_revoked_client_certificate_is_refused_and_others_are_not(
    authority: Authority, server: Certificate, client: Certificate, tmp_path: Path
) -> None:
    revoked = authority.issue("revoked", "/CN=revoked")
    checked = settings(
        server,
        client_auth=ClientAuth.REQUIRED,
        truststore_location=str(authority.certificate),
        crl_location=crl(authority, tmp_path / "crl.pem", revoked),
    )
    assert shaken(checked, authority, client=client)
    with pytest.raises(ssl.SSLError, match=r"(?i)revoked"):
        shaken(checked, authority, client=revoked)
    crl(authority, tmp_path / "crl.pem", days=-1)
    with pytest.raises(ssl.SSLError, match=r"(?i)crl has expired"):
        shaken(checked, authority, client=client)


def bad_lists(authority: Authority, path: Path) -> Iterator[tuple[Path, ClientAuth, str]]:
    yield path / "missing.pem", ClientAuth.REQUIRED, "cannot read"
    (path / "empty.pem").write_text("")
    yield path / "empty.pem", ClientAuth.REQUIRED, "no revocation list"
    yield authority.certificate, ClientAuth.REQUIRED, "no revocation list"
    both = path / "both.pem"
    crl(authority, both)
    both.write_bytes(both.read_bytes() + authority.certificate.read_bytes())
    yield both, ClientAuth.REQUIRED, "holds certificates too"
    yield both, ClientAuth.NONE, "no effect without client certificates"


def test_a_file_that_is_no_list_is_refused(authority: Authority, server: Certificate, tmp_path: Path) -> None:
    for path, auth, problem in bad_lists(authority, tmp_path):
        chosen = settings(
            server, client_auth=auth, truststore_location=str(authority.certificate), crl_location=str(path)
        )
        with pytest.raises(TlsConfigError, match=problem):
            make_server_context(chosen)


def test_the_first_certificate_of_a_chain_to_expire_counts(authority: Authority, server: Certificate) -> None:
    found = expires_at(settings(server))
    assert found is not None
    assert abs(found - time.time() - 10 * DAY_S) < 600  # the authority's lasts 30 days
    text = server.certificate.read_text()
    assert earliest_expiry(text) == found
    end = openssl("x509", "-in", str(server.certificate), "-noout", "-enddate", directory=authority.directory)
    assert ssl.cert_time_to_seconds(end.strip().removeprefix("notAfter=")) == found
    assert earliest_expiry("no certificate") is None
    assert expires_at(TlsSettings(keystore_location="/nowhere")) is None


def test_a_certificate_beyond_2049_is_read(authority: Authority) -> None:
    late = authority.issue("late", "/CN=late", days=20_000)
    found = earliest_expiry(late.certificate.read_text())
    assert found is not None
    assert abs(found - time.time() - 20_000 * DAY_S) < 600


def test_a_certificate_without_a_readable_end_is_served_all_the_same(server: Certificate, tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(server.certificate.read_text())
    _, end = re.finditer(rb"\x17\x0d\d{12}Z", der)
    unreadable = der[: end.start() + 2] + b"2613410000+01" + der[end.end() :]  # of the same length
    keystore = tmp_path / "unreadable.pem"
    keystore.write_text(server.key.read_text() + ssl.DER_cert_to_PEM_cert(unreadable))
    chosen = TlsSettings(keystore_location=str(keystore))
    make_server_context(chosen)
    assert expires_at(chosen) is None
