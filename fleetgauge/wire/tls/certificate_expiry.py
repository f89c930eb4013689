"""When certificates expire; Python's ssl does not tell it of the own ones."""

import datetime
import re
import ssl
from typing import Final

from fleetgauge.wire.tls.distinguished_name import CertificateError, der_values

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION_TAG: Final = 0xA0
_VALIDITY: Final = 3  # behind serial number, signature algorithm, issuer
_UTC_TIME: Final = 0x17


def earliest_expiry(pem: str) -> int | None:
    """When the first of the certificates in a PEM text expires [s since the epoch]; None without certificates.

    Raises:
        CertificateError: one of them cannot be parsed.
    """
    expiries = [expiry_of(ssl.PEM_cert_to_DER_cert(each)) for each in _CERTIFICATE.findall(pem)]
    return min(expiries, default=None)


def expiry_of(certificate: bytes) -> int:
    """The `notAfter` of a DER certificate [s since the epoch].

    Source: RFC 5280, section 4.1.2.5: UTCTime with two digits of the year, 1950 to 2049, or GeneralizedTime.

    Raises:
        CertificateError: it cannot be parsed.
    """
    try:
        _, signed = next(der_values(next(der_values(certificate))[1]))
        validity = [item for item in der_values(signed) if item[0] != _VERSION_TAG][_VALIDITY][1]
        tag, text = list(der_values(validity))[1]
        written = text.decode("ascii")
        if tag == _UTC_TIME:
            written = ("19" if written >= "5" else "20") + written
        moment = datetime.datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)
    except (IndexError, ValueError, StopIteration) as error:
        raise CertificateError(f"the certificate cannot be parsed: {error}") from error
    return int(moment.timestamp())
