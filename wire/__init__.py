"""Kafka's protocol on the wire: framing, encoding, the API table, authentication, connections and the listener."""
