"""An HTTP request and its response, as values."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A GET or HEAD.

    Attributes:
        path: before the `?`, as it was sent.
        query: behind it, as it was sent.
        accept: the media types that the sender wants.
        accept_encoding: the content codings that the sender takes.
    """

    path: str
    query: str = ""
    accept: str = ""
    accept_encoding: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What is answered; a body that comes in pieces is sent as it comes."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpError(Exception):
    """A request that is answered with an error; the text says what to do, and repeats nothing of the request."""

    def __init__(self, status: int, problem: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem
        self.headers = headers or {}

    def response(self) -> HttpResponse:
        """The same as a response."""
        return json_response(self.status, {"error": self.problem}, self.headers)


def json_response(status: int, value: Any, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A response with a JSON object."""
    body = json.dumps(value, indent=1).encode() + b"\n"
    return HttpResponse(status=status, body=body, headers=headers or {})
