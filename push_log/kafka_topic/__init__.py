"""A Kafka topic as push log: for many nodes, and the log that the broker plugin writes too."""
