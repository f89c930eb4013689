"""Objects that the connections of a listener share: settings, limits, counters, and the interfaces of both sides."""
