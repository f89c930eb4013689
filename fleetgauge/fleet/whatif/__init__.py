"""`fleet whatif`: recorded byte rates of clients, replayed through Kafka's quota managers under other limits."""
