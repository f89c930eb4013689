"""Whose turn it is among the connections that have more to handle than one turn allows.

Hundreds of them, each with its turn in every iteration of the loop, hold up everything else by seconds: a push is
answered in the iteration after the one in which it is read. So they wait in one queue, and an iteration gives turns for
a few milliseconds. A client that sends one request and awaits its response never waits in it.
"""

import asyncio
from collections import deque
from typing import Final

from base.clock import Time
from wire.open_connection import OpenConnection

TURN_MS: Final = 5
"""How long a turn takes from its second request on, and how long the queue takes of one iteration of the loop [ms]."""


class Turns:
    """The connections of one listener that wait for their next turn.

    Args:
        loop, time: the listener's.
    """

    __slots__ = ("_is_coming", "_is_giving", "_loop", "_time", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, time: Time) -> None:
        self._loop = loop
        self._time = time
        self._waiting: deque[OpenConnection] = deque()
        self._is_coming = False
        self._is_giving = False

    @property
    def turn_ms(self) -> int:
        """How long a turn takes that begins now [ms]: outside the queue two requests and no more, while others wait."""
        return TURN_MS if self._is_giving or not self._waiting else 0

    def wait_for(self, channel: OpenConnection) -> None:
        """Puts a connection at the end of the queue; its turn comes in a later iteration of the loop."""
        self._waiting.append(channel)
        self._give_soon()

    def _give_soon(self) -> None:
        if not self._is_coming:
            self._is_coming = True
            self._loop.call_soon(self._give)

    def _give(self) -> None:
        """Gives turns until `TURN_MS` have passed, at most one to each connection."""
        self._is_coming = False
        self._is_giving = True
        ends_ms = self._time.hi_res_clock_ms() + TURN_MS
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft().take_turn()
                if self._time.hi_res_clock_ms() >= ends_ms:
                    break
        finally:  # a fault in one turn must not end the turns of all
            self._is_giving = False
            if self._waiting:
                self._give_soon()
