"""What the connections of a listener share: settings, bounds, counters, and the interfaces of both sides."""
