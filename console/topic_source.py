"""The console's reader of a topic: all partitions, no consumer group, an hour back at the start."""

from base.clock import SystemTime, Time
from console.source import Polled
from push_log.kafka_topic.settings import KafkaTopicSettings


class TopicSource:
    """All partitions of a topic. While the brokers are unreachable it says so in `notices`, and tries again.

    Args:
        settings: the topic and its cluster.
        time: the clocks.
    """

    def __init__(self, settings: KafkaTopicSettings, time: Time | None = None) -> None:
        self._settings = settings
        self._time = time or SystemTime()
        self.notices: list[str] = []
        self.skipped = 0

    def poll(self, max_pushes: int) -> Polled:
        """See `Source.poll`."""
        return Polled()

    def close(self) -> None:
        """See `Source.close`."""
