"""The console: the state of a fleet of clients, read from the push log by a cursor of its own, and its web page."""
