"""What the listener process tells the exporter process to do: one line of JSON between them."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from exporters.push_log.settings import PushLogSettings
from fleetgauge.config import ServiceConfig
from fleetgauge.data_dir import DataDirectory


class LogJob(BaseModel):
    """What the process needs to know of the push log; see `PushLogSettings`."""

    segment_bytes: int
    segment_ms: int
    retention_bytes: int
    retention_ms: int
    flush: Literal["os", "fsync"]
    min_free_bytes: int


class LoggingJob(BaseModel):
    """How the process logs."""

    level: str
    format: Literal["auto", "human", "json"]


class Job(BaseModel):
    """What the process is to do, as the listener process writes it."""

    log_dirs: Path
    push_log: LogJob
    exporters: dict[str, dict[str, Any]]
    logging: LoggingJob

    def push_log_settings(self) -> PushLogSettings:
        """The push log's settings."""
        return PushLogSettings(dir=DataDirectory(self.log_dirs).push_log, **self.push_log.model_dump())

    @classmethod
    def of(cls, config: ServiceConfig) -> "Job":
        """The job out of a node's configuration."""
        return cls(
            log_dirs=config.log_dirs.absolute(),
            push_log=LogJob(
                segment_bytes=config.push_log_segment_bytes,
                segment_ms=config.push_log_segment_ms,
                retention_bytes=config.push_log_retention_bytes,
                retention_ms=config.push_log_retention_ms,
                flush=config.push_log_flush,
                min_free_bytes=config.push_log_min_free_bytes,
            ),
            exporters=config.exporters,
            logging=LoggingJob(level=config.logging_level, format=config.logging_format),
        )
