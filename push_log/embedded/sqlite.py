"""The public names of the embedded push log: writer, reader, retention. See `inspect` for read-only views."""

from push_log.embedded.reader import SqlitePushLogReader
from push_log.embedded.retention import Retention, Upkeep
from push_log.embedded.settings import PushLogSettings
from push_log.embedded.writer import SqlitePushLogWriter

__all__ = ["PushLogSettings", "Retention", "SqlitePushLogReader", "SqlitePushLogWriter", "Upkeep"]
