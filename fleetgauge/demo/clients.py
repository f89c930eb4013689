"""The demo's clients: real librdkafka producers and a consumer, which push their metrics without further code."""

from collections.abc import Callable
from typing import Any

from base.clock import Time
from fleetgauge.demo.processes import DemoError

PRODUCER_IDS = ("orders-producer", "billing-producer")
CONSUMER_ID = "audit-consumer"
CLIENT_IDS = (*PRODUCER_IDS, CONSUMER_ID)

_PUSHES_WITHIN_MS = 30_000


class Clients:
    """Two producers and a consumer of `confluent-kafka`.

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
            raise DemoError("the demo needs confluent-kafka: pip install 'fleetgauge[kafka,spark]'") from error
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 3}
        self._clients: dict[str, Any] = {
            client_id: Producer({**common, "client.id": client_id}) for client_id in PRODUCER_IDS
        }
        self._clients[CONSUMER_ID] = Consumer({**common, "client.id": CONSUMER_ID, "group.id": "audit"})
        self._pushes = pushes
        self._time = time

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
        """Closes each client right after one of its pushes: with none in flight, it sends its terminating push.

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
            self._clients.pop(client_id).close()

    def _poll_all(self) -> None:
        for client in self._clients.values():
            client.poll(0.02)
