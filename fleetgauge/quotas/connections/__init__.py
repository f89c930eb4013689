"""Kafka's connection quotas: how many, and how many a second (kafka.network.ConnectionQuotas)."""
