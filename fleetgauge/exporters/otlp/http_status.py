"""Turns the status of an OTLP/HTTP answer into an outcome.

Source: OTLP specification, "Failures", "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

import http
import re
from contextlib import suppress
from typing import Final

from urllib3.exceptions import HTTPError
from urllib3.util import Retry as Retries

from fleetgauge.exporters.exporter import Outcome, Refused, Retry, TooLarge
from fleetgauge.exporters.otlp.status import BEGIN_WITH_HTTPS, MAX_MESSAGE, MAX_SERVER_DELAY_MS, contents
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError

_RETRYABLE: Final = frozenset({408, 429, 502, 503, 504})
"""From the OTLP specification, and 408, after which a request may be repeated (RFC 9110)."""

_MISCONFIGURED: Final = {
    401: "check the exporter's headers or client certificate",
    403: "check the exporter's headers or client certificate",
    404: "check the endpoint's path",
    405: "check the endpoint: it does not accept POST",
    407: "a proxy requires credentials",
    415: "check that the endpoint accepts protobuf and this compression",
    421: "check the endpoint's host name",
}
"""Faults of the configuration, as in `grpc_status`. So are all statuses below 400: redirects are not followed."""

_WANTS_TLS: Final = re.compile(
    r"Client sent an HTTP request to an HTTPS server\.$"
    r"|<html>\s*<head>\s*<title>400 The plain HTTP request was sent to HTTPS port</title>"
)
"""Answers of Go and nginx, with status 400, to HTTP on a TLS port. They must match the whole answer or its beginning,
because a receiver may quote a client's name in its own answers."""


def http_failure(status: int, retry_after: str | None, body: bytes, *, tls: bool = False) -> Outcome:
    """The outcome of a request with a status other than 2xx.

    Args:
        status: the status of the answer.
        retry_after: its header `Retry-After` [s, or a date].
        body: a `google.rpc.Status`, or any text of a proxy; it may quote a client's data.
        tls: whether the request went over TLS.
    """
    reason, detail = f"http_{status}", _message(body)
    after_ms = _retry_after_ms(retry_after)
    if status in _RETRYABLE:
        return Retry(reason=reason, detail=detail, after_ms=after_ms)
    hint = (
        _MISCONFIGURED.get(status)
        if 400 <= status < 600
        else "check the endpoint: this is not the response of an OTLP receiver"
    )
    if hint is not None:
        return Retry(reason=reason, detail=f"{detail} ({hint})".lstrip(), after_ms=after_ms)
    if status == http.HTTPStatus.BAD_REQUEST and not tls and _WANTS_TLS.match(detail):
        return Retry(reason="tls", detail=f"{BEGIN_WITH_HTTPS} ({detail})")
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return TooLarge(reason=reason, detail=detail)
    return Refused(reason=reason, detail=detail, in_doubt=status >= 500)


def _retry_after_ms(text: str | None) -> int | None:
    """The header `Retry-After` [ms], between 0 and `MAX_SERVER_DELAY_MS`; None if it is missing or invalid."""
    if text is None:
        return None
    try:
        delay_s = Retries().parse_retry_after(text)
    except (HTTPError, ValueError, OverflowError):
        return None
    return round(max(0.0, min(delay_s * 1000, MAX_SERVER_DELAY_MS)))


def _message(body: bytes) -> str:
    """The text of an answer: the message of a `google.rpc.Status` (field 2), or the body."""
    with suppress(MalformedPayloadError, UnicodeDecodeError):
        message = b"".join(contents(body, 2)).decode()
        if message:
            return message[:MAX_MESSAGE]
    return body.decode(errors="replace").strip()[:MAX_MESSAGE]
