"""Request handling of the listener: dispatch to APIs, quotas and limits, and appending pushes to the log."""
