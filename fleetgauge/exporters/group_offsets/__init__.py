"""Samples of consumer groups (docs/deliver/group-offsets.md): committed, end offsets, members, by Kafka's Admin API."""
