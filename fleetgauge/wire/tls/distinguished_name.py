"""The subject of a certificate in the form of Java's `X500Principal.getName()`, which follows RFC 2253.

Quotas, ACLs and mapping rules contain principals in this form, so it equals the output of
`sun.security.x509.AVA.toRFC2253String` (JDK 17) byte for byte; a test compares it with the JDK. OpenSSL has verified
the certificate before; its DER is parsed only up to the end of the subject.
"""

import re
from collections.abc import Iterator
from typing import Final

from fleetgauge.base.errors import FleetgaugeError

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE: Final = 0x30
_OID: Final = 0x06
_VERSION_TAG: Final = 0xA0
_FIELDS_BEFORE_SUBJECT: Final = 4  # serial number, signature algorithm, issuer, validity
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8, Printable, T61, IA5, General and BMP strings, which Java writes as text."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_OUTER_SPACE = re.compile(r"\A[ \r]+|[ \r]+\Z")


class CertificateError(FleetgaugeError):
    """The bytes are not an X.509 certificate."""


def subject_of(certificate: bytes) -> str:
    """The subject of a DER certificate; empty where it has none.

    Raises:
        CertificateError: it cannot be parsed.
    """
    try:
        return _name_text(_subject(certificate))
    except (IndexError, ValueError, StopIteration) as error:
        raise CertificateError(f"the certificate cannot be parsed: {error}") from error


def _subject(certificate: bytes) -> bytes:
    _, signed = next(der_values(next(der_values(certificate))[1]))
    fields = [item for item in der_values(signed) if item[0] != _VERSION_TAG]
    tag, content = fields[_FIELDS_BEFORE_SUBJECT]
    if tag != _SEQUENCE:
        raise ValueError("the subject is not a sequence")
    return content


def der_values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each DER value in `data`."""
    position = 0
    while position < len(data):
        tag, content, position = der_value(data, position)
        yield tag, content


def der_value(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag and content of the DER value at a position, and the position behind it."""
    tag, length = data[position], data[position + 1]
    start = position + 2
    if length >= 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[start : start + size])
        start += size
    if start + length > len(data):
        raise ValueError("a length beyond the end")
    return tag, data[start : start + length], start + length


def _name_text(name: bytes) -> str:
    """The last part first (RFC 2253, section 2.1)."""
    parts = ["+".join(_attribute_text(attribute) for _, attribute in der_values(part)) for _, part in der_values(name)]
    return ",".join(reversed(parts))


def _attribute_text(attribute: bytes) -> str:
    oid_tag, oid, position = der_value(attribute, 0)
    if oid_tag != _OID:
        raise ValueError("an attribute without its type")
    tag, content, _ = der_value(attribute, position)
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRING_TAGS:
        return f"{keyword or dotted}=#{attribute[position:].hex()}"
    return f"{keyword}={_escaped(content.decode(errors='replace'))}"


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(text: str) -> str:
    marked = "".join("\\" + character if character in _ESCAPED else character for character in text)
    marked = marked.replace("\0", "\\00")
    return _OUTER_SPACE.sub(lambda space: "".join("\\" + each for each in space[0]), marked)
