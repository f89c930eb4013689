"""Subscriptions and quotas of Kafka clusters: read, planned and applied through their Admin API."""
