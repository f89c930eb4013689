"""Connection quotas for acceptors on an event loop: waiting is awaited."""

import asyncio
from collections.abc import Callable
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.connections.connection_decisions import Admit, Refuse, Wait
from fleetgauge.quotas.connections.connection_quotas import Connection, ConnectionQuotas


class AsyncioConnectionQuotas:
    """`inc` and `dec` on one event loop; limits and other connections may change on other threads.

    Args:
        quotas: makes the decisions.
        time: the clocks; only the monotonic one is read.
        loop: the loop of `inc`.
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
        """Counts an accepted connection, after the wait that the limits of listener and broker require.

        A cancelled wait leaves nothing counted.

        Args:
            listener_name: one that was added.
            address: of the client; None if `ConnectionQuotas.identify` sets it later.
            on_wait: called at the start of every wait.

        Raises:
            TooManyConnectionsError: its address has reached its maximum; close it.
            ConnectionThrottledError: its address exceeds its rate; close it after `throttle_time_ms`.
            LookupError: there is no such listener.
        """
        connection = self.quotas.arrive(listener_name, self._time.hi_res_clock_ms(), address)
        while True:
            with self.quotas.lock:  # no room can be made unnoticed between decision and wait
                decision = self.quotas.decide(connection, self._time.hi_res_clock_ms())
                room = self._await_room() if decision == Wait(None) else None
            if isinstance(decision, Admit):
                return connection
            if isinstance(decision, Refuse):
                raise decision.error
            on_wait(decision)
            await self._wait(decision, room)

    def dec(self, connection: Connection) -> None:
        """Ends the counting of a connection; see `ConnectionQuotas.dec`."""
        self.quotas.dec(connection)

    def close(self) -> None:
        """Unsubscribes; no connection may be waiting."""
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
        """Called when there may be room, on any thread, with the quotas' lock held."""
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for room in self._waiting:
            if not room.done():
                room.set_result(None)
