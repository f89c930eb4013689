"""Offsets of a topic to read, queried from its brokers with librdkafka in this process.

They are fixed before Spark reads: a job that reads a topic twice reads the same records twice, and what is wrong with
the address, the topic or the rights to it is known, and said, within seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from fleetgauge.base.client_properties import ClientSettingError, for_librdkafka, read_properties
from fleetgauge.base.redaction import hide, secrets_in
from fleetgauge.fleet.errors import NotInstalledError, TopicError
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic.source import TopicSource

API_TIMEOUT_MS: Final = 15_000
CLOCK_SKEW: Final = timedelta(minutes=1)
"""Largest difference between a record's timestamp and the earlier time of receipt in the record: clocks differ."""

MAX_DELAY: Final = timedelta(hours=1)
"""Longest delay between receipt and arrival on the topic, behind later pushes, with which `--until` still finds a push.
"""

_OWN_SETTINGS: Final = {
    "enable.metrics.push": "false",  # lest the reader feed the topic that it reads
    "log_level": "0",  # what fails is said once, by what is raised
}
_CONNECTING: Final = ("security.", "sasl.", "ssl.", "client.id")
"""Prefixes of the settings that librdkafka needs to query offsets; Spark's connector takes the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets of one partition: `start` is the first, `end` the one after the last."""

    start: int
    end: int


def client_options(source: TopicSource) -> dict[str, str]:
    """The settings of Kafka's client, under Kafka's names; its own telemetry is off, lest the reader feed the topic."""
    of_file = read_properties(source.properties)
    return {**of_file, **source.options, "bootstrap.servers": source.bootstrap_servers, "enable.metrics.push": "false"}


def find_spans(source: TopicSource, options: Mapping[str, str], selection: Selection) -> dict[int, Span]:
    """Offsets of each partition that cover the selection.

    Raises:
        TopicError: no broker answers, there is no such topic, it may not be read, or nothing is on it.
        NotInstalledError: there is no confluent-kafka.
    """
    with _Topic(source, options) as topic:
        bounds = topic.bounds()
        if all(span.start == span.end for span in bounds.values()):
            raise TopicError(f"the topic {source.topic} on {source.bootstrap_servers} has no pushes yet")
        starts = {number: span.start for number, span in bounds.items()}
        ends = {number: span.end for number, span in bounds.items()}
        if selection.since is not None:
            starts = topic.first_since(selection.since - CLOCK_SKEW, ends)
        if selection.until is not None:
            ends = topic.first_since(selection.until + MAX_DELAY, ends)
    return {number: Span(start=min(starts[number], end), end=end) for number, end in ends.items()}


def find_bounds(source: TopicSource, options: Mapping[str, str]) -> dict[int, Span]:
    """Offsets that each partition holds now.

    Raises:
        TopicError: no broker answers, there is no such topic, or it may not be read.
        NotInstalledError: there is no confluent-kafka.
    """
    with _Topic(source, options) as topic:
        return topic.bounds()


class _Topic:
    """Partitions and offsets of a topic; as a context manager, it turns librdkafka's exceptions into TopicError."""

    def __init__(self, source: TopicSource, options: Mapping[str, str]) -> None:
        try:
            import confluent_kafka
            import confluent_kafka.admin
        except ModuleNotFoundError as error:
            raise NotInstalledError(
                f"{error.name} is not installed; reading a topic needs it: pip install 'fleetgauge[spark]'"
            ) from error
        self._kafka: Any = confluent_kafka
        self._source = source
        self._options = options
        self._within_s = int(options.get("default.api.timeout.ms", API_TIMEOUT_MS)) / 1000
        self._secrets = tuple(secrets_in("client", dict(options)))
        self._last_error = ""

    def __enter__(self) -> Self:
        connecting = {key: value for key, value in self._options.items() if key.startswith(_CONNECTING)}
        try:
            settings = for_librdkafka(connecting) | _OWN_SETTINGS | {"error_cb": self._note}
            self._admin = self._kafka.admin.AdminClient(
                settings | {"bootstrap.servers": self._source.bootstrap_servers}
            )
        except (ClientSettingError, self._kafka.KafkaException) as error:
            raise self._failure(error) from error
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, self._kafka.KafkaException):
            raise self._failure(error) from error

    def _note(self, error: Any) -> None:
        """Records why a connection failed, since a request that times out does not report it."""
        if error.code() != self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()

    def bounds(self) -> dict[int, Span]:
        """First offset of each partition, and the offset after its last record."""
        wanted = self._kafka.TopicCollection([self._source.topic])
        described = self._admin.describe_topics(wanted, request_timeout=self._within_s)
        numbers = [partition.id for partition in described[self._source.topic].result().partitions]
        spec = self._kafka.admin.OffsetSpec
        latest = self._offsets(numbers, spec.latest())
        earliest = self._offsets(numbers, spec.earliest())
        return {number: Span(start=earliest[number], end=latest[number]) for number in numbers}

    def first_since(self, moment: datetime, ends: Mapping[int, int]) -> dict[int, int]:
        """First offset below the end, by partition, whose record is at or after the time; the end if there is none."""
        spec = self._kafka.admin.OffsetSpec.for_timestamp(max(0, int(moment.timestamp() * 1000)))
        offsets = self._offsets(list(ends), spec)
        return {number: min(offsets[number], end) if offsets[number] >= 0 else end for number, end in ends.items()}

    def _offsets(self, numbers: Sequence[int], spec: Any) -> dict[int, int]:
        wanted = {self._kafka.TopicPartition(self._source.topic, number): spec for number in numbers}
        asked = self._admin.list_offsets(wanted, request_timeout=self._within_s)
        return {place.partition: answer.result().offset for place, answer in asked.items()}

    def _failure(self, error: Exception) -> TopicError:
        codes, topic, where = self._kafka.KafkaError, self._source.topic, self._source.bootstrap_servers
        if isinstance(error, ClientSettingError):
            return TopicError(f"cannot read {topic} on {where}: {error}")
        code, said = error.args[0].code(), hide(error.args[0].str(), self._secrets)
        if code == codes.UNKNOWN_TOPIC_OR_PART:
            return TopicError(
                f"there is no topic {topic} on {where}, or this client may not see it: name the push log's topic"
            )
        if code in (codes._TIMED_OUT, codes._TRANSPORT, codes.REQUEST_TIMED_OUT):
            said = hide(self._last_error, self._secrets) or said
            return TopicError(
                f"no Kafka broker responds as expected at {where} ({said}): check address and security settings"
            )
        if code in (codes.TOPIC_AUTHORIZATION_FAILED, codes.CLUSTER_AUTHORIZATION_FAILED):
            return TopicError(f"this client may not read {topic} on {where}: {said}")
        return TopicError(f"cannot read {topic} on {where}: {said}")
