"""SASL PLAIN by hand, outside our own code: single logins, and a flood of wrong ones."""

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Self

from support.clients.raw_client import RawClient, framed
from support.waiting import pause_async

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
NONE, SASL_AUTHENTICATION_FAILED, THROTTLING_QUOTA_EXCEEDED = 0, 58, 89


def handshake(mechanism: str = "PLAIN", correlation_id: int = 1) -> bytes:
    name = mechanism.encode()
    return framed(struct.pack(">hhih", SASL_HANDSHAKE, 1, correlation_id, -1) + struct.pack(">h", len(name)) + name)


def authenticate(token: bytes, correlation_id: int = 2) -> bytes:
    return framed(
        struct.pack(">hhih", SASL_AUTHENTICATE, 1, correlation_id, -1) + struct.pack(">i", len(token)) + token
    )


def plain(user: str, password: str) -> bytes:
    return b"\0" + user.encode() + b"\0" + password.encode()


def log_in(client: RawClient, user: str, password: str) -> int:
    """The error code of a login; raises OSError where the connection ends without one."""
    client.send(handshake())
    client.receive_frame()
    client.send(authenticate(plain(user, password)))
    (code,) = struct.unpack_from(">h", client.receive_frame(), 4)
    return int(code)


def is_served(client: RawClient) -> bool:
    """True if the node answers GetTelemetrySubscriptions, which needs a login; too soon after another one, too."""
    return client.get().error_code in (NONE, THROTTLING_QUOTA_EXCEEDED)


MAX_OPEN = 400


class Flood:
    """Connections that each send `first` and wait for their end, at a steady rate, from a thread of its own; at most
    `MAX_OPEN` at once, so that the test process stays able to act.

    Attributes:
        outcomes: how the connections ended: an error code, `closed` (without an answer), or `unconnected`.
    """

    def __init__(self, port: int, sources: Sequence[str], first: Callable[[int], bytes], *, per_second: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._port = port
        self._sources = cycle(sources)
        self._first = first
        self._per_second = per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        sent, running = 0, set[asyncio.Task[None]]()
        while not self._stop.is_set():
            next_s = loop.time() + 0.02
            for _ in range(min(self._per_second // 50, MAX_OPEN - len(running))):
                task = loop.create_task(self._attack(sent))
                running.add(task)
                task.add_done_callback(running.discard)
                sent += 1
            await pause_async(next_s - loop.time(), "the rate of the flood")
        await asyncio.gather(*running)

    async def _attack(self, number: int) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(next(self._sources), 0))
        except OSError:
            self.outcomes["unconnected"] += 1
            return
        try:
            writer.write(self._first(number))
            self.outcomes[await self._end_of(reader)] += 1
        except (OSError, EOFError):
            self.outcomes["closed"] += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _end_of(self, reader: asyncio.StreamReader) -> str:
        last = b""
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    head = await reader.readexactly(4)
                    last = await reader.readexactly(*struct.unpack(">i", head))
                    if last[:4] == struct.pack(">i", 2):
                        return str(struct.unpack_from(">h", last, 4)[0])
        return "unfinished"
