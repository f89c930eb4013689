"""The console's HTTP API and its page."""
