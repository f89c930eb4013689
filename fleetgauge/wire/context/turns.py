"""Fair queue of connections that have more frames waiting than one turn allows.

If hundreds of them each took a turn in every iteration of the loop, all other work would be delayed by seconds: a push
is answered in the iteration after the one that reads it. So they wait in one queue, and one iteration runs turns for a
few milliseconds only. A client that sends one request and awaits its response is never queued.
"""

import asyncio
from collections import deque
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.wire.context.open_connection import OpenConnection

TURN_MS: Final = 5
"""Maximum time of a turn from its second request on, and of the queue in one iteration of the loop [ms]."""


class Turns:
    """Queue of a listener's connections that wait for their next turn.

    Args:
        loop, time: loop and clock of the listener.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, time: Time) -> None:
        self._loop = loop
        self._time = time
        self._waiting: deque[OpenConnection] = deque()
        self._is_coming = False
        self._is_giving = False

    @property
    def turn_ms(self) -> int:
        """Maximum time of a turn that begins now [ms]; 0 (two requests) outside the queue while others wait in it."""
        return TURN_MS if self._is_giving or not self._waiting else 0

    def wait_for(self, channel: OpenConnection) -> None:
        """Appends a connection to the queue; its turn follows in a later iteration of the loop."""
        self._waiting.append(channel)
        self._give_soon()

    def _give_soon(self) -> None:
        if not self._is_coming:
            self._is_coming = True
            self._loop.call_soon(self._give)

    def _give(self) -> None:
        """Runs turns until `TURN_MS` have passed, at most one per connection."""
        self._is_coming = False
        self._is_giving = True
        ends_ms = self._time.hi_res_clock_ms() + TURN_MS
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft().take_turn()
                if self._time.hi_res_clock_ms() >= ends_ms:
                    break
        finally:  # an error in one turn must not stop the queue
            self._is_giving = False
            if self._waiting:
                self._give_soon()
