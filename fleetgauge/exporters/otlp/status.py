"""Turns an OTLP receiver's answer into an outcome: success and TLS faults here, gRPC in `grpc_status`, HTTP in
`http_status`.

Source: OTLP specification, "Failures".
"""

from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.protobuf_wire import fields

MAX_SERVER_DELAY_MS: Final = 300_000
"""Maximum wait that a server can request [ms]."""

MAX_MESSAGE: Final = 500
"""Maximum length of an answer's text [characters]."""

BEGIN_WITH_HTTPS: Final = "the receiver requires TLS: check whether the endpoint should begin with https://"

_TLS_FAULTS: Final = (
    (
        ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed", "is not in peer certificate"),
        "the receiver's certificate is not trusted, or not for this host: check tls.ca.file and the endpoint",
    ),
    (
        ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"),
        "the receiver has no TLS: check whether the endpoint should begin with http://",
    ),
    (
        ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_CERTIFICATE", "HANDSHAKE_FAILURE"),
        "the receiver does not accept our certificate: check tls.cert.file and tls.key.file",
    ),
    (
        ("HTTP request to an HTTPS server", "plain HTTP request was sent to HTTPS port"),
        BEGIN_WITH_HTTPS,
    ),
)
"""Texts of OpenSSL, BoringSSL and HTTP servers, and the advice for operators."""

_PROTOCOL_FAULTS: Final = (
    (
        ("Trying to connect an http1.x server", "Expected SETTINGS frame"),
        'the receiver does not speak gRPC there: set protocol = "http/protobuf", or use its gRPC port (usually 4317)',
    ),
    (
        ("\0\0\x06\x04", "\0\0\x12\x04", "\0\0\0\x04"),
        'the receiver speaks gRPC there: set protocol = "grpc", or use its HTTP port (usually 4318)',
    ),
)
"""Texts of a call by OTLP's other protocol, and the advice; the second are beginnings of HTTP/2's first frame."""

_CLOSED_AT_ONCE: Final = {
    True: "a receiver that needs another client certificate closes connections so: check tls.cert.file, tls.key.file",
    False: "a receiver that requires TLS, or does not speak this protocol, closes connections so: check protocol, the "
    "port, and whether the endpoint should begin with https://",
}
"""Transport by whether the connection uses TLS."""


def closed_at_once(text: str, *, tls: bool) -> str:
    """The detail for a connection that the receiver closed before any use, with what to check."""
    return f"{text} ({_CLOSED_AT_ONCE[tls]})"


def tls_fault(text: str) -> Retry | None:
    """`Retry` with what to check if `text` reports a TLS fault; else None."""
    upper = text.upper()
    for signs, advice in _TLS_FAULTS:
        if any(sign.upper() in upper for sign in signs):
            return Retry(reason="tls", detail=f"{advice} ({text})")
    return None


def protocol_fault(text: str) -> Retry | None:
    """`Retry` with what to set if `text` reports a receiver of OTLP's other protocol; else None."""
    for signs, advice in _PROTOCOL_FAULTS:
        if any(sign in text for sign in signs):
            return Retry(reason="unavailable", detail=advice)
    return None


def success(response: bytes) -> Delivered:
    """The outcome of a call that ended with OK; `response` is an encoded ExportMetricsServiceResponse.

    An empty `partial_success` is the collector's normal success. A response that cannot be decoded also counts as one,
    because the status was OK.
    """
    try:
        partial = ExportMetricsServiceResponse.FromString(response).partial_success
    except DecodeError:
        return Delivered(detail="the destination accepted the batch, but its response cannot be decoded")
    return Delivered(rejected=max(0, partial.rejected_data_points), detail=partial.error_message[:MAX_MESSAGE])


def contents(message: bytes, number: int) -> list[bytes]:
    """The contents of the length-delimited fields with this number."""
    return [message[f.value : f.end] for f in fields(message, 0, len(message)) if f.tag == number << 3 | 2]
