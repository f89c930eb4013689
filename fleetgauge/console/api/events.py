"""Server-sent events: every open page gets the overview when it changes, at most every two seconds."""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from fleetgauge.http.errors import error

if TYPE_CHECKING:
    from fleetgauge.console.state.fleet import Fleet

MAX_STREAMS: Final = 16
"""Streams at a time: a quarter of the connections, so that open pages leave room for scrapes."""
_EVERY_S: Final = 2.0
_KEEP_ALIVE_S: Final = 15.0


class Events:
    """The latest overview as an event, made once for all streams.

    Args:
        fleet: the fleet; may raise `HTTPException`.

    Attributes:
        streams: those that are open.
    """

    def __init__(self, fleet: "Callable[[], Fleet]") -> None:
        self._fleet = fleet
        self._version = -1
        self._event = b""
        self._making = asyncio.Lock()
        self.streams = 0

    async def latest(self) -> tuple[int, bytes]:
        """The version of the snapshot, and its event."""
        async with self._making:
            version = self._fleet().version()
            if version != self._version:
                overview = await asyncio.to_thread(self._fleet().overview)
                text = json.dumps(overview, separators=(",", ":"))  # has no line feed: it escapes them
                self._version, self._event = version, f"event: overview\ndata: {text}\n\n".encode()
            return self._version, self._event


class EventStream:
    """A response that has no end: an ASGI application, cancelled when the connection ends."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends events until it is cancelled."""
        if self._events.streams >= MAX_STREAMS:
            problem = f"{MAX_STREAMS} pages are open already; close one, or try again later"
            await error(503, problem, {"Retry-After": "10"})(scope, receive, send)
            return
        self._events.streams += 1
        try:
            headers = [(b"content-type", b"text/event-stream"), (b"cross-origin-resource-policy", b"same-origin")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await self._send_events(send)
        finally:
            self._events.streams -= 1

    async def _send_events(self, send: Send) -> None:
        sent, quiet_s = -1, 0.0
        while True:
            version, event = await self._events.latest()
            if version == sent:
                quiet_s += _EVERY_S
                event = b": keep-alive\n\n" if quiet_s >= _KEEP_ALIVE_S else b""
            if event:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                sent, quiet_s = version, 0.0
            await asyncio.sleep(_EVERY_S)
