"""The demo's clients: real librdkafka producers and consumers, which push their metrics without further code.

One consumer misbehaves: its application works for half a second after each `poll()`, so that it hardly returns to it.
"""

import threading
from collections.abc import Callable
from typing import Any

from fleetgauge.base.clock import Time
from fleetgauge.demo.processes import DemoError

PRODUCER_IDS = ("orders-producer", "billing-producer")
SLOW_CONSUMER_ID = "invoices-consumer"
WORK_S = {"audit-consumer": 0.0, SLOW_CONSUMER_ID: 0.5}
"""Work of each consumer's application after each `poll()` [s]."""
CLIENT_IDS = (*PRODUCER_IDS, *WORK_S)

_POLL_S = 0.02
_PUSHES_WITHIN_MS = 30_000
_ANSWERED_MS = 200
"""Time after which a client has the response to a push that is in the log; its next push follows 800 ms after the last
one at the earliest.
"""


class _Application:
    """A consumer, and a thread that polls it and works in turn."""

    def __init__(self, consumer: Any, work_s: float) -> None:
        self._consumer, self._work_s = consumer, work_s
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, then closes the consumer, which sends its terminating push."""
        self._is_ending.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._is_ending.wait(self._work_s):
            self._consumer.poll(_POLL_S)


class Clients:
    """Two producers and two consumers of `confluent-kafka`.

    Args:
        bootstrap: host:port of the node.
        pushes: returns how many pushes of a client id the node has logged.
        time: the clocks.

    Raises:
        DemoError: confluent-kafka is not installed.
    """

    def __init__(self, bootstrap: str, pushes: Callable[[str], int], time: Time) -> None:
        try:
            from confluent_kafka import Consumer, Producer  # the kafka extra
        except ModuleNotFoundError as error:
            raise DemoError("the demo needs confluent-kafka: pip install 'fleetgauge[kafka,tables]'") from error
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 3}
        self._producers = {client_id: Producer({**common, "client.id": client_id}) for client_id in PRODUCER_IDS}
        self._clients: dict[str, Any] = dict(self._producers)
        for client_id, work_s in WORK_S.items():
            consumer = Consumer({**common, "client.id": client_id, "group.id": client_id.removesuffix("-consumer")})
            self._clients[client_id] = _Application(consumer, work_s)
        self._pushes = pushes
        self._time = time
        self._pause = threading.Event()

    def run_until_each_pushed(self, number: int, progress: Callable[[int], None]) -> None:
        """Keeps the clients busy until each has `number` pushes in the log.

        Args:
            number: pushes per client.
            progress: called with the pushes so far, of `number` per client.

        Raises:
            DemoError: they did not push that often in 30 s; the text has the counts.
        """
        deadline_ms = self._time.hi_res_clock_ms() + _PUSHES_WITHIN_MS
        while True:
            counts = {client_id: self._pushes(client_id) for client_id in CLIENT_IDS}
            progress(sum(min(count, number) for count in counts.values()))
            if all(count >= number for count in counts.values()):
                return
            if self._time.hi_res_clock_ms() > deadline_ms:
                raise DemoError(f"the clients pushed less than {number} times each in 30 s: {counts}")
            self._poll_all()

    def close_each_between_pushes(self) -> None:
        """Closes each client between two of its pushes: librdkafka sends a terminating push if none is in flight.

        Raises:
            DemoError: a client stopped pushing.
        """
        for client_id in CLIENT_IDS:
            before = self._pushes(client_id)
            deadline_ms = self._time.hi_res_clock_ms() + _PUSHES_WITHIN_MS
            while self._pushes(client_id) == before:
                if self._time.hi_res_clock_ms() > deadline_ms:
                    raise DemoError(f"{client_id} pushed no more")
                self._poll_all()
            answered_ms = self._time.hi_res_clock_ms() + _ANSWERED_MS
            while self._time.hi_res_clock_ms() < answered_ms:
                self._poll_all()
            self._producers.pop(client_id, None)
            self._clients.pop(client_id).close()

    def _poll_all(self) -> None:
        for producer in self._producers.values():
            producer.poll(_POLL_S)
        if not self._producers:
            self._pause.wait(_POLL_S)
