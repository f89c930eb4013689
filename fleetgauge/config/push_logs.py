"""The push log's settings out of the configuration, one function for each kind of log."""

from exporters.push_log.kafka_topic.settings import KafkaTopicSettings
from exporters.push_log.settings import PushLogSettings
from fleetgauge.config.model import ServiceConfig
from fleetgauge.data_dir import DataDirectory


def embedded_settings(config: ServiceConfig) -> PushLogSettings:
    """Of the log in the data directory."""
    return PushLogSettings(
        dir=DataDirectory(config.log_dirs.absolute()).push_log,
        segment_bytes=config.push_log_segment_bytes,
        segment_ms=config.push_log_segment_ms,
        retention_bytes=config.push_log_retention_bytes,
        retention_ms=config.push_log_retention_ms,
        flush=config.push_log_flush,
        min_free_bytes=config.push_log_min_free_bytes,
    )


def topic_settings(config: ServiceConfig) -> KafkaTopicSettings:
    """Of the Kafka topic."""
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
