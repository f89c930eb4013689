"""The embedded push log under one name: its writer, its readers, its upkeep. `inspect` looks at it from outside."""

from exporters.push_log.reader import SqlitePushLogReader
from exporters.push_log.retention import Retention, Upkeep
from exporters.push_log.settings import PushLogSettings
from exporters.push_log.writer import SqlitePushLogWriter

__all__ = ["PushLogSettings", "Retention", "SqlitePushLogReader", "SqlitePushLogWriter", "Upkeep"]
