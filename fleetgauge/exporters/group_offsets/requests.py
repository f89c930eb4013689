"""Requests to a cluster, bounded in rate and in number under way; their outcomes as values or Kafka's error names."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from fleetgauge.base.clock import Time

_MOST_UNDER_WAY: Final = 32
"""Once there are so many, half of them have to end before the next begins: a thread that wakes for each costs more than
the request."""
_BURST_MS: Final = 100.0
"""Time by which requests may run ahead of the rate, for the same reason."""
_GRACE_S: Final = 2.0
"""librdkafka ends a request by itself after its timeout; so much later it is left alone."""

TIMED_OUT: Final = "TIMED_OUT"
NOT_SAMPLED: Final = "NOT_SAMPLED"
"""The round had to end, or the broker did not answer others, before this was asked."""

Found = TypeVar("Found")


class Requests:
    """Starts requests, each once there is room for it.

    Args:
        per_s: requests [1/s].
        timeout_s: of each [s]; librdkafka is given the same.
        time: the clocks.
    """

    def __init__(self, per_s: float, timeout_s: float, time: Time) -> None:
        self._pause_ms = 1000 / per_s
        self._timeout_s = timeout_s
        self._time = time
        self._under_way = 0
        self._has_room = threading.Condition()
        self._next_ms = 0.0
        self.stopped = threading.Event()
        self.count = 0

    def stop(self) -> None:
        """Lets waits end at once, from any thread."""
        self.stopped.set()

    def begin(self, make: Callable[[], "Iterable[Future[Any]]"]) -> "list[Future[Any]]":
        """Starts one request, after a wait if there are many; its futures."""
        now_ms = self._time.hi_res_clock_ms()
        self._next_ms = max(self._next_ms, now_ms) + self._pause_ms
        if (ahead_ms := self._next_ms - now_ms) > _BURST_MS:
            self.stopped.wait(ahead_ms / 1000)
        with self._has_room:
            if self._under_way >= _MOST_UNDER_WAY:
                self._has_room.wait_for(self._is_half_done, self._timeout_s + _GRACE_S)
            self._under_way += 1
        self.count += 1
        futures = _begun(make)
        futures[-1].add_done_callback(self._end)
        return futures

    def _is_half_done(self) -> bool:
        return self._under_way <= _MOST_UNDER_WAY // 2

    def _end(self, _: object) -> None:
        """One request less is under way: the last future of each stands for all."""
        with self._has_room:
            self._under_way -= 1
            if self._is_half_done():
                self._has_room.notify()

    def finish(self, futures: "Iterable[Future[Any]]") -> None:
        """Waits until these are done, or had time enough."""
        wait(list(futures), timeout=self._timeout_s + _GRACE_S)


def _begun(make: Callable[[], "Iterable[Future[Any]]"]) -> "list[Future[Any]]":
    """The futures of a request; one that failed if librdkafka does not take it, as of a group whose name is empty."""
    try:
        return list(make())
    except Exception as error:  # noqa: BLE001  # KafkaException, ValueError and others, by the argument at fault
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return [failed]


def error_of(future: "Future[Any]") -> str | None:
    """Kafka's name of what a request failed with; None if it succeeded.

    >>> future = Future()
    >>> error_of(future)
    'TIMED_OUT'
    """
    if not future.done():
        return TIMED_OUT
    error = future.exception()
    return None if error is None else name_of(error)


def name_of(error: object) -> str:
    """Kafka's name of an error, without librdkafka's underscore for its own; its exceptions have one as argument."""
    error = error.args[0] if isinstance(error, KafkaException) else error
    name = getattr(error, "name", None)
    return str(name()).removeprefix("_") if callable(name) else type(error).__name__
