"""State of the client instances that a node knows, and its expiry."""
