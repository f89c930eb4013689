"""A Kafka topic as push log: shared by many nodes, and written by the broker plugin too."""
