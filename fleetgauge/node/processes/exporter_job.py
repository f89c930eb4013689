"""The job of the exporter process: plain values that its parent makes from the configuration and sends as one line.

The exporter process does not import the configuration's model, which needs pydantic and the listener's rooms.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fleetgauge.base.redaction import secrets_in
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.exporters.group_offsets.settings import OffsetsSettings
from fleetgauge.node.data_dir import DataDirectory, LogPlace
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

if TYPE_CHECKING:
    from fleetgauge.node.config import ServiceConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingJob:
    """Log settings of the process.

    Attributes:
        level: debug, info, warning or error.
        format: see `node.logs`.
        secrets: the values that no log line may show.
    """

    level: str
    format: Literal["auto", "human", "json"]
    secrets: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsJob:
    """The inventory of the clients whose pushes the process reads.

    Attributes:
        socket: the control socket that lists them.
        max_size: how many are kept.
    """

    socket: Path
    max_size: int


def _secrets_of(*settings: OffsetsSettings | ClusterSettings | None) -> frozenset[str]:
    clients = [each.client for each in settings if each is not None]
    return frozenset(text for client in clients for key, value in client.items() for text in secrets_in(key, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The exporters to run, and the push log that they read.

    Attributes:
        log_dirs: the data directory.
        push_log: settings of the log to read; those of an embedded one include its retention.
        logs: the embedded logs, if there are several; they share the settings in `push_log`.
        exporters: keys by name, as configured.
        dead_letters: settings of the store for pushes that a destination rejects.
        instance: distinguishes processes that share a landing zone and a host; empty where there is one.
        logging: how it logs.
        node_socket: the parent's control socket, which `self_metrics` queries.
        clients: its inventory of clients; None where the listener knows them.
        offsets: settings of the sampler of consumer groups; None where there is none.
        deadlines: the cluster whose subscriptions are taken back in time; None where there is none.
        hang_timeout_ms: time after which a process that does not report, or an exporter that does not return from a
            call, counts as hung [ms]; 0: never.
    """

    log_dirs: Path
    push_log: PushLogSettings | KafkaTopicSettings
    logs: tuple[LogPlace, ...] = ()
    exporters: dict[str, dict[str, Any]]
    dead_letters: DeadLetterSettings
    instance: str = ""
    logging: LoggingJob
    node_socket: Path
    clients: ClientsJob | None = None
    offsets: OffsetsSettings | None = None
    deadlines: ClusterSettings | None = None
    hang_timeout_ms: int = 0

    @classmethod
    def of(cls, config: "ServiceConfig", instance: str = "", *, is_node: bool = True) -> "Job":
        """The job that a configuration describes; `is_node`: beside listeners."""
        from fleetgauge.node.config.offsets import deadline_settings, offsets_settings
        from fleetgauge.node.config.push_logs import (
            dead_letter_settings,
            embedded_logs,
            embedded_settings,
            topic_settings,
        )

        offsets, deadlines = offsets_settings(config, instance), deadline_settings(config, is_node=is_node)
        logs = () if config.push_log == "kafka" else embedded_logs(config)
        return cls(
            log_dirs=config.log_dirs.absolute(),
            push_log=topic_settings(config) if config.push_log == "kafka" else embedded_settings(config),
            logs=logs if len(logs) > 1 else (),
            exporters=config.exporters,
            dead_letters=dead_letter_settings(config),
            instance=instance,
            logging=LoggingJob(
                level=config.logging_level,
                format=config.logging_format,
                secrets=config.secrets(("exporters", "push.log.kafka.client")) | _secrets_of(offsets, deadlines),
            ),
            offsets=offsets,
            deadlines=deadlines,
            hang_timeout_ms=config.exporter_hang_timeout_seconds * 1000,
            node_socket=DataDirectory(config.log_dirs.absolute()).node_socket,
        )

    @classmethod
    def of_export(cls, config: "ServiceConfig", number: int) -> "Job":
        """The job of export `number` of the data directory."""
        data = DataDirectory(config.log_dirs.absolute())
        clients = ClientsJob(socket=data.export_clients_socket(number), max_size=config.client_instances_max)
        job = cls.of(config, f"{data.identifier}-{number}", is_node=False)
        return replace(job, node_socket=data.export_socket(number), clients=clients)

    @classmethod
    def of_node(cls, config: "ServiceConfig") -> "Job":
        """The job of the process beside a node's listeners, which may share a topic with `fleetgauge export`."""
        instance = f"{DataDirectory(config.log_dirs).identifier}-serve" if config.push_log == "kafka" else ""
        return cls.of(config, instance)
