"""The four endpoints of the HTTP port, served from the control socket of `fleetgauge serve` or `export`. Read-only."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fleetgauge.http.connection import ACCESS, USER
from fleetgauge.http.errors import Json, refused
from fleetgauge.node.status.clients_page import DEFAULT_LIMIT, DEFAULT_SORT, ClientsPage, PageRequest, as_object
from fleetgauge.node.status.exposition import HttpStatus, exposition, head_of
from fleetgauge.node.status.node_socket import Answer, NotRunningError, Status, ask_async, read_status_async
from fleetgauge.telemetry.instances.inventory import FILTER_KEYS, ClientFilter

HEALTH_WITHIN_S: Final = 2.0
"""A loop that does not answer within this time does not serve its clients either [s]."""
MAX_LISTINGS: Final = 4
"""Listings of /clients at a time; slow readers of them must not block /healthz and /metrics."""

_PAGE_KEYS: Final = ("sort", "order", "limit", "after", "format")
PARAMETERS: Final = (*FILTER_KEYS, *_PAGE_KEYS)
ENDPOINTS: Final = {
    "/healthz": "200 while the process answers",
    "/readyz": "200 while serve takes pushes or export reads the topic, else 503 with the reasons; degraded: the same "
    "of single workers",
    "/metrics": "Prometheus' text form, or OpenMetrics",
    "/clients": f"the client instances; parameters {', '.join(PARAMETERS)}",
}


OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no login: the probes of orchestrators have none."""
JSON_LINES: Final = "application/jsonl"
_NO_TELEMETRY: Final = {"counters": {"instances_with_metrics": 0}}


class Routes:
    """The endpoints of the node with the control socket at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listings = 0

    def routes(self) -> list[Route]:
        """Routes for a Starlette application; see also `EXCEPTION_HANDLERS`."""
        served = (self._healthz, self._readyz, self._metrics, self._clients)
        return [Route(path, each) for path, each in zip(ENDPOINTS, served, strict=True)]

    async def index(self, request: Request) -> Response:
        """The list of the endpoints."""
        _takes_no_parameters(request)
        return Json({"endpoints": ENDPOINTS})

    async def _healthz(self, request: Request) -> Response:
        _takes_no_parameters(request)
        try:
            async with asyncio.timeout(HEALTH_WITHIN_S):
                await self._status()
        except (TimeoutError, NotRunningError):
            reason = f"the node did not answer within {HEALTH_WITHIN_S:.0f} s"
            return Json({"status": "failing", "reasons": [reason]}, 503)
        return Json({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        _takes_no_parameters(request)
        try:
            async with asyncio.timeout(HEALTH_WITHIN_S):
                node = head_of(await self._status())
        except (TimeoutError, NotRunningError):
            node = {"not_ready": [f"the node did not answer within {HEALTH_WITHIN_S:.0f} s"]}
        reasons = node["not_ready"]
        if USER not in request.scope:  # no login: reasons may name brokers and files
            return Json({"ready": not reasons}, 503 if reasons else 200)
        degraded = {"degraded": node["degraded"]} if "degraded" in node else {}
        return Json({"ready": not reasons, "reasons": reasons, **degraded}, 503 if reasons else 200)

    async def _metrics(self, request: Request) -> Response:
        _takes_no_parameters(request)
        status = await self._status()
        own: list[tuple[Any, ...]] = []
        if status.get("telemetry", _NO_TELEMETRY)["counters"]["instances_with_metrics"]:
            async with aclosing(ask_async(self._path, {"ask": "own_metrics"})) as answers:
                async for answer in answers:
                    own.extend(answer["rows"])
        body, content_type = exposition(status, own, request.headers.get("accept", ""), _http_status(request))
        return Response(body, headers={"Content-Type": content_type})

    async def _clients(self, request: Request) -> Response:
        try:
            wanted, form, page = _read_query(request.url.query)
            ClientFilter.of(wanted)
            question = {"ask": "clients", "filter": wanted}
            if form == "jsonl":
                headers = {"Content-Type": JSON_LINES}
                if request.method == "HEAD":
                    return Response(headers=headers)
                return StreamingResponse(self._lines(question), headers=headers)
            kept, coverage = ClientsPage(page), {}
            async for answer in self._slices(question):
                kept.take(answer["rows"])
                if "coverage" in answer:
                    coverage = {"coverage": answer["coverage"]}
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        return Json({"total": kept.total, "clients": kept.rows(), "next": kept.next(), **coverage})

    async def _lines(self, question: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Every row in the order of arrival, one object per line."""
        try:
            async with aclosing(self._slices(question)) as slices:
                async for answer in slices:
                    if rows := answer["rows"]:
                        yield b"".join(json.dumps(as_object(row)).encode() + b"\n" for row in rows)
        except NotRunningError as error:  # the answer has begun, and can only be aborted
            raise ConnectionError(str(error)) from error

    async def _status(self) -> Status:
        return await read_status_async(self._path)

    async def _slices(self, question: Mapping[str, Any]) -> AsyncGenerator[Answer, None]:
        if self._listings >= MAX_LISTINGS:
            raise HTTPException(503, "too many listings are in progress; try again in a second", {"Retry-After": "1"})
        self._listings += 1
        try:
            async with aclosing(ask_async(self._path, dict(question))) as answers:
                async for answer in answers:
                    yield answer
        finally:
            self._listings -= 1


async def _refused(request: Request, exception: HTTPException) -> Response:
    if exception.status_code == HTTPStatus.NOT_FOUND and exception.detail == HTTPStatus.NOT_FOUND.phrase:
        exception = HTTPException(404, f"nothing is served at this path; the paths are {', '.join(ENDPOINTS)}")
    return await refused(request, exception)


async def _not_running(_: Request, error: Exception) -> Response:
    return Json({"error": str(error)}, 503)


EXCEPTION_HANDLERS: Final[Mapping[Any, Any]] = {HTTPException: _refused, NotRunningError: _not_running}


def _http_status(request: Request) -> HttpStatus:
    access = request.scope[ACCESS]
    return HttpStatus(access.failures, access.certificate_expires_at)


def _takes_no_parameters(request: Request) -> None:
    if request.url.query:
        raise HTTPException(400, "this takes no parameters")


def _read_query(query: str) -> tuple[dict[str, str], str, PageRequest]:
    """The filter, the form, and the page.

    Raises:
        ValueError: one sentence on what is wrong.
    """
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=2 * len(PARAMETERS))
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or parameters.keys() - set(PARAMETERS):
        raise ValueError(f"parameters are {', '.join(PARAMETERS)}, each at most once")
    form, order, limit = parameters.get("format", "json"), parameters.get("order", "desc"), parameters.get("limit", "")
    if form not in ("json", "jsonl") or order not in ("asc", "desc"):
        raise ValueError("format is json or jsonl, and order asc or desc")
    if limit and not (limit.isascii() and limit.isdigit() and len(limit) < 9):
        raise ValueError("limit is a number")
    page = PageRequest(
        sort=parameters.get("sort", DEFAULT_SORT),
        descending=order == "desc",
        limit=int(limit) if limit else DEFAULT_LIMIT,
        after=parameters.get("after", ""),
    )
    return {key: value for key, value in parameters.items() if key in FILTER_KEYS}, form, page
