"""The exporter `kafka_topic`: push records or labelled OTLP in another Kafka topic."""
