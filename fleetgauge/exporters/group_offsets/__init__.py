"""Samples of consumer groups: committed and end offsets and members, by Kafka's Admin API (docs/group-offsets.md)."""
