"""The topic itself: made when it is missing, by whatever appends to it. What blocks here runs in a thread."""

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
    """Returns when the topic is there; makes it when it is missing. Blocks for a few seconds at most.

    Raises:
        PushLogError: no broker answers, or the topic is missing and cannot be made; the text says which.
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
        _warn_of_small_records(admin, settings)


def topic_config(settings: KafkaTopicSettings) -> dict[str, str]:
    """The topic's own configuration, as it is made."""
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
        log.info("created a topic", topic=settings.topic, partitions=settings.partitions)


def _warn_of_small_records(admin: "AdminClient", settings: KafkaTopicSettings) -> None:
    """Says so where the topic takes less than the largest push; nothing where a broker does not tell."""
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
            "a topic takes smaller records than the largest push; larger ones are refused when they do "
            "not compress below it",
            topic=settings.topic,
            max_message_bytes=allowed,
            wanted=settings.max_record_bytes,
        )


def _number(value: object) -> int | None:
    """A setting's value as it came; None where a broker, or what stands in for one, leaves it out."""
    return int(value) if isinstance(value, str) and value.isdecimal() else None
