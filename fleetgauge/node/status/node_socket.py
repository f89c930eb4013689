"""The control socket of `fleetgauge serve` and `export`: a Unix socket in the data directory, for the HTTP process and
the command line.

One request per connection: a frame with a JSON object in, frames of JSON out, the last of them `{"end": true}`. A frame
is its length (4 bytes, big endian) and that many bytes.

The node answers on the listener's loop, which pushes need: a listing of all clients is sent in slices of some hundred
microseconds each, and in between the loop is free for pushes for a multiple of that time.
"""

import asyncio
import itertools
import json
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.status.unix_address import bound_socket, unix_address
from fleetgauge.telemetry.instances.inventory import ClientFilter

log = structlog.get_logger(__name__)

Answer = dict[str, Any]
Status = dict[str, Any]
Candidates = Iterator[tuple[Any, ...] | None]
Part = tuple[int, int]
"""A part of the instances, by their ids: its number, and how many parts there are."""

SLICE_NS: Final = 200_000
"""Duration after which a slice ends [ns]."""
SLICE_ROWS: Final = 100
"""Rows after which a slice ends; it may have up to `_CANDIDATES_BETWEEN_LOOKS` more."""
_CANDIDATES_BETWEEN_LOOKS: Final = 8
REST_FACTOR: Final = 3
"""Pause after a slice, as a multiple of its duration."""

MAX_QUESTIONS: Final = 16
"""Connections served at a time; further ones are closed at once."""
MAX_QUESTION_BYTES: Final = 64 << 10
MAX_ANSWER_BYTES: Final = 64 << 20
"""Longest frame; a slice of the longest possible rows is 3 MiB."""
QUESTION_WITHIN_S: Final = 5.0
READ_WITHIN_S: Final = 30.0
ANSWER_WITHIN_S: Final = 5.0
"""Time that a client waits for the next frame [s]."""

_LENGTH = struct.Struct(">I")


class NotRunningError(FleetgaugeError):
    """No node answers for this data directory."""


class Inventory(Protocol):
    """The client instances that a process lists. Its iterators tolerate changes between two steps."""

    def coverage(self) -> dict[str, Any] | None:
        """Restriction of the listing, in plain values; None if it covers all clients of the node."""

    def rows(self, wanted: ClientFilter, part: Part) -> Candidates:
        """One item per instance: its `ClientRow`, or None if `wanted` excludes it."""

    def own_metrics(self, part: Part) -> Candidates:
        """One item per instance: its id and its own metrics, or None if it has none."""


class ControlSocket(ABC):
    """Reads requests and sends the answers that a subclass makes.

    Args:
        path: the socket; one that a dead process left is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @abstractmethod
    def _answers(self, question: dict[str, Any]) -> AsyncGenerator[Answer, None]:
        """The answer in pieces."""

    async def start(self) -> None:
        """Listens; only this user may connect."""
        bound = bound_socket(self._path)
        self._server = await asyncio.start_unix_server(self._serve, sock=bound, limit=MAX_QUESTION_BYTES)

    async def stop(self) -> None:
        """Stops listening, aborts answers under way, and removes the socket."""
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        with suppress(FileNotFoundError):
            self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= MAX_QUESTIONS:
                await self._answer(reader, writer)
            writer.close()
            async with asyncio.timeout(READ_WITHIN_S):  # until the peer has read all that was written
                await writer.wait_closed()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the peer has gone, sent no valid request or does not read; or the node stops
        except Exception:
            log.exception("control_socket.request_failed")
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(QUESTION_WITHIN_S):
            (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if size > MAX_QUESTION_BYTES:
                return
            question = json.loads(await reader.readexactly(size))
        async with aclosing(self._answers(question)) as answers:
            async for answer in answers:
                writer.write(_frame(answer))
                async with asyncio.timeout(READ_WITHIN_S):
                    await writer.drain()
        writer.write(_frame({"end": True}))


class NodeSocket(ControlSocket):
    """Serves the status and the clients of this process.

    Args:
        path: the socket; one that a dead process left is replaced.
        status: makes the status; must be fast, since it runs on the loop.
        inventory: the clients.
        time: the clocks.
    """

    def __init__(self, path: Path, status: Callable[[], Status], inventory: Inventory, time: Time) -> None:
        super().__init__(path)
        self._status = status
        self._inventory = inventory
        self._time = time
        self._walks = 0

    async def _answers(self, question: dict[str, Any]) -> AsyncGenerator[Answer, None]:
        if question.get("ask") == "status":
            yield self._status()
            return
        try:
            wanted = ClientFilter.of(question.get("filter", {}))
            number, parts = (int(each) for each in question.get("part", (0, 1)))
        except (ValueError, TypeError) as error:
            yield {"error": str(error)}
            return
        part = (number, max(1, parts))
        if question.get("ask") == "own_metrics":
            candidates = self._inventory.own_metrics(part)
        else:
            candidates = self._inventory.rows(wanted, part)
            if (coverage := self._inventory.coverage()) is not None:
                yield {"coverage": coverage, "rows": []}
        self._walks += 1
        try:
            async with aclosing(self._walk(candidates)) as walk:
                async for answer in walk:
                    yield answer
        finally:
            self._walks -= 1

    async def _walk(self, candidates: Candidates) -> AsyncGenerator[Answer, None]:
        """The rows in slices. The share of the loop that pauses leave free does not depend on the number of walks."""
        is_whole = False
        while not is_whole:
            started_ns = self._time.nanoseconds()
            is_whole, rows = self._slice(candidates, started_ns)
            yield {"rows": rows}
            took_s = (self._time.nanoseconds() - started_ns) / 1e9
            await asyncio.sleep(took_s * ((REST_FACTOR + 1) * self._walks - 1))

    def _slice(self, candidates: Candidates, started_ns: int) -> tuple[bool, list[tuple[Any, ...]]]:
        """True at the end of the candidates, and the rows among the next ones."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < SLICE_ROWS and self._time.nanoseconds() - started_ns < SLICE_NS:
            some = list(itertools.islice(candidates, _CANDIDATES_BETWEEN_LOOKS))
            rows += [row for row in some if row is not None]
            if len(some) < _CANDIDATES_BETWEEN_LOOKS:
                return True, rows
        return False, rows


