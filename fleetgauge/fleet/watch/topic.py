"""A Kafka topic as destination for changes of verdicts, written by librdkafka."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.watch.changes import Change, Row
from fleetgauge.fleet.watch.http import DeliveryError

_FLUSHED_WITHIN_S: Final = 15.0
_SETTINGS: Final = {
    "enable.idempotence": "true",
    "message.timeout.ms": "10000",  # before a flush ends: nothing stays in the queue that is delivered again
    "enable.metrics.push": "false",  # it would be a client of the fleet that it watches
    "log_level": "0",  # what fails is noted once, not once a connection
}


class ToTopic:
    """Writes records of JSON; the key is the verdict's id, so that its changes keep their order.

    Args:
        topic: where to; its properties are librdkafka's.

    Raises:
        FleetError: a setting is none of librdkafka's.
    """

    repeats = False

    def __init__(self, topic: TopicSource) -> None:
        self.name = f"topic {topic}"
        self._topic = topic.topic
        self._settings = {**_SETTINGS, **_properties(topic.properties), "bootstrap.servers": topic.bootstrap_servers}
        try:
            self._producer: Any = Producer(dict(self._settings))
        except KafkaException as error:
            raise FleetError(f"--topic-config: {error.args[0].str()}") from error

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        """See `fleet.watch.destinations.Destination`."""
        faults: list[str] = []
        try:
            for change in changes:
                self._producer.produce(
                    self._topic,
                    key=change.id,
                    value=json.dumps(change.as_json()),
                    on_delivery=lambda error, _: faults.append(error.str()) if error else None,
                )
        except (KafkaException, BufferError) as error:
            faults.append(str(error))
        left = self._producer.flush(_FLUSHED_WITHIN_S)
        if faults or left:
            self._producer = Producer(dict(self._settings))  # one that failed for good takes nothing any more
            raise DeliveryError(faults[0] if faults else f"no broker answered within {_FLUSHED_WITHIN_S:.0f} s")

    def repeat(self, rows: Mapping[str, Row], at: datetime) -> None:
        """A topic keeps its records: nothing to repeat."""


def _properties(text: str) -> dict[str, str]:
    """Properties from lines `name=value`; lines that begin with # are comments.

    Raises:
        FleetError: a line is neither.
    """
    properties = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise FleetError("--topic-config has a line that is not name=value")
            properties[name.strip()] = value.strip()
    return properties
