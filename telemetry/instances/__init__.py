"""Client instances: what a node remembers of each client, and for how long."""
