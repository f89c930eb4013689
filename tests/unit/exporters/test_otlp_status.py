"""What each answer of an OTLP receiver makes of a batch."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from fleetgauge.exporters.exporter import Delivered, Refused, Retry, TooLarge
from fleetgauge.exporters.otlp.grpc_status import failure
from fleetgauge.exporters.otlp.http_status import http_failure
from fleetgauge.exporters.otlp.status import MAX_SERVER_DELAY_MS, success, tls_fault


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
    assert outcome.in_doubt == (code in {"INTERNAL", "UNKNOWN"})


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


def test_of_what_a_server_says_of_rejected_points_a_bounded_part_is_kept() -> None:
    response = ExportMetricsServiceResponse()
    response.partial_success.error_message = "no such point " * 20_000
    assert success(response.SerializeToString()).detail == response.partial_success.error_message[:500]


def test_an_unreadable_success_is_no_reason_to_send_again() -> None:
    assert isinstance(success(b"\xff\xff"), Delivered)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_http_calls_retryable_is_tried_again(status: int) -> None:
    assert http_failure(status, None, b"") == Retry(reason=f"http_{status}")


@pytest.mark.parametrize("status", [400, 406, 422, 500, 501])
def test_what_an_http_receiver_will_never_take_is_refused(status: int) -> None:
    refused = Refused(reason=f"http_{status}", detail="no", in_doubt=status >= 500)
    assert http_failure(status, "5", b"no") == refused


@pytest.mark.parametrize("status", [100, 304, 401, 403, 404, 405, 407, 415, 421, 700])
def test_a_wrong_url_or_token_costs_no_push_and_says_what_to_check(status: int) -> None:
    outcome = http_failure(status, None, b"")
    assert isinstance(outcome, Retry)
    assert "check" in outcome.detail or "proxy" in outcome.detail


def test_too_much_for_an_http_receiver_is_cut() -> None:
    assert http_failure(413, None, b"") == TooLarge(reason="http_413")


@pytest.mark.parametrize(
    ("text", "after_ms"),
    [
        ("3", 3_000), ("0", 0), ("-3", None), ("1.5", None), ("soon", None), ("", None), ("9" * 400, 300_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 300_000),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
    ],
)  # fmt: skip
def test_a_retry_after_is_read_as_seconds_or_a_date_and_bounded(text: str, after_ms: int | None) -> None:
    assert http_failure(503, text, b"") == Retry(reason="http_503", after_ms=after_ms)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (Status(code=3, message="bad data").SerializeToString(), "bad data"), (b"<html>\n", "<html>"),
        (b"\xff\xfe", "\ufffd\ufffd"), (b"", ""), (b"x" * 1_000, "x" * 500),
    ],
)  # fmt: skip
def test_the_words_of_an_answer_are_kept_whatever_it_is(body: bytes, detail: str) -> None:
    assert http_failure(400, None, body) == Refused(reason="http_400", detail=detail)


PLAIN_TO_TLS = [
    b"Client sent an HTTP request to an HTTPS server.\n",
    b"<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>",
]
"""As Go's net/http and nginx have it."""


@pytest.mark.parametrize("body", PLAIN_TO_TLS)
def test_http_to_a_receiver_that_wants_tls_costs_no_push(body: bytes) -> None:
    outcome = http_failure(400, None, body)
    assert isinstance(outcome, Retry)
    assert outcome.reason == "tls"
    assert "https://" in outcome.detail
    assert isinstance(http_failure(400, None, body, tls=True), Refused)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("name", ["HANDSHAKE_FAILURE", "CERTIFICATE_REQUIRED", *map(bytes.decode, PLAIN_TO_TLS)])
def test_no_client_stops_delivery_by_a_name_that_a_receiver_quotes(name: str, status: int, tls: bool) -> None:
    said = f'invalid label in series {{client_id="{name}"}}'
    for body in (
        said.encode(),
        Status(code=3, message=said).SerializeToString(),
        said[said.index(name) - 1 :].encode(),
    ):
        assert isinstance(http_failure(status, None, body, tls=tls), Refused)


@pytest.mark.parametrize(("tls", "advice"), [(True, "tls.cert.file"), (False, "https://")])
def test_a_connection_that_is_closed_at_once_says_what_may_be_wrong(tls: bool, advice: str) -> None:
    details = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"
    outcome = failure(grpc.StatusCode.UNAVAILABLE, details, [], tls=tls)
    assert isinstance(outcome, Retry)
    assert advice in outcome.detail


def test_a_connection_that_is_refused_is_no_fault_of_tls() -> None:
    assert tls_fault("Failed to connect to remote host: Connection refused") is None
