"""Authorization by Kafka's access control lists (ACLs). No I/O, nothing of the listener."""
