"""What each answer of an OTLP receiver makes of a batch."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from exporters.otlp_status import MAX_SERVER_DELAY_MS, failure, success
from exporters.outcome import Delivered, Refused, Retry, TooLarge


def trailers(seconds: int, nanos: int = 0) -> list[tuple[str, str | bytes]]:
    info = RetryInfo()
    info.retry_delay.seconds, info.retry_delay.nanos = seconds, nanos
    status = Status(code=8)
    for detail in (ErrorInfo(reason="x"), info):
        packed = Any()
        packed.Pack(detail)
        status.details.append(packed)
    return [("x-other", "y"), ("grpc-status-details-bin", status.SerializeToString())]


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "OUT_OF_RANGE", "DATA_LOSS"]
)
def test_what_the_specification_calls_retryable_is_tried_again(code: str) -> None:
    assert failure(grpc.StatusCode[code], "why", []) == Retry(reason=code.lower(), detail="why")


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL", "NOT_FOUND", "UNKNOWN", "FAILED_PRECONDITION"])
def test_what_the_receiver_will_never_take_is_refused(code: str) -> None:
    outcome = failure(grpc.StatusCode[code], "why", [])
    assert isinstance(outcome, Refused)
    assert outcome.detail == "why"
    assert outcome.reason == code.lower()


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"])
def test_a_wrong_token_or_endpoint_costs_no_push_and_says_what_to_check(code: str) -> None:
    outcome = failure(grpc.StatusCode[code], "why", [])
    assert isinstance(outcome, Retry)
    assert "check" in outcome.detail


def test_an_exhausted_receiver_that_names_a_delay_is_left_alone_for_it() -> None:
    outcome = failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", trailers(2, 500_000_000))
    assert outcome == Retry(reason="resource_exhausted", detail="busy", after_ms=2_500)


def test_an_exhausted_receiver_that_names_none_wants_smaller_batches() -> None:
    assert isinstance(failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "too big", []), TooLarge)


@pytest.mark.parametrize(
    ("seconds", "after_ms"), [(-5, 0), (0, 0), (300, 300_000), (301, MAX_SERVER_DELAY_MS), (10**9, MAX_SERVER_DELAY_MS)]
)
def test_a_delay_beyond_reason_is_bounded(seconds: int, after_ms: int) -> None:
    outcome = failure(grpc.StatusCode.UNAVAILABLE, "", trailers(seconds))
    assert outcome == Retry(reason="unavailable", after_ms=after_ms)


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff", b""])
def test_details_that_cannot_be_read_are_as_none(garbage: bytes) -> None:
    outcome = failure(grpc.StatusCode.UNAVAILABLE, "", [("grpc-status-details-bin", garbage)])
    assert outcome == Retry(reason="unavailable")


@pytest.mark.parametrize("response", [b"", b"\x0a\x00"])
def test_an_empty_partial_success_is_plain_success(response: bytes) -> None:
    assert success(response) == Delivered()


def test_rejected_points_are_counted_with_the_receivers_words() -> None:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = 4
    response.partial_success.error_message = "too old"
    assert success(response.SerializeToString()) == Delivered(rejected=4, detail="too old")


def test_an_unreadable_success_is_no_reason_to_send_again() -> None:
    assert isinstance(success(b"\xff\xff"), Delivered)
