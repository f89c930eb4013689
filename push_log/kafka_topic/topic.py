"""Creates a missing topic. These functions block, so they run in a thread."""

from typing import TYPE_CHECKING, Final

import structlog

from push_log.kafka_topic.clients import text_of
from push_log.kafka_topic.settings import KafkaTopicSettings
from push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

log = structlog.get_logger(__name__)

_REQUEST_S: Final = 3.0


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


def topic_config(settings: KafkaTopicSettings) -> dict[str, str]:
    """The configuration of a topic that is created here."""
    return {
        "cleanup.policy": "delete",
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
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # exported all the same

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
