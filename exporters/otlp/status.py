"""What a receiver's answer means for a batch of OTLP: gRPC and HTTP statuses, and faults of TLS.

Source: OTLP specification, "Failures", "OTLP/gRPC Throttling", "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

import http
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from urllib3.exceptions import HTTPError
from urllib3.util import Retry as Retries

from exporters.exporter import Delivered, Outcome, Refused, Retry, TooLarge
from exporters.protobuf_wire import MalformedPayloadError, fields, read_varint

MAX_SERVER_DELAY_MS: Final = 300_000
"""A longer wait that a server asks for is cut to this [ms]."""

_MAX_MESSAGE: Final = 500
"""Characters that are kept of what an answer says."""

_SECONDS: Final = 0x08
_NANOS: Final = 0x10

_RETRYABLE: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""As the OTLP specification lists them."""

_MISCONFIGURED: Final = {
    grpc.StatusCode.UNAUTHENTICATED: "check the exporter's headers or client certificate",
    grpc.StatusCode.PERMISSION_DENIED: "check the exporter's headers or client certificate",
    grpc.StatusCode.UNIMPLEMENTED: "check that the endpoint is an OTLP/gRPC receiver and takes this compression",
}
"""Permanent by the specification, whose client has no log to wait in. They say nothing against the pushes: an expired
token must not cost the whole log, so they wait for the operator."""

_IN_DOUBT: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""A payload that cannot be read gets them, and any fault of the receiver's own that it has no other word for."""

_HTTP_RETRYABLE: Final = frozenset({408, 429, 502, 503, 504})
"""As the OTLP specification lists them, and 408, which says of itself that the request may be repeated (RFC 9110)."""

_HTTP_MISCONFIGURED: Final = {
    401: "check the exporter's headers or client certificate",
    403: "check the exporter's headers or client certificate",
    404: "check the endpoint's path",
    405: "check the endpoint: it takes no POST",
    407: "a proxy stands in between and wants credentials",
    415: "check that the endpoint takes protobuf and this compression",
    421: "check the endpoint's host name",
}
"""As `_MISCONFIGURED`; so are all statuses that are no errors: redirects are not followed."""

_BEGIN_WITH_HTTPS: Final = "the receiver wants TLS: check whether the endpoint should begin with https://"

_WANTS_TLS: Final = re.compile(
    r"Client sent an HTTP request to an HTTPS server\.$"
    r"|<html>\s*<head>\s*<title>400 The plain HTTP request was sent to HTTPS port</title>"
)
"""What Go and nginx answer, with status 400, to HTTP where they want TLS: the whole answer or its beginning, since a
receiver may quote a client's name in an answer of its own."""

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
        _BEGIN_WITH_HTTPS,
    ),
)
"""Words of OpenSSL, BoringSSL and HTTP servers, and what an operator makes of them."""

_CLOSED_AT_ONCE: Final = {
    True: "a receiver that wants another client certificate closes connections so: check tls.cert.file, tls.key.file",
    False: "a receiver that wants TLS closes connections so: check whether the endpoint should begin with https://",
}
"""By whether we speak TLS."""

_CLOSED_WORDS: Final = ("Socket closed", "Unwrap failed", "Handshake read failed")
"""Of gRPC, where the other side ends a connection in or right after its handshake."""

_Metadata = Iterable[tuple[str, str | bytes]]


def failure(code: grpc.StatusCode, details: str, trailers: _Metadata, *, tls: bool = False) -> Outcome:
    """The outcome of a call that ended with a status other than OK; `tls` says whether the call was to go over TLS."""
    reason = str(code.value[1]).replace(" ", "_")
    after_ms = _retry_delay_ms(trailers)
    if code is grpc.StatusCode.UNAVAILABLE:
        if not_connected(code, details) and any(word in details for word in _CLOSED_WORDS):
            return Retry(reason=reason, detail=closed_at_once(details, tls=tls))
        if (fault := tls_fault(details)) is not None:
            return fault
    if code in _RETRYABLE:
        return Retry(reason=reason, detail=details, after_ms=after_ms)
    if code in _MISCONFIGURED:
        return Retry(reason=reason, detail=f"{details} ({_MISCONFIGURED[code]})", after_ms=after_ms)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if after_ms is not None:
            return Retry(reason=reason, detail=details, after_ms=after_ms)
        return TooLarge(reason=reason, detail=details)
    return Refused(reason=reason, detail=details, in_doubt=code in _IN_DOUBT)


