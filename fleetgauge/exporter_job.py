"""What the parent tells the exporter process to do: one line of JSON between them."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from exporters.dead_letter import DeadLetterSettings
from exporters.push_log.kafka_topic.settings import KafkaTopicSettings
from exporters.push_log.settings import PushLogSettings
from exporters.redaction import secrets_in
from fleetgauge.config import ServiceConfig
from fleetgauge.config.push_logs import (
    LogPlace,
    dead_letter_settings,
    embedded_logs,
    embedded_settings,
    topic_settings,
)
from fleetgauge.data_dir import DataDirectory


class LoggingJob(BaseModel):
    """How the process logs."""

    level: str
    format: Literal["auto", "human", "json"]


class Job(BaseModel):
    """What the process is to do, as its parent writes it.

    Attributes:
        log_dirs: the data directory.
        push_log: which log to read; of the embedded one, also what its upkeep needs.
        logs: where the embedded ones lie, if there are several; they share the settings in `push_log`.
        exporters: keys by name, as configured.
        dead_letters: where the pushes are kept that a destination refused.
        instance: tells the processes apart that share a landing zone and a host; empty where there is one.
        logging: how it logs.
        status_socket: where whoever started the process says how all of it does, for `self_metrics`.
    """

    log_dirs: Path
    push_log: PushLogSettings | KafkaTopicSettings
    logs: tuple[LogPlace, ...] = ()
    exporters: dict[str, dict[str, Any]]
    dead_letters: DeadLetterSettings
    instance: str = ""
    logging: LoggingJob
    status_socket: Path | None = None

    def secrets(self) -> frozenset[str]:
        """The values that no log line may show."""
        client = self.push_log.client if isinstance(self.push_log, KafkaTopicSettings) else {}
        return frozenset((*secrets_in("exporters", self.exporters), *secrets_in("client", client)))

    @classmethod
    def of(cls, config: ServiceConfig, instance: str = "", status_socket: Path | None = None) -> "Job":
        """The job out of a configuration."""
        logs = () if config.push_log == "kafka" else embedded_logs(config)
        return cls(
            log_dirs=config.log_dirs.absolute(),
            push_log=topic_settings(config) if config.push_log == "kafka" else embedded_settings(config),
            logs=logs if len(logs) > 1 else (),
            exporters=config.exporters,
            dead_letters=dead_letter_settings(config),
            instance=instance,
            logging=LoggingJob(level=config.logging_level, format=config.logging_format),
            status_socket=status_socket or DataDirectory(config.log_dirs.absolute()).status_socket,
        )

    @classmethod
    def of_node(cls, config: ServiceConfig) -> "Job":
        """The job of the process beside a node's listeners, which may share a topic with `fleetgauge export`."""
        instance = f"{DataDirectory(config.log_dirs).identifier}-serve" if config.push_log == "kafka" else ""
        return cls.of(config, instance)
