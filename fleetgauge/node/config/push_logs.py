"""Settings and directories of the push logs, the state and the dead letters, from the configuration."""

from pathlib import Path

from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.node.config.model import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory, LogPlace
from fleetgauge.push_log.embedded.inspect import holds_pushes, is_log, undelivered
from fleetgauge.push_log.embedded.settings import MIB, PushLogSettings
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings


def embedded_settings(config: ServiceConfig) -> PushLogSettings:
    """Settings of the embedded log in the data directory."""
    return PushLogSettings(
        dir=DataDirectory(config.log_dirs.absolute()).push_log,
        segment_bytes=config.push_log_segment_bytes,
        segment_ms=config.push_log_segment_ms,
        retention_bytes=config.push_log_retention_bytes,
        retention_ms=config.push_log_retention_ms,
        flush=config.push_log_flush,
        min_free_bytes=config.push_log_min_free_bytes,
    )


def embedded_logs(config: ServiceConfig) -> tuple[LogPlace, ...]:
    """The logs that a node's exporters read: those that it writes, and those that earlier starts with another number of
    `workers` left with undelivered pushes.
    """
    data = DataDirectory(config.log_dirs.absolute())
    written = data.push_logs(range(1, config.workers + 1) if config.workers > 1 else (0,))
    there = data.push_logs((0, *data.worker_numbers()))
    left = {name: path for name, path in there.items() if name not in written and holds_pushes(path)}
    return (
        *(LogPlace(name=name, dir=path, is_abandoned=False) for name, path in written.items()),
        *(LogPlace(name=name, dir=path, is_abandoned=True) for name, path in left.items()),
    )


def unread_logs(config: ServiceConfig) -> dict[Path, int]:
    """Directory -> undelivered pushes of the embedded logs that are not read, since `push.log.type` is a topic.

    Raises:
        PushLogError: such a log cannot be read.
    """
    data = DataDirectory(config.log_dirs.absolute())
    there = data.push_logs((0, *data.worker_numbers())) if config.push_log == "kafka" else {}
    return {path: waiting for path in there.values() if is_log(path) and (waiting := undelivered(path))}


def dead_letter_settings(config: ServiceConfig) -> DeadLetterSettings:
    """Settings of the dead letters, which are in the data directory for either kind of push log."""
    return DeadLetterSettings(
        path=DataDirectory(config.log_dirs.absolute()).dead_letters,
        retention_bytes=config.dead_letter_retention_bytes,
        retention_ms=config.dead_letter_retention_ms,
    )


def topic_settings(config: ServiceConfig) -> KafkaTopicSettings:
    """Settings of the Kafka topic."""
    return KafkaTopicSettings(
        bootstrap_servers=",".join(config.push_log_kafka_bootstrap_servers),
        topic=config.push_log_kafka_topic,
        partitions=config.push_log_kafka_topic_partitions,
        replication_factor=config.push_log_kafka_topic_replication_factor,
        retention_ms=config.push_log_kafka_topic_retention_ms,
        group_prefix=config.push_log_kafka_group_prefix,
        client=config.push_log_kafka_client,
        max_payload_bytes=config.telemetry_max_decompressed_bytes,
    )


def state_topic_settings(config: ServiceConfig) -> KafkaTopicSettings:
    """Settings of the topic of the state."""
    return KafkaTopicSettings(
        bootstrap_servers=",".join(config.push_log_kafka_bootstrap_servers),
        topic=config.state_topic,
        partitions=1,
        replication_factor=config.push_log_kafka_topic_replication_factor,
        cleanup_policy="compact",
        client=config.push_log_kafka_client,
        max_payload_bytes=MIB,
    )


def state_file(config: ServiceConfig, data: DataDirectory) -> Path:
    """The file with what admin tools changed: the state of the node, or its copy of the topic."""
    return data.state_copy if config.state_store == "kafka" else data.state
