"""Kafka's quota engine: metrics primitives, statistics and throttle times. Needs no broker, loop or socket."""