def not_connected(code: grpc.StatusCode, details: str) -> bool:
    """True if a call failed because there is no connection, or none whose handshake came to its end."""
    return code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details


def closed_at_once(text: str, *, tls: bool) -> str:
    """What is said where the other side ended a connection before it was of use, with what to check."""
    return f"{text} ({_CLOSED_AT_ONCE[tls]})"


def http_failure(status: int, retry_after: str | None, body: bytes, *, tls: bool = False) -> Outcome:
    """The outcome of a request that was not answered with success.

    Args:
        status: the answer's, not of the 200s.
        retry_after: its header of that name [s, or a date].
        body: a `google.rpc.Status`, or whatever a proxy says; it may quote what a client sent.
        tls: whether the request went over TLS.
    """
    reason, detail = f"http_{status}", _message(body)
    after_ms = _retry_after_ms(retry_after)
    if status in _HTTP_RETRYABLE:
        return Retry(reason=reason, detail=detail, after_ms=after_ms)
    hint = _HTTP_MISCONFIGURED.get(status) if 400 <= status < 600 else "check the endpoint: no OTLP receiver says that"
    if hint is not None:
        return Retry(reason=reason, detail=f"{detail} ({hint})".lstrip(), after_ms=after_ms)
    if status == http.HTTPStatus.BAD_REQUEST and not tls and _WANTS_TLS.match(detail):
        return Retry(reason="tls", detail=f"{_BEGIN_WITH_HTTPS} ({detail})")
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return TooLarge(reason=reason, detail=detail)
    return Refused(reason=reason, detail=detail, in_doubt=status >= 500)


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
    return Delivered(rejected=max(0, partial.rejected_data_points), detail=partial.error_message[:_MAX_MESSAGE])


def _retry_delay_ms(trailers: _Metadata) -> int | None:
    """`google.rpc.RetryInfo.retry_delay` [ms] from `grpc-status-details-bin`; None where the server gives none.

    Read off the wire (Status.details = 3, Any.type_url = 1 and .value = 2, RetryInfo.retry_delay = 1, Duration.seconds
    = 1 and .nanos = 2), since the classes of `google.rpc` would be a dependency for this alone.
    """
    for name, value in trailers:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            with suppress(MalformedPayloadError):
                for detail in _contents(value, 3):
                    if b"".join(_contents(detail, 1)).endswith(b"/google.rpc.RetryInfo"):
                        return _duration_ms(b"".join(_contents(b"".join(_contents(detail, 2)), 1)))
    return None


def _retry_after_ms(text: str | None) -> int | None:
    """The header `Retry-After` [ms], between 0 and `MAX_SERVER_DELAY_MS`; None where there is none that can be read."""
    if text is None:
        return None
    try:
        delay_s = Retries().parse_retry_after(text)
    except (HTTPError, ValueError, OverflowError):
        return None
    return round(max(0.0, min(delay_s * 1000, MAX_SERVER_DELAY_MS)))


def _message(body: bytes) -> str:
    """The words of an answer: those of the `google.rpc.Status` that it is (field 2), or its text."""
    with suppress(MalformedPayloadError, UnicodeDecodeError):
        words = b"".join(_contents(body, 2)).decode()
        if words:
            return words[:_MAX_MESSAGE]
    return body.decode(errors="replace").strip()[:_MAX_MESSAGE]


def _duration_ms(duration: bytes) -> int:
    """A `google.protobuf.Duration` [ms], between 0 and `MAX_SERVER_DELAY_MS`."""
    delay_ns = 0
    for tag, _, value, end in fields(duration, 0, len(duration)):
        if tag in (_SECONDS, _NANOS):
            number = read_varint(duration, value, end)[0]
            signed = number - 2**64 if number >= 2**63 else number
            delay_ns += signed * (1_000_000_000 if tag == _SECONDS else 1)
    return max(0, min(delay_ns // 1_000_000, MAX_SERVER_DELAY_MS))


def _contents(message: bytes, number: int) -> list[bytes]:
    """The length-delimited fields of this number."""
    return [message[f.value : f.end] for f in fields(message, 0, len(message)) if f.tag == number << 3 | 2]
