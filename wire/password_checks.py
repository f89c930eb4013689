"""Password checks, which take milliseconds each: done in one thread beside the loop, fairly among clients' networks."""

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from cachetools import LRUCache

from wire.sasl.mechanism import PasswordCheck

log = structlog.get_logger(__name__)

_NETWORK_SHARE: Final = 8
"""One network may have this part of all waiting checks, so that the rest of the room is there for others."""
_MAX_SUSPECTS: Final = 10_000
"""Networks that are remembered for a wrong password; of more, the one whose latest came first is forgotten."""


class PasswordChecks:
    """The password checks of one listener.

    Networks take turns, a check each, so that a network that sends many passwords delays itself. Those whose latest
    password was wrong come after all others, so that a flood from many networks delays itself too. What is too much is
    refused without a check; that says nothing of the password, so the client must not be told that it is wrong.

    Args:
        max_waiting: checks that may wait, of all networks; of one network an eighth of them.
    """

    __slots__ = ("_executor", "_is_busy", "_max", "_max_of_network", "_suspects", "_waiting", "_waiting_count")

    def __init__(self, max_waiting: int) -> None:
        self._max = max(1, max_waiting)
        self._max_of_network = max(1, self._max // _NETWORK_SHARE)
        # By network, the one whose turn is next first; the checks of each oldest first.
        self._waiting: OrderedDict[str, dict[asyncio.Future[bool | None], PasswordCheck]] = OrderedDict()
        self._waiting_count = 0
        self._is_busy = False
        self._executor: ThreadPoolExecutor | None = None
        self._suspects: LRUCache[str, None] = LRUCache(_MAX_SUSPECTS)  # networks whose latest password was wrong

    def submit(
        self, check: PasswordCheck, network: str, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[bool | None]:
        """Has a password checked when its network's turn comes; None where it is not checked, now or later.

        Cancel the result when the connection has ended.
        """
        result: asyncio.Future[bool | None] = loop.create_future()
        if not self._make_room(network):
            result.set_result(None)
            return result
        self._waiting.setdefault(network, {})[result] = check
        self._waiting_count += 1
        result.add_done_callback(lambda _: self._remove(network, result))
        self._run_next(loop)
        return result

    def close(self) -> None:
        """Checks no more."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _make_room(self, network: str) -> bool:
        """False if the network has its share, or there is no room and no other network has less right to its own."""
        own = len(self._waiting.get(network, ()))
        if own >= self._max_of_network:
            return False
        if self._waiting_count < self._max:
            return True
        last = max(self._waiting, key=lambda each: (each in self._suspects, len(self._waiting[each])))
        if (last in self._suspects, len(self._waiting[last])) <= (network in self._suspects, own + 1):
            return False
        newest = next(reversed(self._waiting[last]))
        self._remove(last, newest)
        newest.set_result(None)
        return True

    def _remove(self, network: str, result: asyncio.Future[bool | None]) -> PasswordCheck | None:
        checks = self._waiting.get(network)
        check = checks.pop(result, None) if checks is not None else None
        if check is not None:
            self._waiting_count -= 1
            if not checks:
                del self._waiting[network]
        return check

    def _run_next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_busy or not self._waiting:
            return
        first = next(iter(self._waiting))
        network = next((each for each in self._waiting if each not in self._suspects), first)
        result = next(iter(self._waiting[network]))
        check = self._remove(network, result)
        assert check is not None
        if network in self._waiting:
            self._waiting.move_to_end(network)
        if self._executor is None:
            # One thread, so that a core is left for the clients; the hash is computed without the interpreter's lock.
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="password-check")
        self._is_busy = True
        running = loop.run_in_executor(self._executor, check.run)
        running.add_done_callback(lambda done: self._finish(done, network, result, loop))

    def _finish(
        self,
        done: asyncio.Future[bool],
        network: str,
        result: asyncio.Future[bool | None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._is_busy = False
        if done.cancelled():  # the listener has stopped
            return
        error = done.exception()
        if error is not None:  # a fault of ours, which says nothing of the password
            log.error("a password could not be checked", exc_info=error)
        else:
            self._remember(network, done.result())
        if not result.done():
            result.set_result(None if error is not None else done.result())
        self._run_next(loop)

    def _remember(self, network: str, is_right: bool) -> None:
        self._suspects.pop(network, None)
        if not is_right:
            self._suspects[network] = None
