"""The site of the console (docs/analyse/console.md): the page, its API, and the endpoints of the process beside it."""

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fleetgauge.console.api.routes import PREFIX, Api, openapi
from fleetgauge.console.state.measures import SHOWN
from fleetgauge.http.connection import HttpSettings
from fleetgauge.http.errors import Json
from fleetgauge.node.status.routes import EXCEPTION_HANDLERS, OPEN_PATHS

SETTINGS: Final = HttpSettings(body_prefix=PREFIX, open_paths=OPEN_PATHS)
_STATIC: Final = Path(__file__).parents[1] / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


_MEASURES: Final = "measures.js"
"""Generated from `console.state.measures`, so that the page need not repeat it."""


def _measures() -> bytes:
    figures = {measure.column: [measure.label, measure.unit] for measure in SHOWN}
    return f"// See console/measures.py.\nexport const FIGURES = {json.dumps(figures)};\n".encode()


class _Files:
    """The files of the page, in memory: a request names one of them, never a path."""

    def __init__(self) -> None:
        paths = [path for path in _STATIC.rglob("*") if path.suffix in _TYPES]
        self._files = {path.relative_to(_STATIC).as_posix(): path.read_bytes() for path in paths}
        self._files[_MEASURES] = _measures()
        self._tags = {name: f'"{hashlib.sha256(file).hexdigest()[:32]}"' for name, file in self._files.items()}

    def response(self, request: Request, name: str) -> Response:
        """The file with this name.

        Raises:
            HTTPException: 404; there is none.
        """
        if name not in self._files:
            raise HTTPException(404)
        headers = {**_PAGE_HEADERS, "ETag": self._tags[name]}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        headers["Content-Type"] = _TYPES[Path(name).suffix]
        return Response(self._files[name], headers=headers)

    async def answer(self, request: Request) -> Response:
        """A file below /static/."""
        return self.response(request, request.path_params["name"])


def make_app(api: Api, endpoints: Sequence[Route], index: dict[str, Any]) -> Starlette:
    """The site.

    Args:
        api: its calls.
        endpoints: further paths, those of the node.
        index: the answer at `/` for all but browsers.
    """
    description = openapi(api.calls, importlib.metadata.version("fleetgauge"))

    files = _Files()

    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            response = files.response(request, "index.html")
        else:
            response = Json(index)
        response.headers["Vary"] = "Accept"
        return response

    async def described(_: Request) -> Response:
        return Json(description)

    routes: list[BaseRoute] = [
        Route("/", root),
        Route("/openapi.json", described),
        Route("/static/{name:path}", files.answer),
        *api.routes(),
        *endpoints,
    ]
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    app.router.redirect_slashes = False
    return app
