"""Thousands of connections through one gateway process, each with its own to the broker."""

import asyncio
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import uvloop
from support.gateway.gateway import GatewayBefore
from support.gateway.gateway_traffic import request, response
from support.rss import rss_bytes
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.soak, pytest.mark.timeout(900)]
PAIRS = 8_000
AT_ONCE = 250
ROUNDS = 3
REQUESTS = 2
MIB = 1 << 20
KEYS = ("max.connections.per.ip=20000", "gateway.traffic.interval.ms=0")
"""All come from one address; the writer of traffic's rows would be loaded meanwhile."""
HEARTBEAT = request(12, 4, 7, b"\x06group" + struct.pack(">i", 1) + b"\x07member" + b"\0\0")
ANSWER = response(12, 4, 7, struct.pack(">ih", 0, 0) + b"\0")


class Broker(asyncio.Protocol):
    """Answers Heartbeats."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert data == HEARTBEAT
        self._transport.write(ANSWER)


class Client(asyncio.Protocol):
    """Sends a Heartbeat when told, and is done when it is answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self) -> "asyncio.Future[None]":
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport.write(HEARTBEAT)
        return self._answered

    def data_received(self, data: bytes) -> None:
        assert data == ANSWER
        self._answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the gateway has closed the connection"))


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Both ends of both connections of a pair that are not the gateway's are this process's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * PAIRS + 1_000
    if before[1] != resource.RLIM_INFINITY and before[1] < wanted:
        pytest.skip(f"needs {wanted} open files, and the hard limit is {before[1]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_many_files")
def test_eight_thousand_pairs_are_served_and_memory_stays_flat(tmp_path: Path) -> None:
    memory: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Broker, "127.0.0.1", 0, backlog=1_024)
        port = server.sockets[0].getsockname()[1]
        with GatewayBefore(tmp_path, port, *KEYS) as gateway:
            assert gateway.process is not None
            before = rss_bytes(gateway.process.pid)
            for _ in range(ROUNDS):
                clients = await connected(gateway.port)
                for _ in range(REQUESTS):
                    await answered(clients)
                status = await asyncio.to_thread(gateway.status)
                assert status["connections"][0]["open"] == PAIRS
                assert status["gateway"]["broker_connections"] == PAIRS
                memory.append(rss_bytes(gateway.process.pid) - before)
                for client in clients:
                    client.transport.close()
                await asyncio.to_thread(
                    gateway.wait_for,
                    lambda status: not status["connections"][0]["open"] + status["gateway"]["broker_connections"],
                    what="the end of all pairs",
                )
            closed = gateway.status()["connections"][0]["closed"]
            assert closed == {"client_closed": ROUNDS * PAIRS}
        server.close()

    async def connected(port: int) -> list[Client]:
        clients: list[Client] = []
        while len(clients) < PAIRS:
            loop = asyncio.get_running_loop()
            made = await asyncio.gather(*(loop.create_connection(Client, "127.0.0.1", port) for _ in range(AT_ONCE)))
            new = [client for _, client in made]
            await answered(new)
            clients += new
        return clients

    async def answered(clients: list[Client]) -> None:
        for start in range(0, len(clients), AT_ONCE):
            answers = asyncio.gather(*(each.send() for each in clients[start : start + AT_ONCE]))
            await asyncio.wait_for(answers, PATIENCE_S)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
    print(
        f"{PAIRS} pairs: {[round(each / MIB, 1) for each in memory]} MiB"
    )  # with -s, for docs/reference/performance.md
    assert max(memory) < PAIRS * 8 * 1024, "of a pair"
    assert max(memory) - memory[0] < 4 * MIB, "pairs that have ended leave nothing"
