"""The embedded push log: SQLite segments in the data directory, their cursors and their retention."""
