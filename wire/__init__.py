"""Kafka on the wire: framing, encoding, the API table, error codes, principals, connections and the listener."""
