"""Exports to a Kafka topic: push records unchanged, or labelled OTLP for other consumers.

`format = record` writes the records of a push log's topic (docs/operate/push-log-kafka.md), which `fleetgauge export`
and `fleet` read. `format = otlp` writes each push as an `ExportMetricsServiceRequest` with the broker's labels, as the
Collector's Kafka receiver reads it (`encoding: otlp_proto`), without heartbeats. In both formats the key is the client
instance id, which keeps a client's pushes in order, and the header `push_id` identifies repeats.

A batch is delivered when all in-sync replicas have all its records. For a topic as push log see `push_log.kafka_topic`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.redaction import HIDDEN
from fleetgauge.exporters.exporter import BatchSettings, Delivered, Outcome, Retry, RetrySettings, converted
from fleetgauge.exporters.kafka.outcome import failed_delivery
from fleetgauge.exporters.labels import Labeller, LabelSettings
from fleetgauge.exporters.options import Options, batch_settings, label_settings, retry_settings
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError
from fleetgauge.push_log.kafka_topic.clients import make_admin, make_producer, text_of
from fleetgauge.push_log.kafka_topic.record_codec import TopicRecord, encode_record
from fleetgauge.push_log.kafka_topic.settings import DEFAULT_PARTITIONS, OWN_CLIENT_KEYS, KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic
from fleetgauge.push_log.log import Batch, PushLogError
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

FORMATS: Final = ("record", "otlp")

_RESERVED_KEYS: Final = OWN_CLIENT_KEYS | {"message.max.bytes", "transactional.id"}
"""Settings that `client.*` cannot change: delivery depends on them."""
_TIMEOUT_KEYS: Final = ("delivery.timeout.ms", "message.timeout.ms")
_POLL_S: Final = 0.05
"""Maximum time until a close takes effect [s]."""
_GRACE_MS: Final = 2_000
"""Extra wait for a delivery report beyond `timeout.ms`, at which the producer itself drops records [ms]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopicExporterSettings:
    """A `kafka_topic` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        topic: keys `bootstrap.servers` and `topic`, both required; `topic.partitions`, `topic.replication.factor` and
            `topic.retention.ms` of a topic that the exporter creates; `max.record.bytes`; `client.<setting>`:
            settings of librdkafka, for example for TLS and SASL.
        format: `record` or `otlp` (key `format`).
        timeout_ms: maximum time until all in-sync replicas acknowledge a record (key `timeout.ms`) [ms].
        batch: keys `batch.max.bytes`, `batch.max.records`, `linger.ms`.
        retry: keys `retry.backoff.ms`, `retry.backoff.max.ms`.
        labels: for `format = otlp`; keys `labels`, `static.labels`, `namespace`, `label.max.bytes`.
    """

    topic: KafkaTopicSettings
    format: str = "record"
    timeout_ms: int = 10_000
    batch: BatchSettings = BatchSettings(max_bytes=4 * 1024 * 1024, max_records=5_000, linger_ms=200)
    retry: RetrySettings = RetrySettings(backoff_max_ms=3_000)
    labels: LabelSettings = LabelSettings()


class _Flight:
    """The records of one `export` that are in flight, and their delivery reports."""

    def __init__(self, records: int) -> None:
        self.waiting = records
        self.arrived: set[str] = set()
        self.errors: list[KafkaError] = []

    def settle(self, push_id: str, error: "KafkaError | None", _message: object) -> None:
        """The delivery callback of a record."""
        self.waiting -= 1
        if error is None:
            self.arrived.add(push_id)
        else:
            self.errors.append(error)


