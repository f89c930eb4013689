"""What a gRPC status means for a batch of OTLP. Source: OTLP specification, "Failures" and "OTLP/gRPC Throttling"."""

from collections.abc import Iterable
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # it publishes no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from exporters.outcome import Delivered, Outcome, Refused, Retry, TooLarge

MAX_SERVER_DELAY_MS: Final = 300_000
"""A longer wait that a server asks for is cut to this [ms]."""

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

_Metadata = Iterable[tuple[str, str | bytes]]


def failure(code: grpc.StatusCode, details: str, trailers: _Metadata) -> Outcome:
    """The outcome of a call that ended with a status other than OK."""
    reason = str(code.value[1]).replace(" ", "_")
    after_ms = _retry_delay_ms(trailers)
    if code in _RETRYABLE:
        return Retry(reason=reason, detail=details, after_ms=after_ms)
    if code in _MISCONFIGURED:
        return Retry(reason=reason, detail=f"{details} ({_MISCONFIGURED[code]})", after_ms=after_ms)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if after_ms is not None:
            return Retry(reason=reason, detail=details, after_ms=after_ms)
        return TooLarge(reason=reason, detail=details)
    return Refused(reason=reason, detail=details)


def success(response: bytes) -> Delivered:
    """The outcome of a call that ended with OK; `response` is an encoded ExportMetricsServiceResponse.

    A `partial_success` that is there and empty is the collector's plain success. A response that cannot be read is
    taken for one too: the status has said that the request was.
    """
    try:
        partial = ExportMetricsServiceResponse.FromString(response).partial_success
    except DecodeError:
        return Delivered(detail="the destination took the batch and answered with unreadable bytes")
    return Delivered(rejected=max(0, partial.rejected_data_points), detail=partial.error_message)


def _retry_delay_ms(trailers: _Metadata) -> int | None:
    """`google.rpc.RetryInfo.retry_delay` [ms] from `grpc-status-details-bin`; None where the server gives none."""
    for name, value in trailers:
        if name != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        try:
            for detail in Status.FromString(value).details:
                if detail.Is(RetryInfo.DESCRIPTOR):
                    delay = RetryInfo.FromString(detail.value).retry_delay
                    delay_ms = delay.seconds * 1_000 + delay.nanos // 1_000_000
                    return max(0, min(int(delay_ms), MAX_SERVER_DELAY_MS))
        except DecodeError:
            continue
    return None