class RelaySocket(ControlSocket):
    """Serves the status of this process, and the clients from the control socket of another.

    Args:
        path: the socket; one that a dead process left is replaced.
        status: makes the status of this process.
        other: the control socket of the process that knows the clients.
        away: the answer while that process does not answer, in one sentence.
    """

    def __init__(self, path: Path, status: Callable[[], Status], other: Path, away: str) -> None:
        super().__init__(path)
        self._status = status
        self._other = other
        self._away = away

    async def _answers(self, question: dict[str, Any]) -> AsyncGenerator[Answer, None]:
        if question.get("ask") == "status":
            yield self._status()
            return
        try:
            async with aclosing(ask_async(self._other, question)) as answers:
                async for answer in answers:
                    yield answer
        except ValueError as error:
            yield {"error": str(error)}
        except NotRunningError:
            yield {"unavailable": self._away}


def _frame(answer: Answer) -> bytes:
    body = json.dumps(answer, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


def _read_body(body: bytes) -> Answer | None:
    """The answer in a frame; None for the end.

    Raises:
        ValueError: the node refused the request.
        NotRunningError: a part of the node does not answer now.
    """
    answer: Answer = json.loads(body)
    if "error" in answer:
        raise ValueError(answer["error"])
    if "unavailable" in answer:
        raise NotRunningError(answer["unavailable"])
    return None if answer.get("end") is True else answer


def ask(path: Path, question: dict[str, Any]) -> Iterator[Answer]:
    """Sends a request to the control socket at `path`; yields the answer in pieces.

    Raises:
        NotRunningError: no process listens there, or it does not go on within five seconds.
        ValueError: the node refused the request.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_WITHIN_S)
            with unix_address(path) as address:
                connection.connect(address)
            connection.sendall(_frame(question))
            with connection.makefile("rb") as file:
                while (answer := _read_body(_next_body(file))) is not None:
                    yield answer
    except TimeoutError as error:
        raise NotRunningError(f"the node behind {path} did not answer within {ANSWER_WITHIN_S:.0f} s") from error
    except OSError as error:
        raise NotRunningError(
            f"no node answers at {path}: none runs there, or it has another data directory (--log-dirs)"
        ) from error


def read_status(path: Path) -> Status:
    """The status of the node with the control socket at `path`.

    Raises:
        NotRunningError: no node listens there, or it does not answer within five seconds.
    """
    for answer in ask(path, {"ask": "status"}):
        return answer
    raise NotRunningError(f"the node behind {path} sent no response")


async def read_status_async(path: Path) -> Status:
    """See `read_status`; for use on a loop."""
    async with aclosing(ask_async(path, {"ask": "status"})) as answers:
        async for answer in answers:
            return answer
    raise NotRunningError("the node sent no response")


def _next_body(file: Any) -> bytes:
    header = file.read(_LENGTH.size)
    size = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else 0
    body: bytes = file.read(size)
    if not size or len(body) != size:
        raise ConnectionError("the node ended the connection before the end of its answer")
    return body


async def ask_async(path: Path, question: dict[str, Any]) -> AsyncGenerator[Answer, None]:
    """See `ask`; for use on a loop."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            with unix_address(path) as address:
                reader, writer = await asyncio.open_unix_connection(address)
        try:
            writer.write(_frame(question))
            while True:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                    body = await reader.readexactly(min(size, MAX_ANSWER_BYTES))
                answer = _read_body(body)
                if answer is None:
                    return
                yield answer
        finally:
            writer.close()
    except TimeoutError as error:
        raise NotRunningError(f"the node did not answer within {ANSWER_WITHIN_S:.0f} s") from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise NotRunningError("the node does not answer") from error
