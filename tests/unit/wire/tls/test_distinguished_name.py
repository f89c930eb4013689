"""Subjects in the form of Java's X500Principal; `tests/integration/security` holds it against the JDK itself."""

import pytest

from fleetgauge.wire.tls.distinguished_name import CertificateError, subject_of


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2)
    return bytes([tag]) + length + content


CN, OU, ORG, EMAIL = "550403", "55040b", "55040a", "2a864886f70d010901"


def attribute(oid: str, text: str | bytes, tag: int = 0x0C) -> bytes:
    content = text if isinstance(text, bytes) else text.encode()
    return der(0x30, der(0x06, bytes.fromhex(oid)), der(tag, content))


def certificate(*relative_names: bytes, version: bool = True) -> bytes:
    name = der(0x30, *relative_names)
    before = (der(0x02, b"\1"), der(0x30), der(0x30), der(0x30))
    signed = der(0x30, *((der(0xA0, der(0x02, b"\2")),) if version else ()), *before, name, der(0x30))
    return der(0x30, signed, der(0x30), der(0x03, b"\0"))


@pytest.mark.parametrize("version", [True, False])
def test_the_last_part_of_the_name_comes_first(version: bool) -> None:
    cert = certificate(
        der(0x31, attribute(ORG, "Example")), der(0x31, attribute(OU, "a"), attribute(CN, "b")), version=version
    )
    assert subject_of(cert) == "OU=a+CN=b,O=Example"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a,b=c+d", r"CN=a\,b\=c\+d"),
        ('q"<>;#\\', r"CN=q\"\<\>\;\#\\"),
        ("  lead and trail ", r"CN=\ \ lead and trail\ "),
        (" ", r"CN=\ "),
        ("Müller", "CN=Müller"),
        ("nul\0", r"CN=nul\00"),
        ("", "CN="),
        ("x" * 300, "CN=" + "x" * 300),
    ],
)
def test_values_are_escaped_as_in_java(text: str, written: str) -> None:
    assert subject_of(certificate(der(0x31, attribute(CN, text)))) == written


def test_attributes_beyond_rfc_2253_are_numbers_and_hexadecimal() -> None:
    cert = certificate(der(0x31, attribute(EMAIL, "a@b", tag=0x16)))
    assert subject_of(cert) == "1.2.840.113549.1.9.1=#1603614062"
    assert subject_of(certificate(der(0x31, attribute(CN, b"\x05", tag=0x02)))) == "CN=#020105"


def test_a_certificate_without_a_subject_has_an_empty_name() -> None:
    assert subject_of(certificate()) == ""


def test_what_is_no_certificate_is_an_error_and_nothing_else() -> None:
    whole = certificate(der(0x31, attribute(CN, "somebody")))
    for cut in range(len(whole)):
        with pytest.raises(CertificateError):
            subject_of(whole[:cut])
