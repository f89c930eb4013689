"""The embedded push log: SQLite segments in the data directory, with cursors and retention."""
