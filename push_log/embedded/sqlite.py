"""The embedded push log under one name: its writer, its readers, its upkeep. `inspect` looks at it from outside."""

from push_log.embedded.reader import SqlitePushLogReader
from push_log.embedded.retention import Retention, Upkeep
from push_log.embedded.settings import PushLogSettings
from push_log.embedded.writer import SqlitePushLogWriter

__all__ = ["PushLogSettings", "Retention", "SqlitePushLogReader", "SqlitePushLogWriter", "Upkeep"]
