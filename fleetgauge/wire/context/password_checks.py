"""Password checks, which take milliseconds each: run in one thread beside the loop, fairly among client networks."""

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cachetools import LRUCache

from fleetgauge.base.library_log import get_logger
from fleetgauge.wire.sasl.mechanism import PasswordCheck

log = get_logger(__name__)

_NETWORK_SHARE: Final = 8
"""Divisor: the part of all waiting checks that one network may have."""
_MAX_DEMOTED: Final = 10_000
"""Maximum number of networks remembered for a wrong password; beyond it, the least recent one is forgotten."""


class PasswordChecks:
    """The password checks of one listener.

    Networks take turns, one check each, so that a network that sends many passwords delays only itself. Networks whose
    latest password was wrong come last, so that a flood from many networks delays only itself too. Excess checks are
    refused without a result: the password may be right, so the client must not get an authentication error.

    Args:
        max_waiting: maximum number of waiting checks; of one network, an eighth of it.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max = max(1, max_waiting)
        self._max_of_network = max(1, self._max // _NETWORK_SHARE)
        # By network, the one whose turn is next first; the checks of each oldest first.
        self._waiting: OrderedDict[str, dict[asyncio.Future[bool | None], PasswordCheck]] = OrderedDict()
        self._waiting_count = 0
        self._is_busy = False
        self._executor: ThreadPoolExecutor | None = None
        self._demoted: LRUCache[str, None] = LRUCache(_MAX_DEMOTED)  # networks whose latest password was wrong

    def submit(
        self, check: PasswordCheck, network: str, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[bool | None]:
        """Queues a password check; the result is None if the check is refused, now or later.

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
        """Stops the thread; waiting checks are cancelled."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _make_room(self, network: str) -> bool:
        """False if the network has its share, or the queue is full and no other network has a lower priority."""
        own = len(self._waiting.get(network, ()))
        if own >= self._max_of_network:
            return False
        if self._waiting_count < self._max:
            return True
        last = max(self._waiting, key=lambda each: (each in self._demoted, len(self._waiting[each])))
        if (last in self._demoted, len(self._waiting[last])) <= (network in self._demoted, own + 1):
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
        network = next((each for each in self._waiting if each not in self._demoted), first)
        result = next(iter(self._waiting[network]))
        check = self._remove(network, result)
        assert check is not None
        if network in self._waiting:
            self._waiting.move_to_end(network)
        if self._executor is None:
            # One thread, which leaves a core for clients; the hash is computed without the interpreter's lock.
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="password-check")
        self._is_busy = True
        running = loop.run_in_executor(self._executor, check.run)
        running.add_done_callback(lambda done: self._finish(done, network, result, loop))

    def _finish(
        self,
        done: asyncio.Future[bool | None],
        network: str,
        result: asyncio.Future[bool | None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._is_busy = False
        if done.cancelled():  # the listener has stopped
            return
        error = done.exception()
        if error is not None:  # a local error: the password may be right
            log.error("wire.password_check_failed", exc_info=error)
        else:
            is_right = done.result()
            if is_right is not None:
                self._remember(network, is_right)
        if not result.done():
            result.set_result(None if error is not None else done.result())
        self._run_next(loop)

    def _remember(self, network: str, is_right: bool) -> None:
        self._demoted.pop(network, None)
        if not is_right:
            self._demoted[network] = None
