"""The plugin's topic as it grows: tells when a client's next push is there.

librdkafka sends its terminating push only where none is under way when it is closed, so that whoever wants to see one
closes a client right after a push.
"""

import time
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

PARTITIONS = 3


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

    def close_after_a_push(self, client_id: str, client: Producer | Consumer, *, within_s: float = 60.0) -> None:
        """Polls `client` until its next push is on the topic, and closes it."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            client.poll(0)
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                headers = dict(message.headers() or [])
                if headers.get("client_id") == client_id.encode():
                    client.close()
                    return
        raise AssertionError(f"{client_id} pushed no more")
