"""The JSON API of the console, as a table of its operations, from which `openapi` is made as well."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.console.api.events import Events, EventStream
from fleetgauge.console.api.node import Node, NotThereError
from fleetgauge.console.api.sessions import COOKIE, Sessions
from fleetgauge.http.connection import USER
from fleetgauge.node import audit
from fleetgauge.node.status.node_socket import NotRunningError

if TYPE_CHECKING:
    from fleetgauge.console.api.subscriptions import PageSubscriptions
    from fleetgauge.console.state.fleet import Fleet

PREFIX: Final = "/api/"
_FILTER: Final = {
    "q": "a part of the client id, principal, software, group, address or instance id",
    "state": "one or several states, with commas",
    "principal": "exact, or a prefix with * at its end",
    "software": "name or name/version, or a prefix with * at its end",
    "broker": "node id",
    "group": "consumer group, or a prefix with * at its end",
    "application": "client id without its number at the end",
    "verdict": "id of an open verdict, or any",
    "instance_id": "in any form that clients log",
}
_PAGE: Final = {
    "sort": "a field of the rows, or a measure",
    "order": "asc or desc",
    "offset": "rows to skip",
    "limit": "rows, 1 to 1000",
}
FACETS: Final = ("state", "principal", "application", "software", "version", "broker", "group", "role")
_SUBSCRIPTION: Final = {
    "metrics": "list of prefixes; * is all",
    "interval_ms": "push interval [ms]",
    "match": "list of selectors, name=pattern",
}
_IDS: Final = {"ids": "numbers of dead letters; without it, all of the exporter"}


class Fleetless:
    """The fleet of this process, or the reason why there is none.

    Attributes:
        fleet: None until it is loaded, and where it cannot be.
        problem: why it is not there, in one sentence.
    """

    def __init__(self) -> None:
        self.fleet: Fleet | None = None
        self.problem = "the console has just started; try again in a second"

    def get(self) -> "Fleet":
        """The fleet, once it is loaded.

        Raises:
            HTTPException: 503; it is not there.
        """
        if self.fleet is None:
            raise HTTPException(503, self.problem)
        return self.fleet


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of the API.

    Attributes:
        path: with names in braces.
        summary: for the description.
        answer: makes the answer out of the request's values, in a thread; may raise `ValueError` with one sentence.
        method: of HTTP.
        query: parameters, with their meaning.
        body: fields of the JSON body, with their meaning.
    """

    path: str
    summary: str
    answer: Callable[[Mapping[str, Any]], Any]
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, str] | None = None


class Api:
    """The API over a fleet and the process beside it.

    Args:
        state: where the fleet is.
        node: the process beside.
        sessions: who may change something.
        subscriptions: the subscriptions; called when they are needed.
    """

    def __init__(
        self, state: Fleetless, node: Node, sessions: Sessions, subscriptions: "Callable[[], PageSubscriptions]"
    ) -> None:
        self._state = state
        self._sessions = sessions
        self._events = Events(state.get)
        self.calls = (
            *_fleet_calls(state.get),
            *_exporter_calls(node),
            *_subscription_calls(subscriptions),
            Call("/api/quotas", "Quotas and their use", lambda _: node.quotas()),
            Call("/api/traffic", "Traffic through a gateway, by client", lambda _: node.traffic()),
        )

    def routes(self) -> list[Route]:
        """All paths of the API."""
        return [
            *(Route(each.path, self._endpoint(each), methods=[each.method]) for each in self.calls),
            Route("/api/events", self._stream, methods=["GET"]),
            Route("/api/session", self._session, methods=["GET"]),
            Route("/api/session", self._log_in, methods=["POST"]),
            Route("/api/session", self._log_out, methods=["DELETE"]),
        ]

    def _endpoint(self, call: Call) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if call.method != "GET":
                try:
                    self._sessions.check_change(request)
                except HTTPException:
                    audit.record("authorization.denied", *_sender(request), api="HTTP", reason=call.path)
                    raise
            given = {**_query(request, call.query), **request.path_params}
            if call.body is not None:
                given |= await _body(request, call.body)
            if call.method == "GET":
                return await asyncio.to_thread(_answered, call, given)
            problem = ""
            try:
                return await asyncio.to_thread(_answered, call, given)
            except HTTPException as error:
                problem = str(error.detail)
                raise
            finally:
                _record(request, given, problem)

        return answer

    async def _stream(self, request: Request) -> EventStream:
        _query(request, {})
        self._state.get()
        return EventStream(self._events)

    async def _session(self, request: Request) -> Response:
        _query(request, {})
        sessions = self._sessions
        return _json(
            {"role": sessions.role(request), "csrf": sessions.csrf(request), "can_log_in": sessions.can_log_in}
        )

    async def _log_in(self, request: Request) -> Response:
        token = (await _body(request, {"token": ""})).get("token")
        if not isinstance(token, str):
            raise HTTPException(400, "token has to be a text")
        response = _json({"role": "operate"})
        await self._sessions.log_in(request, token, response)
        audit.record("login.succeeded", *_sender(request), api="HTTP")
        return response

    async def _log_out(self, request: Request) -> Response:
        self._sessions.check_change(request)
        response = _json({"role": "read"})
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response


