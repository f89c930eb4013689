"""Closing a client right after a push, which the topic or the embedded log tells of.

librdkafka sends its terminating push only where none is under way when it is closed: whoever wants to see one closes a
client when the answer to its last push is there, and the next one is not due.
"""

import time
from pathlib import Path
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from support.waiting import pause, wait_for

from fleetgauge.push_log.embedded.inspect import records_after

PARTITIONS = 3
_ANSWER_S = 0.25
"""What the answer to a push may still take once the push is in the log."""
_NEXT_S = 0.6
"""How old a push may be for the next one to be far off: these clients push each second, a fifth sooner or later."""


def close_after_a_push(push_log: Path, client_id: str, client: Producer | Consumer) -> None:
    """Polls `client` until its next push is in the embedded log, and closes it."""

    def last_pushed_at() -> float:
        pushes = (record for _, record in records_after(push_log) if record.client_id == client_id)
        return max((record.received_at / 1e6 for record in pushes), default=0.0)

    first = last_pushed_at()

    def closes() -> bool:
        client.poll(0.02)
        pushed_at = last_pushed_at()
        return pushed_at > first and _close_unless_due(client, pushed_at)

    wait_for(closes, f"a push of {client_id} whose next one is far off")


def _close_unless_due(client: Producer | Consumer, pushed_at: float) -> bool:
    """Closes it once its push of that time [s since the epoch] is answered; False if the next one may be due."""
    pause(_ANSWER_S, "the answer is on its way; poll would return at once where there is something to consume")
    if time.time() - pushed_at > _NEXT_S:
        return False
    client.close()
    return True


class PushWatch:
    """Reads what comes from now on, as a client that pushes nothing itself."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "watch", "enable.metrics.push": False, "log_level": 3}
        )
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(PARTITIONS)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def close_after_a_push(self, client_id: str, client: Producer | Consumer) -> None:
        """Polls `client` until its next push is on the topic, and closes it.

        What came meanwhile, while another client was being closed, tells nothing of this one's next push.
        """

        def closes() -> bool:
            client.poll(0)
            message = self._consumer.poll(0.05)
            if message is None or message.error() is not None:
                return False
            is_its_own = dict(message.headers() or []).get("client_id") == client_id.encode()
            return is_its_own and _close_unless_due(client, message.timestamp()[1] / 1000)

        wait_for(closes, f"a push of {client_id} whose next one is far off")
