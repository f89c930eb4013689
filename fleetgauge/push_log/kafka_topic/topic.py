"""Creates a missing topic. These functions block, so they run in a thread."""

from typing import TYPE_CHECKING, Final

from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.kafka_topic.clients import text_of
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

log = get_logger(__name__)

_REQUEST_S: Final = 3.0


class WrongTopicError(PushLogError):
    """The topic's partitions or configuration do not fit its use."""


def ensure_topic(admin: "AdminClient", settings: KafkaTopicSettings) -> None:
    """Returns once the topic exists; creates a missing one. Blocks for a few seconds at most.

    Raises:
        PushLogError: no broker answers, or the topic is missing and cannot be created.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    described = admin.describe_topics(TopicCollection([settings.topic]), request_timeout=_REQUEST_S)
    try:
        described[settings.topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise PushLogError(
                f"cannot reach topic {settings.topic} at {settings.bootstrap_servers}: {text_of(error.args[0])}"
            ) from error
        _create(admin, settings)
    else:
        _check_record_limit(admin, settings)


def check_compacted(admin: "AdminClient", settings: KafkaTopicSettings) -> None:
    """Checks that an existing topic keeps the last record of each key, all in one order.

    Raises:
        WrongTopicError: it has several partitions, or is not compacted.
        PushLogError: no broker answers, or there is no such topic.
    """
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import ConfigResource, ResourceType

    topic, resource = settings.topic, ConfigResource(ResourceType.TOPIC, settings.topic)
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_S)[topic].result()
        configs = admin.describe_configs([resource], request_timeout=_REQUEST_S)[resource].result()
    except KafkaException as error:
        raise PushLogError(
            f"cannot read topic {topic} at {settings.bootstrap_servers}: {text_of(error.args[0])}"
        ) from error
    if len(described.partitions) != 1:
        raise WrongTopicError(f"topic {topic} has {len(described.partitions)} partitions, and needs exactly one")
    policy = configs["cleanup.policy"].value
    if policy != "compact":
        raise WrongTopicError(
            f"topic {topic} has cleanup.policy={policy}, and needs compact: others delete its records"
        )


def topic_config(settings: KafkaTopicSettings) -> dict[str, str]:
    """The configuration of a topic that is created here."""
    return {
        "cleanup.policy": settings.cleanup_policy,
        "compression.type": "producer",
        "max.message.bytes": str(settings.max_record_bytes),
        "retention.ms": str(settings.retention_ms),
    }


def _create(admin: "AdminClient", settings: KafkaTopicSettings) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    wanted = NewTopic(settings.topic, settings.partitions, settings.replication_factor, config=topic_config(settings))
    try:
        admin.create_topics([wanted], request_timeout=_REQUEST_S)[settings.topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise PushLogError(
                f"topic {settings.topic} does not exist and cannot be created: {text_of(error.args[0])}"
            ) from error
    else:
        log.info("push_log.topic_created", topic=settings.topic, partitions=settings.partitions)


def _check_record_limit(admin: "AdminClient", settings: KafkaTopicSettings) -> None:
    """Logs a warning if the topic's record limit is below the largest push, if the broker returns that limit."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, settings.topic)
    try:
        entries = admin.describe_configs([resource], request_timeout=_REQUEST_S)[resource].result()
    except KafkaException:
        return
    allowed = _number(getattr(entries.get("max.message.bytes"), "value", None))
    if allowed is not None and allowed < settings.max_record_bytes:
        log.warning(
            "push_log.topic_record_limit",
            message="pushes that do not compress below max.message.bytes of the topic are rejected",
            topic=settings.topic,
            max_message_bytes=allowed,
            wanted=settings.max_record_bytes,
        )


def _number(value: object) -> int | None:
    """The value of a setting; None if the broker does not return it."""
    return int(value) if isinstance(value, str) and value.isdecimal() else None
