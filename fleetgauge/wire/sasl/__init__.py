"""SASL on Kafka's protocol (KIP-43, KIP-84, KIP-152): credentials, mechanisms and the exchange around them. No I/O."""
