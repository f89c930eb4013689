"""One file a family of requests: what each Kafka API that we serve answers."""
