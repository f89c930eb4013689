"""Creates the Kafka clients of the push log; `confluent-kafka` (extra `kafka`) is imported here.

Their own telemetry is disabled, so that the push log does not feed itself.
"""

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fleetgauge.base.redaction import HIDDEN, hide, secrets_in, without_credentials
from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

_FETCH_BYTES: Final = 32 * MIB
"""Bytes that a consumer prefetches [B]."""

_QUOTED_SETTING: Final = re.compile(r"(beginning at:|unsecured JWS claims:).*", re.DOTALL)

_LOGGER: Final = logging.getLogger("librdkafka")

OnError = Callable[["KafkaError"], None]


class KafkaClientMissingError(PushLogError):
    """`confluent-kafka` is not installed."""

    def __str__(self) -> str:
        return (
            "a Kafka topic, as push log or destination, needs confluent-kafka, which is not installed: "
            "pip install 'fleetgauge[kafka]'"
        )


def make_producer(settings: KafkaTopicSettings, on_error: OnError) -> "Producer":
    """A producer for the topic. Connects in the background.

    Args:
        settings: the topic and its cluster.
        on_error: called from within `poll` for errors of the client, beside the records' own outcomes.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """
    own = {
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": settings.max_record_bytes,
    }
    default = {
        "compression.type": "zstd",
        "delivery.timeout.ms": 10_000,
        "partitioner": "murmur2_random",  # as in the broker plugin: a client's pushes are in one partition
    }
    producer: Producer = _make("Producer", settings, {"client.id": "fleetgauge-push-log", **default}, own, on_error)
    return producer


def make_consumer(settings: KafkaTopicSettings, exporter: str, on_error: OnError) -> "Consumer":
    """A consumer in the exporter's group, not yet subscribed; otherwise as `make_producer`.

    Fleetgauge writes no transactions; read_committed skips aborted ones of other producers.
    """
    fetch_bytes = max(_FETCH_BYTES, settings.max_record_bytes)
    own = {
        "allow.auto.create.topics": False,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": False,
        "group.id": settings.group_of(exporter),
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    default = {
        "fetch.max.bytes": fetch_bytes,
        "receive.message.max.bytes": fetch_bytes + settings.max_record_bytes + MIB,
        "queued.max.messages.kbytes": _FETCH_BYTES // 1024,
        "session.timeout.ms": 15_000,  # a killed process keeps its partitions for this long
        "topic.metadata.refresh.interval.ms": 10_000,  # a new topic, or new partitions, are noticed within this time
    }
    consumer: Consumer = _make("Consumer", settings, {"client.id": f"fleetgauge-{exporter}", **default}, own, on_error)
    return consumer


def make_state_consumer(settings: KafkaTopicSettings) -> "Consumer":
    """A consumer of a compacted topic of changes, not yet assigned: it returns what transactions have committed, and an
    event at the end of a partition; otherwise as `make_producer`.
    """
    own = {
        "allow.auto.create.topics": False,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,  # the end of a partition is reported after such a wait
        "group.id": settings.group_of("state"),  # required by the client, and not used
        "isolation.level": "read_committed",
    }
    consumer: Consumer = _make("Consumer", settings, {"client.id": "fleetgauge-state"}, own, lambda error: None)
    return consumer


def make_state_producer(settings: KafkaTopicSettings) -> "Producer":
    """A producer of transactions, of which the one that was initialized last fences all others of the topic; otherwise
    as `make_producer`.
    """
    own = {
        "acks": "all",
        "enable.idempotence": True,
        "transactional.id": settings.topic,
        "transaction.timeout.ms": 10_000,
        "delivery.timeout.ms": 5_000,
        "message.max.bytes": settings.max_record_bytes,
    }
    quiet = logging.getLogger("librdkafka.state")
    quiet.disabled = True  # to be fenced is no fault, and the client logs it as one
    producer: Producer = _make("Producer", settings, {"client.id": "fleetgauge-state"}, own, lambda error: None, quiet)
    return producer


def make_admin(settings: KafkaTopicSettings) -> "AdminClient":
    """An admin client; otherwise as `make_producer`."""
    admin: AdminClient = _make("AdminClient", settings, {"client.id": "fleetgauge-admin"}, {}, lambda error: None)
    return admin


def check_clients(settings: KafkaTopicSettings) -> None:
    """Creates each client once and closes it, so that a wrong setting is reported at the start.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """
    make_producer(settings, lambda error: None)
    make_consumer(settings, "check", lambda error: None).close()


def _make(
    kind: str,
    settings: KafkaTopicSettings,
    default: dict[str, Any],
    own: dict[str, Any],
    on_error: OnError,
    logger: logging.Logger = _LOGGER,
) -> Any:
    try:
        import confluent_kafka
        from confluent_kafka.admin import AdminClient
    except ModuleNotFoundError as error:
        raise KafkaClientMissingError from error
    make = AdminClient if kind == "AdminClient" else getattr(confluent_kafka, kind)
    chosen = {
        "log_level": 2,  # errors are reported to `on_error`
        **default,
        **settings.client,
        **own,
        "bootstrap.servers": settings.bootstrap_servers,
        "enable.metrics.push": False,
        "error_cb": on_error,
    }
    try:
        return make(chosen, logger=logger)
    except confluent_kafka.KafkaException as error:
        problem = text_of(error.args[0])
    except (TypeError, ValueError) as error:  # confluent-kafka's, for a value of the wrong type
        problem = text_of(error)
    problem = hide(problem, secrets_in("client", settings.client))
    raise PushLogError(f"the Kafka client rejects its settings: {problem}")


def text_of(error: object) -> str:
    """The text and name of a `KafkaError`, without secrets.

    >>> text_of("anything else")
    'anything else'
    """
    name, text = getattr(error, "name", None), getattr(error, "str", None)
    message = f"{text()} ({name()})" if callable(name) and callable(text) else str(error)
    # librdkafka quotes the rest of sasl.oauthbearer.config, which contains the secret.
    return without_credentials(_QUOTED_SETTING.sub(rf"\1 {HIDDEN}", message))
