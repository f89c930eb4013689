"""The standing tables: Delta Lake's transactions, MERGE, compaction and retention, and where each table lies."""
