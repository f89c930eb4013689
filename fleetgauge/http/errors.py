"""Errors as every page answers them: an object whose `error` is a sentence that repeats nothing of the request."""

import json
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse


class Json(JSONResponse):
    """A JSON object that people can read, too; ends with a line feed."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, indent=1).encode() + b"\n"


def error(status: int, problem: str, headers: dict[str, str] | None = None) -> Json:
    """The response to a request that is refused."""
    return Json({"error": problem}, status, headers)


async def refused(_request: Request, exception: Exception) -> Json:
    """The response to a request whose handler raised Starlette's `HTTPException`; for `exception_handlers`.

    Of a method that a path does not have Starlette says so itself; the sentence is ours.
    """
    assert isinstance(exception, HTTPException)
    if exception.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(sorted((exception.headers or {})["Allow"].split(", ")))
        return error(
            405, f"only {methods.replace(', ', ' and ')} are served here", {"Allow": methods, "Connection": "close"}
        )
    return error(exception.status_code, exception.detail, dict(exception.headers or {}))
