"""What a running node says of itself, over a Unix socket in its data directory: one JSON object, then the end.

A socket and not a file, so that the answer is of now, and comes on a full disk too.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleetgauge.unix_address import bound_socket, unix_address
from wire.errors import FleetgaugeError

Status = dict[str, Any]
_ANSWER_TIMEOUT_S = 5.0


class NotRunningError(FleetgaugeError):
    """No node answers for this data directory."""


class StatusServer:
    """Answers every connection with what `snapshot` returns.

    Args:
        path: the socket; a left-over of a dead process is replaced.
        snapshot: makes the status; must be quick, since it runs on the listener's loop. It may be an awaitable.
    """

    def __init__(self, path: Path, snapshot: Callable[[], Status | Awaitable[Status]]) -> None:
        self._path = path
        self._snapshot = snapshot
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens; only this user may connect."""
        self._server = await asyncio.start_unix_server(self._answer, sock=bound_socket(self._path))

    async def stop(self) -> None:
        """Stops listening and removes the socket."""
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                self._path.unlink()

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            status = self._snapshot()
            writer.write(json.dumps(status if isinstance(status, dict) else await status).encode())
            await writer.drain()
        writer.close()


def read_status(path: Path) -> Status:
    """Asks the node behind the socket at `path`.

    Raises:
        NotRunningError: nobody listens there, or does not answer within five seconds.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            with unix_address(path) as address:
                connection.connect(address)
            with connection.makefile("rb") as file:
                status: Status = json.loads(file.read())
                return status
    except TimeoutError as error:
        raise NotRunningError(f"the node behind {path} did not answer within {_ANSWER_TIMEOUT_S:.0f} s") from error
    except (OSError, ValueError) as error:
        raise NotRunningError(
            f"no node answers at {path}: none runs there, or its data directory is another (--log-dirs)"
        ) from error
