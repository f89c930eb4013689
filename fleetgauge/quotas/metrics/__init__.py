"""Kafka's metrics: sensors, statistics, and the registry that holds them (org.apache.kafka.common.metrics)."""
