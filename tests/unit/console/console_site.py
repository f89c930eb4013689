"""The console's site without a socket: requests go to the application itself, and its fleet is made by hand."""

import asyncio
import json
from pathlib import Path
from typing import Any

from support.fleet.report_tables import HOSTILE

from fleetgauge.console.api.node import Node
from fleetgauge.console.api.routes import Api, Fleetless
from fleetgauge.console.api.sessions import Sessions
from fleetgauge.console.api.subscriptions import PageSubscriptions
from fleetgauge.console.api.web import make_app
from fleetgauge.console.state.query import ClientQuery
from fleetgauge.node.data_dir import DataDirectory

TOKEN = "0123456789abcdef-token"
HOST = "node.example:9465"


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The sentence of a refusal, which is all there is."""
        assert self.json().keys() == {"error"}, self.body
        return str(self.json()["error"])


class HandMadeFleet:
    """Clients with hostile names, and what was asked."""

    def __init__(self) -> None:
        self.queries: list[ClientQuery] = []
        self.now = 1

    def version(self) -> int:
        return self.now

    def overview(self) -> dict[str, Any]:
        return {"version": self.now, "notices": list(HOSTILE)}

    def clients(self, query: ClientQuery) -> dict[str, Any]:
        self.queries.append(query)
        rows = [{"client_id": name, "principal": name} for name in HOSTILE]
        return {"total": len(rows), "offset": query.offset, "version": self.now, "clients": rows}

    def facets(self, by: str, query: ClientQuery) -> dict[str, Any]:
        self.queries.append(query)
        return {"by": by, "facets": [{"value": name} for name in HOSTILE], "more": 0}

    def client(self, instance_id: str) -> dict[str, Any] | None:
        return {"client": {"client_instance_id": instance_id}} if instance_id != "unknown" else None

    def groups(self) -> dict[str, Any]:
        return {"groups": []}

    def brokers(self) -> dict[str, Any]:
        return {"brokers": []}

    def verdicts(self, state: str = "open") -> dict[str, Any]:
        if state not in ("open", "cleared", "all"):
            raise ValueError("state is open, cleared or all")
        return {"source": "live", "verdicts": []}


class ConsoleSite:
    """The application, and a browser that may have logged in.

    Args:
        data: the data directory.
        token: of those who may change something; None for nobody.
        socket: the control socket of a node; None without one.
    """

    def __init__(self, data: Path, token: str | None = TOKEN, socket: Path | None = None) -> None:
        self.fleet = HandMadeFleet()
        self.state = Fleetless()
        self.state.fleet = self.fleet  # type: ignore[assignment]
        node = Node(socket, DataDirectory(data))
        self.subscriptions = PageSubscriptions(None, node, list)
        index: dict[str, Any] = {"endpoints": {}}
        self.app = make_app(Api(self.state, node, Sessions(token), lambda: self.subscriptions), [], index)

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """One request; underscores in the names of headers stand for hyphens."""
        given = {"host": HOST, **{name.replace("_", "-").lower(): value for name, value in headers.items()}}
        if body is not None:
            given.setdefault("content-type", "application/json")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return asyncio.run(self._ask(path, method, raw, given))

    def log_in(self) -> dict[str, str]:
        """Headers of a session that may change something."""
        answer = self.ask("/api/session", "POST", {"token": TOKEN})
        assert answer.status == 200, answer.body
        cookie = answer.headers["set-cookie"].partition(";")[0]
        session = self.ask("/api/session", cookie=cookie).json()
        assert session["role"] == "operate"
        return {"cookie": cookie, "x_csrf_token": session["csrf"]}

    async def _ask(self, path: str, method: str, body: bytes, headers: dict[str, str]) -> Answer:
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
            "method": method, "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9465),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.Event().wait()  # the peer stays
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]))