class KafkaTopicExporter:
    """Writes to one topic; creates it if it is missing."""

    def __init__(self, name: str, settings: KafkaTopicExporterSettings, *, time: Time | None = None) -> None:
        self.name = name
        self.settings = settings
        self.batch = settings.batch
        self.retry = settings.retry
        self._time = time or SystemTime()
        self._labeller = Labeller(settings.labels) if settings.format == "otlp" else None
        self._producer: Producer | None = None
        self._fatal = self._topic_is_there = self._closed = False
        self._first_error = ""
        self._has_already: set[str] = set()

    @property
    def destination(self) -> str:
        """The topic and its brokers."""
        return f"topic {self.settings.topic.topic} at {self.settings.topic.bootstrap_servers}"

    @property
    def takes_any_payload(self) -> bool:
        """True for push records, which are another push log: their readers examine payloads."""
        return self._labeller is None

    def start(self) -> None:
        """Does nothing: `reach` and the first batch connect, and can return a failure with its reason."""

    def reach(self) -> Retry | None:
        """Looks up the topic, and creates it if it is missing. See `Exporter`."""
        try:
            self._ready_producer()
        except PushLogError as error:
            return Retry(reason="topic", detail=str(error))
        return None

    def close(self) -> None:
        """Makes a running `export` return; may be called twice."""
        self._closed = True
        self._producer = None  # a running `export` keeps it until it returns

    def export(self, batch: Batch) -> Outcome:
        """Sends the batch, and returns when all in-sync replicas have its records, or some records have failed.

        The records of a failed batch that did arrive are remembered, and left out of the next attempt.
        """
        try:
            producer = self._ready_producer()
        except PushLogError as error:
            return Retry(reason="topic", detail=str(error))
        wanted = [record for record in batch.records if self._is_wanted(record)]
        records, refused = converted(wanted, self._encode, MalformedPayloadError, UnicodeEncodeError)
        flight = _Flight(len(records))
        deadline_ms = self._time.hi_res_clock_ms() + self.settings.timeout_ms + _GRACE_MS
        try:
            self._send(producer, records, flight, deadline_ms)
            self._await_reports(producer, flight, deadline_ms)
        finally:
            self._has_already |= flight.arrived
        outcome = self._outcome(flight)
        if isinstance(outcome, Delivered):
            self._has_already.difference_update(record.push_id for record in batch.records)
            return Delivered(refused=refused)
        if len(self._has_already) > 2 * self.batch.max_records:  # batches that passed to another process
            self._has_already.clear()
        return outcome

    def _ready_producer(self) -> "Producer":
        if self._closed:
            raise PushLogError("the exporter is closed")
        self._first_error = ""
        producer = self._producer
        if producer is None or self._fatal:
            self._fatal = False
            self._producer = producer = make_producer(self.settings.topic, self._on_error)
        if not self._topic_is_there:
            try:
                ensure_topic(make_admin(self.settings.topic), self.settings.topic)
            except PushLogError as error:
                producer.poll(0)  # its error tells why, where the lookup of the topic only timed out
                raise PushLogError(f"{error}{self._first_error}") from error
            self._topic_is_there = True
        return producer

    def _on_error(self, error: "KafkaError") -> None:
        """The producer's error callback: after a fatal error the next attempt makes another producer."""
        self._fatal = self._fatal or error.fatal()
        if not self._first_error:  # later errors only tell that all brokers are down
            self._first_error = f"; the Kafka client reports: {text_of(error)}"

    def _is_wanted(self, record: PushRecord) -> bool:
        """False for a record that the topic has already, and for a heartbeat in OTLP."""
        return record.push_id not in self._has_already and (self._labeller is None or bool(record.metrics))

    def _encode(self, record: PushRecord) -> tuple[str, TopicRecord]:
        """The push id, and the record of the topic."""
        if self._labeller is None:
            return record.push_id, encode_record(record)
        key, labelled = record.client_instance_id.encode(), self._labeller.labelled(record)
        return record.push_id, TopicRecord(key, labelled, [("push_id", record.push_id.encode())])

    def _send(
        self, producer: "Producer", records: list[tuple[str, TopicRecord]], flight: _Flight, deadline_ms: int
    ) -> None:
        """Hands the records to the producer, as fast as its queue accepts them."""
        from confluent_kafka import KafkaException

        topic = self.settings.topic.topic
        for push_id, (key, value, headers) in records:
            while not self._is_over(deadline_ms):
                try:
                    producer.produce(topic, value, key, headers=headers, on_delivery=partial(flight.settle, push_id))
                except BufferError:
                    producer.poll(_POLL_S)
                    continue
                except KafkaException as error:
                    flight.settle(push_id, error.args[0], None)
                break

    def _await_reports(self, producer: "Producer", flight: _Flight, deadline_ms: int) -> None:
        while flight.waiting and not self._is_over(deadline_ms):
            producer.poll(_POLL_S)
        if flight.waiting:
            producer.purge()
            producer.poll(0)
            self._fatal = True  # records may still be in flight in it

    def _is_over(self, deadline_ms: int) -> bool:
        return self._closed or self._time.hi_res_clock_ms() >= deadline_ms

    def _outcome(self, flight: _Flight) -> Outcome:
        if self._closed and (flight.waiting or flight.errors):
            return Retry(reason="cancelled", detail="the exporter is closed")
        if flight.errors:
            failure = failed_delivery(flight.errors, self.settings.topic.topic, self._first_error)
            self._topic_is_there = failure.topic_is_there
            # A producer's metadata of a deleted topic may not fit the topic that replaces it.
            is_spent = not failure.topic_is_there or any(error.fatal() for error in flight.errors)
            self._fatal = self._fatal or is_spent
            return failure.outcome
        if flight.waiting:
            return Retry(reason="no_report", detail=f"{flight.waiting} records were neither delivered nor failed")
        return Delivered()


