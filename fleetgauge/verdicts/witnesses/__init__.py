"""What else is known of a client: committed offsets, traffic, single points, waits for poll()."""
