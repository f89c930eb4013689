"""The site of the console: the page, its API, and the endpoints of the process beside it; see docs/console.md."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from console.api import PREFIX, Api, Fleetless, openapi
from console.node import Node
from console.sessions import Sessions
from exporters.http.connection import HttpSettings
from exporters.http.errors import Json
from fleetgauge.admin.routes import EXCEPTION_HANDLERS

SETTINGS: Final = HttpSettings(body_prefix=PREFIX)
_STATIC: Final = Path(__file__).with_name("static")
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


class _Static(StaticFiles):
    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers.update(_PAGE_HEADERS)
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response


def make_app(
    state: Fleetless, node: Node, sessions: Sessions, endpoints: Sequence[Route], index: dict[str, Any]
) -> Starlette:
    """The site.

    Args:
        state: where the fleet is.
        node: the process beside.
        sessions: who may change something.
        endpoints: further paths, those of the node.
        index: the answer at `/` for all but browsers.
    """
    api = Api(state, node, sessions)
    description = openapi(api.calls, importlib.metadata.version("fleetgauge"))

    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return FileResponse(_STATIC / "index.html", headers={**_PAGE_HEADERS, "Vary": "Accept"})
        response = Json(index)
        response.headers["Vary"] = "Accept"
        return response

    async def described(_: Request) -> Response:
        return Json(description)

    routes: list[BaseRoute] = [
        Route("/", root),
        Route("/openapi.json", described),
        Mount("/static", _Static(directory=_STATIC, check_dir=False)),
        *api.routes(),
        *endpoints,
    ]
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    app.router.redirect_slashes = False
    return app
