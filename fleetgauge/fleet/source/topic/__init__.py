"""Bronze from a Kafka topic: the push log that the broker plugin and the nodes write, read directly and in batch."""
