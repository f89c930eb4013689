"""What the status of an OTLP/HTTP answer means for its batch.

Source: OTLP specification, "Failures", "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
"""

import http
import re
from contextlib import suppress
from typing import Final

from urllib3.exceptions import HTTPError
from urllib3.util import Retry as Retries

from exporters.exporter import Outcome, Refused, Retry, TooLarge
from exporters.otlp.status import BEGIN_WITH_HTTPS, MAX_MESSAGE, MAX_SERVER_DELAY_MS, contents
from exporters.protobuf_wire import MalformedPayloadError

_RETRYABLE: Final = frozenset({408, 429, 502, 503, 504})
"""As the OTLP specification lists them, and 408, which says of itself that the request may be repeated (RFC 9110)."""

_MISCONFIGURED: Final = {
    401: "check the exporter's headers or client certificate",
    403: "check the exporter's headers or client certificate",
    404: "check the endpoint's path",
    405: "check the endpoint: it takes no POST",
    407: "a proxy stands in between and wants credentials",
    415: "check that the endpoint takes protobuf and this compression",
    421: "check the endpoint's host name",
}
"""As `grpc_status` has some, too; so are all statuses that are no errors: redirects are not followed."""

_WANTS_TLS: Final = re.compile(
    r"Client sent an HTTP request to an HTTPS server\.$"
    r"|<html>\s*<head>\s*<title>400 The plain HTTP request was sent to HTTPS port</title>"
)
"""What Go and nginx answer, with status 400, to HTTP where they want TLS: the whole answer or its beginning, since a
receiver may quote a client's name in an answer of its own."""


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
    if status in _RETRYABLE:
        return Retry(reason=reason, detail=detail, after_ms=after_ms)
    hint = _MISCONFIGURED.get(status) if 400 <= status < 600 else "check the endpoint: no OTLP receiver says that"
    if hint is not None:
        return Retry(reason=reason, detail=f"{detail} ({hint})".lstrip(), after_ms=after_ms)
    if status == http.HTTPStatus.BAD_REQUEST and not tls and _WANTS_TLS.match(detail):
        return Retry(reason="tls", detail=f"{BEGIN_WITH_HTTPS} ({detail})")
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return TooLarge(reason=reason, detail=detail)
    return Refused(reason=reason, detail=detail, in_doubt=status >= 500)


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
        words = b"".join(contents(body, 2)).decode()
        if words:
            return words[:MAX_MESSAGE]
    return body.decode(errors="replace").strip()[:MAX_MESSAGE]
