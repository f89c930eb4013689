"""JSON by POST, and the meaning of a response: accepted, retried later, or rejected."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request

from fleetgauge.base.exchange import NoRedirects, exchange
from fleetgauge.fleet.errors import FleetError

_PASSING: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_READ_BYTES: Final = 4_096


class DeliveryError(FleetError):
    """A destination did not accept a delivery; it is retried later."""


class RefusedError(DeliveryError):
    """A destination rejects deliveries because of its configuration; retrying does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Endpoint that receives JSON.

    Attributes:
        option: of the command line that names it.
        url: `http://` or `https://`; a token may be part of it, so that it is never repeated.
        headers: further ones, such as `Authorization`.
        within_s: from the begin of a request to the last byte of its answer [s].

    Raises:
        FleetError: it is no URL.
    """

    option: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    within_s: float = 10.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url:
            raise FleetError(f"{self.option} is not a URL: it has to begin with http:// or https://")

    @property
    def place(self) -> str:
        """Name of the endpoint without secrets."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"

    def post(self, content: Any) -> None:
        """Sends one request; returns once it was accepted.

        Raises:
            DeliveryError: there is no whole answer in time, or one that may be another later (408, 425, 429, 5xx).
            RefusedError: any other answer but success.
        """
        headers = {"Content-Type": "application/json", "User-Agent": "fleetgauge", **self.headers}
        body = json.dumps(content).encode()
        request = Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310  # checked above
        try:
            answer = exchange(request, NoRedirects(), within_s=self.within_s, most_bytes=_READ_BYTES)
        except (OSError, HTTPException) as error:
            raise DeliveryError(str(getattr(error, "reason", None) or error) or type(error).__name__) from error
        if not 200 <= answer.status < 300:
            kind = DeliveryError if answer.status in _PASSING else RefusedError
            raise kind(f"it answers {answer.status} {answer.reason}")


def parse_headers(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Headers from texts `Name: value`.

    >>> parse_headers("--webhook-header", ["Authorization: Bearer abc"])
    {'Authorization': 'Bearer abc'}

    Raises:
        FleetError: one of them is none.
    """
    parsed = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or not name.strip().isascii() or any(c in text for c in "\r\n"):
            raise FleetError(f"{option} has the form 'Name: value', for example 'Authorization: Bearer ...'")
        parsed[name.strip()] = value.strip()
    return parsed
