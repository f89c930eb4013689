"""First and last offsets of the topic's partitions, requested over a separate connection that no fetch blocks."""

from collections.abc import Iterable
from typing import Any, Final

from fleetgauge.push_log.kafka_topic.clients import make_admin, text_of
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError

_REQUEST_S: Final = 2.0


class TopicOffsets:
    """Requests offsets. Thread-safe.

    Args:
        settings: the topic and its cluster.
        is_committed: True for ends before which every transaction is committed or aborted.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    def __init__(self, settings: KafkaTopicSettings, *, is_committed: bool = False) -> None:
        self._settings = settings
        self._is_committed = is_committed
        self._topic = settings.topic
        self._admin = make_admin(settings)

    def beginnings(self, partitions: Iterable[int]) -> dict[int, int]:
        """Partition -> offset of the oldest record.

        Raises:
            PushLogError: no answer within two seconds.
        """
        return self._request(partitions, "earliest")

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Partition -> offset of the next record to come; errors as `beginnings`."""
        return self._request(partitions, "latest")

    def _request(self, partitions: Iterable[int], which: str) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition, admin

        specs: Any = admin  # the library's types leave OffsetSpec out
        spec = getattr(specs.OffsetSpec, which)()
        wanted = {TopicPartition(self._topic, partition): spec for partition in partitions}
        if not wanted:
            return {}
        isolation = IsolationLevel.READ_COMMITTED if self._is_committed else IsolationLevel.READ_UNCOMMITTED
        try:
            asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_REQUEST_S)
            offsets = {place.partition: answer.result().offset for place, answer in asked.items()}
        except KafkaException as error:
            if error.args[0].code() == KafkaError.FENCED_LEADER_EPOCH:
                # librdkafka's admin client keeps the leader epochs that it learned first: a new one learns them anew.
                self._admin = make_admin(self._settings)
            raise PushLogError(f"cannot read the offsets of topic {self._topic}: {text_of(error.args[0])}") from error
        if min(offsets.values()) < 0:  # without an error, when the broker ends in mid-request
            raise PushLogError(f"cannot read the offsets of topic {self._topic}: no broker answers")
        return offsets
