"""Storage of the tables: Delta Lake's transactions, MERGE, compaction and retention, and the location of each table."""
