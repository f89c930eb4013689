"""Handlers of the served Kafka APIs, one file per family of requests."""
