"""What the status of an OTLP/gRPC call means for its batch.

Source: OTLP specification, "Failures" and "OTLP/gRPC Throttling".
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import grpc

from exporters.exporter import Outcome, Refused, Retry, TooLarge
from exporters.otlp.status import MAX_SERVER_DELAY_MS, closed_at_once, contents, tls_fault
from exporters.protobuf_wire import MalformedPayloadError, fields, read_varint

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


def _retry_delay_ms(trailers: _Metadata) -> int | None:
    """`google.rpc.RetryInfo.retry_delay` [ms] from `grpc-status-details-bin`; None where the server gives none.

    Read off the wire (Status.details = 3, Any.type_url = 1 and .value = 2, RetryInfo.retry_delay = 1, Duration.seconds
    = 1 and .nanos = 2), since the classes of `google.rpc` would be a dependency for this alone.
    """
    for name, value in trailers:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            with suppress(MalformedPayloadError):
                for detail in contents(value, 3):
                    if b"".join(contents(detail, 1)).endswith(b"/google.rpc.RetryInfo"):
                        return _duration_ms(b"".join(contents(b"".join(contents(detail, 2)), 1)))
    return None


def _duration_ms(duration: bytes) -> int:
    """A `google.protobuf.Duration` [ms], between 0 and `MAX_SERVER_DELAY_MS`."""
    delay_ns = 0
    for tag, _, value, end in fields(duration, 0, len(duration)):
        if tag in (_SECONDS, _NANOS):
            number = read_varint(duration, value, end)[0]
            signed = number - 2**64 if number >= 2**63 else number
            delay_ns += signed * (1_000_000_000 if tag == _SECONDS else 1)
    return max(0, min(delay_ns // 1_000_000, MAX_SERVER_DELAY_MS))
