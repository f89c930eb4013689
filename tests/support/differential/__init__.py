"""The same traces of Get and Push to a real Kafka broker and to a real Fleetgauge node, and what may differ."""