def _fleet_calls(fleet: "Callable[[], Fleet]") -> tuple[Call, ...]:
    def client(given: Mapping[str, Any]) -> dict[str, Any]:
        answer = fleet().client(given["instance_id"])
        if answer is None:
            raise HTTPException(404, "there is no client with this instance id")
        return answer

    def facets(given: Mapping[str, Any]) -> Any:
        return fleet().facets(_facet(given), _client_query(given))

    by = {"by": ", ".join(FACETS), **_FILTER}
    states = {"state": "open, cleared or all"}
    return (
        Call("/api/overview", "The fleet in figures", lambda _: fleet().overview()),
        Call(
            "/api/clients",
            "A page of matching clients",
            lambda given: fleet().clients(_client_query(given)),
            query={**_FILTER, **_PAGE},
        ),
        Call("/api/facets", "Matching clients, counted by a property", facets, query=by),
        Call("/api/clients/{instance_id:path}", "One client, and an hour of its measures", client),
        Call("/api/groups", "Consumer groups", lambda _: fleet().groups()),
        Call("/api/brokers", "Brokers as their clients see them", lambda _: fleet().brokers()),
        Call(
            "/api/verdicts",
            "Verdicts, the most urgent first",
            lambda given: fleet().verdicts(given.get("state", "open")),
            query=states,
        ),
    )


def _exporter_calls(node: Node) -> tuple[Call, ...]:
    def replay(given: Mapping[str, Any]) -> Any:
        return node.replay(given["name"], _ids(given))

    def drop(given: Mapping[str, Any]) -> Any:
        return node.drop(given["name"], _ids(given))

    letters = PREFIX + "exporters/{name}/dead-letters/"
    return (
        Call("/api/exporters", "Exporters and dead letters", lambda _: node.exporters()),
        Call(letters + "replay", "Deliver dead letters again", replay, method="POST", body=_IDS),
        Call(letters + "drop", "Delete dead letters", drop, method="POST", body=_IDS),
    )


def _subscription_calls(subscriptions: "Callable[[], PageSubscriptions]") -> tuple[Call, ...]:
    def put(given: Mapping[str, Any]) -> Any:
        return subscriptions().put(given["name"], given)

    def delete(given: Mapping[str, Any]) -> Any:
        return subscriptions().delete(given["name"])

    path, listed = "/api/subscriptions/{name}", "Subscriptions, and how many live clients match each"
    return (
        Call("/api/subscriptions", listed, lambda _: subscriptions().list()),
        Call(
            "/api/subscriptions/plan",
            "Effect of a change of a subscription; changes nothing",
            lambda given: subscriptions().plan(given),
            method="POST",
            body={"name": "of the subscription", "delete": "true: delete it", **_SUBSCRIPTION},
        ),
        Call(path, "Create or change a subscription", put, method="PUT", body=_SUBSCRIPTION),
        Call(path, "Delete a subscription", delete, method="DELETE"),
    )


