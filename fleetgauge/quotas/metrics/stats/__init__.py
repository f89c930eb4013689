"""Kafka's statistics, which sensors record into. Import them from `quotas`."""
