"""The embedded push log under one name: its writer, its readers, its upkeep, and looking at it."""

from exporters.push_log.reader import SqliteLogReader
from exporters.push_log.settings import PushLogSettings
from exporters.push_log.writer import SqliteLogWriter

__all__ = ["PushLogSettings", "SqliteLogReader", "SqliteLogWriter"]