def kafka_topic_exporter(name: str, values: Mapping[str, object]) -> KafkaTopicExporter:
    """Makes an exporter from the keys of `[exporters.<name>]`, which `KafkaTopicExporterSettings` lists.

    Raises:
        ExporterConfigError: a key is unknown, or `bootstrap.servers` or `topic` is missing, a value is not allowed, or
            confluent-kafka is not installed or refuses a setting.
    """
    options = Options(name, values)
    timeout_ms = options.integer("timeout.ms", 10_000, minimum=1_000, maximum=900_000)
    form = options.choice("format", "record", FORMATS)
    topic = _topic_settings(options, timeout_ms)
    default = KafkaTopicExporterSettings(topic=topic)
    settings = KafkaTopicExporterSettings(
        topic=topic,
        format=form,
        timeout_ms=timeout_ms,
        batch=batch_settings(options, default.batch),
        retry=retry_settings(options, default.retry),
        labels=label_settings(options, default.labels) if form == "otlp" else default.labels,
    )
    options.finish()
    try:
        make_producer(topic, lambda error: None)
    except PushLogError as error:
        raise options.error("client", HIDDEN, str(error)) from error
    return KafkaTopicExporter(name, settings)


def _topic_settings(options: Options, timeout_ms: int) -> KafkaTopicSettings:
    client = dict(options.mapping("client", secret=True))
    for key in client:
        if key in _RESERVED_KEYS:
            raise options.error(f"client.{key}", HIDDEN, "that is set by Fleetgauge, since delivery depends on it")
        if key in _TIMEOUT_KEYS:
            raise options.error(f"client.{key}", HIDDEN, "that is what timeout.ms sets")
    retention_ms = options.integer("topic.retention.ms", 7 * 24 * 3_600_000, minimum=-1, maximum=2**53)
    if retention_ms == 0:
        raise options.error("topic.retention.ms", retention_ms, "expected a positive number, or -1 for no limit")
    replication_factor = options.integer("topic.replication.factor", -1, minimum=-1, maximum=32_767)
    if replication_factor == 0:
        raise options.error("topic.replication.factor", 0, "expected a positive number, or -1 for the broker's own")
    return KafkaTopicSettings(
        bootstrap_servers=",".join(options.listed("bootstrap.servers")),
        topic=options.text("topic", ""),
        partitions=options.integer("topic.partitions", DEFAULT_PARTITIONS, minimum=1),
        replication_factor=replication_factor,
        retention_ms=retention_ms,
        client={
            "client.id": f"fleetgauge-{options.exporter}",
            "reconnect.backoff.max.ms": "1000",  # delivery resumes within seconds of the brokers' return
            **client,
            "delivery.timeout.ms": str(timeout_ms),
        },
        max_payload_bytes=options.integer("max.record.bytes", 16 * 1024 * 1024, minimum=1),
    )
