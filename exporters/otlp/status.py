"""What a receiver's answer means for a batch of OTLP, over gRPC (`grpc_status`) or HTTP (`http_status`): success, and
faults of TLS.

Source: OTLP specification, "Failures".
"""

from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from exporters.exporter import Delivered, Retry
from exporters.protobuf_wire import fields

MAX_SERVER_DELAY_MS: Final = 300_000
"""A longer wait that a server asks for is cut to this [ms]."""

MAX_MESSAGE: Final = 500
"""Characters that are kept of what an answer says."""

BEGIN_WITH_HTTPS: Final = "the receiver wants TLS: check whether the endpoint should begin with https://"

_TLS_FAULTS: Final = (
    (
        ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed", "is not in peer certificate"),
        "the receiver's certificate is not trusted, or not for this host: check tls.ca.file and the endpoint",
    ),
    (
        ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"),
        "the receiver speaks no TLS: check whether the endpoint should begin with http://",
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
"""Words of OpenSSL, BoringSSL and HTTP servers, and what an operator makes of them."""

_CLOSED_AT_ONCE: Final = {
    True: "a receiver that wants another client certificate closes connections so: check tls.cert.file, tls.key.file",
    False: "a receiver that wants TLS closes connections so: check whether the endpoint should begin with https://",
}
"""By whether we speak TLS."""


def closed_at_once(text: str, *, tls: bool) -> str:
    """What is said where the other side ended a connection before it was of use, with what to check."""
    return f"{text} ({_CLOSED_AT_ONCE[tls]})"


def tls_fault(text: str) -> Retry | None:
    """What to check, where a connection failed for its TLS; None where `text` speaks of something else."""
    upper = text.upper()
    for words, advice in _TLS_FAULTS:
        if any(word.upper() in upper for word in words):
            return Retry(reason="tls", detail=f"{advice} ({text})")
    return None


def success(response: bytes) -> Delivered:
    """The outcome of a call that ended with OK; `response` is an encoded ExportMetricsServiceResponse.

    A `partial_success` that is there and empty is the collector's plain success. A response that cannot be read is
    taken for one too: the status has said that the request was.
    """
    try:
        partial = ExportMetricsServiceResponse.FromString(response).partial_success
    except DecodeError:
        return Delivered(detail="the destination took the batch and answered with unreadable bytes")
    return Delivered(rejected=max(0, partial.rejected_data_points), detail=partial.error_message[:MAX_MESSAGE])


def contents(message: bytes, number: int) -> list[bytes]:
    """The length-delimited fields of this number."""
    return [message[f.value : f.end] for f in fields(message, 0, len(message)) if f.tag == number << 3 | 2]