def openapi(calls: tuple[Call, ...], version: str) -> dict[str, Any]:
    """The description of the API, OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path.replace(":path", ""), {})[call.method.lower()] = _operation(call)
    text = {"type": "string"}
    paths["/api/events"] = {
        "get": {
            "summary": "Server-sent events: overview, with the JSON of /api/overview",
            "responses": {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": text}}}},
        }
    }
    log_in = Call("", "Log in, with the token", dict, method="POST", body={"token": "the token"})
    log_out = Call("", "Log out", dict, method="DELETE")
    who = Call("", "Role of the sender, and the CSRF token of its session", dict)
    paths["/api/session"] = {each.method.lower(): _operation(each) for each in (who, log_in, log_out)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fleetgauge console",
            "version": version,
            "description": "Times are microseconds since the epoch (UTC), null is unknown. Texts of clients are what "
            "the clients sent: escape them. Changes need a session and the header X-CSRF-Token.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": {"type": "object", "required": ["error"], "properties": {"error": text}}},
            "securitySchemes": {"operate": {"type": "apiKey", "in": "cookie", "name": COOKIE}},
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    names = [part[1:-1].partition(":")[0] for part in call.path.split("/") if part.startswith("{")]
    text = {"type": "string"}
    operation: dict[str, Any] = {
        "summary": call.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": text} for name in names),
            *({"name": n, "in": "query", "description": d, "schema": text} for n, d in call.query.items()),
        ],
        "responses": {
            "200": {"description": "the answer", "content": {"application/json": {"schema": {"type": "object"}}}},
            "default": {
                "description": "one sentence",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if call.body is not None:
        schema = {"type": "object", "properties": {name: {"description": text} for name, text in call.body.items()}}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if call.method != "GET" and "token" not in (call.body or {}):
        operation["security"] = [{"operate": []}]
    return operation


def _record(request: Request, given: Mapping[str, Any], problem: str) -> None:
    """Records a request that may change something in the audit log, whether it succeeded or not."""
    asked = {"method": request.method, "path": request.url.path, "values": given}
    audit.record("console.command", *_sender(request), **asked, **({"problem": problem} if problem else {}))


def _sender(request: Request) -> tuple[str, str]:
    """Principal and address; a session from the console's own token has no name."""
    user = request.scope.get(USER)
    principal = f"User:{user.name}" if user is not None and user.name else str(ANONYMOUS)
    return principal, request.client.host if request.client else ""


def _answered(call: Call, given: Mapping[str, Any]) -> Response:
    """The response, made in a thread, so that large answers and databases do not block other requests."""
    try:
        return _json(call.answer(given))
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    except NotThereError as error:
        raise HTTPException(404, str(error)) from error
    except NotRunningError as error:
        raise HTTPException(503, str(error)) from error
    except FleetgaugeError as error:
        raise HTTPException(409, str(error)) from error


def _json(value: Any) -> Response:
    headers = {"Content-Type": "application/json", "Cross-Origin-Resource-Policy": "same-origin"}
    return Response(json.dumps(value, separators=(",", ":")), headers=headers)


def _query(request: Request, known: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a request.

    Raises:
        HTTPException: 400; one is unknown or there twice.
    """
    try:
        pairs = parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=2 * len(known) + 1)
    except ValueError:
        pairs = [("", ""), ("", "")]
    values = dict(pairs)
    if len(values) != len(pairs) or values.keys() - known.keys():
        takes = f"parameters are {', '.join(known)}, each at most once" if known else "this takes no parameters"
        raise HTTPException(400, takes)
    return values


async def _body(request: Request, known: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a JSON body; a body of another type could come from a form of another page.

    Raises:
        HTTPException: 400; it is no such object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(400, "the body is JSON, Content-Type: application/json")
    raw = await request.body()
    try:
        content = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.keys() - known.keys():
        raise HTTPException(400, f"the body is an object with {', '.join(known)}")
    return content


def _ids(given: Mapping[str, Any]) -> list[int]:
    ids: list[int] = given.get("ids", [])
    is_whole = isinstance(ids, list) and all(type(each) is int and 0 < each < 1 << 63 for each in ids)
    if not is_whole or ("ids" in given and not ids):
        raise ValueError("ids is a list of numbers of dead letters, at least one; leave it out for all")
    return ids


def _facet(given: Mapping[str, Any]) -> str:
    by = given.get("by", "")
    if by not in FACETS:
        raise ValueError(f"by is one of {', '.join(FACETS)}")
    return str(by)


def _client_query(given: Mapping[str, Any]) -> Any:
    from fleetgauge.console.state.fleet import ClientQuery

    names = {each.name for each in fields(ClientQuery)}
    texts = {name: value for name, value in given.items() if name in names and value}
    numbers: dict[str, Any] = {name: _number(name, texts.pop(name)) for name in ("offset", "limit") if name in texts}
    return ClientQuery(**texts, **numbers)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name} is a number")
    return int(text)
