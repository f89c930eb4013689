"""Kafka's quotas on the traffic of a gateway."""
