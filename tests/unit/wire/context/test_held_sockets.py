import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from support.waiting import PATIENCE_S

from fleetgauge.wire.context.held_sockets import HeldSockets


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_S))


def is_open(held: socket.socket) -> bool:
    return held.fileno() >= 0


def pairs(count: int) -> tuple[list[socket.socket], list[socket.socket]]:
    made = [socket.socketpair() for _ in range(count)]
    return [ours for ours, _ in made], [theirs for _, theirs in made]


def test_a_socket_is_closed_when_its_time_is_up() -> None:
    async def main() -> None:
        held = HeldSockets(asyncio.get_running_loop())
        (ours,), (theirs,) = pairs(1)
        theirs.setblocking(False)
        held.close_after(ours, 20)
        assert is_open(ours)
        assert len(held) == 1
        assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b"", "the other end sees the close"
        assert len(held) == 0
        theirs.close()

    run(main())


def test_a_socket_with_no_time_is_closed_at_once() -> None:
    async def main() -> None:
        held = HeldSockets(asyncio.get_running_loop())
        (ours,), (theirs,) = pairs(1)
        held.close_after(ours, 0)
        assert not is_open(ours)
        assert len(held) == 0
        theirs.close()

    run(main())


def test_of_too_many_the_oldest_goes_early_and_an_end_closes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetgauge.wire.context.held_sockets.MAX_HELD", 2)

    async def main() -> None:
        held = HeldSockets(asyncio.get_running_loop())
        ours, theirs = pairs(3)
        for each in ours:
            held.close_after(each, 60_000)
        assert [is_open(each) for each in ours] == [False, True, True]
        held.close_all()
        assert [is_open(each) for each in ours] == [False, False, False]
        assert len(held) == 0
        for each in theirs:
            each.close()

    run(main())
