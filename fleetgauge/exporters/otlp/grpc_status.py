"""Turns the status of an OTLP/gRPC call into an outcome.

Source: OTLP specification, "Failures" and "OTLP/gRPC Throttling".
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from fleetgauge.exporters.exporter import Outcome, Refused, Retry, TooLarge
from fleetgauge.exporters.otlp.status import MAX_SERVER_DELAY_MS, closed_at_once, contents, tls_fault
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError

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
"""From the OTLP specification."""

_MISCONFIGURED: Final = {
    grpc.StatusCode.UNAUTHENTICATED: "check the exporter's headers or client certificate",
    grpc.StatusCode.PERMISSION_DENIED: "check the exporter's headers or client certificate",
    grpc.StatusCode.UNIMPLEMENTED: "check that the endpoint is an OTLP/gRPC receiver and accepts this compression",
}
"""Permanent in the specification, whose client has no log to wait in. The pushes are not at fault: an expired token
must not cost the whole log, so they wait for the operator."""

_IN_DOUBT: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""Answers to a payload that cannot be decoded, and also to faults of the receiver that have no other code."""

_CLOSED_TEXTS: Final = ("Socket closed", "Unwrap failed", "Handshake read failed")
"""gRPC's texts if the receiver closes a connection during or right after the handshake."""

_Metadata = Iterable[tuple[str, str | bytes]]


def failure(code: grpc.StatusCode, details: str, trailers: _Metadata, *, tls: bool = False) -> Outcome:
    """The outcome of a call with a status other than OK; `tls` if the endpoint uses TLS."""
    reason = str(code.value[1]).replace(" ", "_")
    after_ms = _retry_delay_ms(trailers)
    if code is grpc.StatusCode.UNAVAILABLE:
        if not_connected(code, details) and any(text in details for text in _CLOSED_TEXTS):
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
    """True if a call failed because there is no connection with a complete handshake."""
    return code is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details


def _retry_delay_ms(trailers: _Metadata) -> int | None:
    """`google.rpc.RetryInfo.retry_delay` [ms, 0 to `MAX_SERVER_DELAY_MS`] from `grpc-status-details-bin`; None without.

    The classes of `google.rpc` would be a dependency for this alone, so two fields are read without them:
    Status.details is field 3, RetryInfo.retry_delay field 1.
    """
    for name, value in trailers:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            with suppress(MalformedPayloadError, DecodeError):
                for detail in map(Any.FromString, contents(value, 3)):
                    if detail.type_url.endswith("/google.rpc.RetryInfo"):
                        delay = Duration.FromString(b"".join(contents(detail.value, 1)))
                        return max(0, min(delay.ToMilliseconds(), MAX_SERVER_DELAY_MS))
    return None
