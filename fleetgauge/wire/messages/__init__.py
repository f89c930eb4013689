"""Kafka's messages and PROXY headers: bytes in, values out."""
