"""Connection quotas for acceptors that are tasks of an event loop: who has to wait awaits."""

import asyncio
from collections.abc import Callable
from typing import Final

from base.arguments import check_types
from base.clock import Time
from quotas.connection_decisions import Admit, Refuse, Wait
from quotas.connection_quotas import Connection, ConnectionQuotas


class AsyncioConnectionQuotas:
    """`inc` and `dec` on one event loop; limits and other connections may change in other threads.

    Args:
        quotas: decides.
        time: the clocks; only the monotonic one is read.
        loop: on which `inc` is awaited.
    """

    def __init__(self, quotas: ConnectionQuotas, time: Time, loop: asyncio.AbstractEventLoop) -> None:
        check_types(quotas=(quotas, ConnectionQuotas), time=(time, "hi_res_clock_ms"))
        self.quotas: Final = quotas
        self._time = time
        self._loop = loop
        self._waiting: set[asyncio.Future[None]] = set()
        quotas.subscribe(self._wake)

    async def inc(
        self, listener_name: str, address: str | None = None, on_wait: Callable[[Wait], None] = lambda _: None
    ) -> Connection:
        """Counts a connection that was just accepted, after the wait that the limits of listener and broker ask for.

        A wait that is cancelled leaves nothing counted.

        Args:
            listener_name: one that was added.
            address: whose connection it is; None where `ConnectionQuotas.identify` will say that later.
            on_wait: told of every wait when it begins.

        Raises:
            TooManyConnectionsError: its address has enough of them; close it.
            ConnectionThrottledError: its address makes them too fast; hold it for `throttle_time_ms`, then close it.
            LookupError: there is no such listener.
        """
        connection = self.quotas.arrive(listener_name, self._time.hi_res_clock_ms(), address)
        while True:
            with self.quotas.lock:  # from the decision to the wait nobody can make room unnoticed
                decision = self.quotas.decide(connection, self._time.hi_res_clock_ms())
                room = self._await_room() if decision == Wait(None) else None
            if isinstance(decision, Admit):
                return connection
            if isinstance(decision, Refuse):
                raise decision.error
            on_wait(decision)
            await self._wait(decision, room)

    def dec(self, connection: Connection) -> None:
        """Gives back a connection that was counted; see `ConnectionQuotas.dec`."""
        self.quotas.dec(connection)

    def close(self) -> None:
        """Is told of nothing any more; nobody may be waiting."""
        self.quotas.unsubscribe(self._wake)

    def _await_room(self) -> asyncio.Future[None]:
        room = self._loop.create_future()
        self._waiting.add(room)
        return room

    async def _wait(self, decision: Wait, room: asyncio.Future[None] | None) -> None:
        if room is None:
            await asyncio.sleep((decision.ms or 0) / 1_000)
            return
        try:
            await room
        finally:
            self._waiting.discard(room)

    def _wake(self) -> None:
        """There may be room; called in any thread, with the quotas' lock held."""
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for room in self._waiting:
            if not room.done():
                room.set_result(None)
