"""The data path of `fleetgauge gateway`: Kafka traffic between clients and one broker."""
