"""The listener: which API answers a request, quotas and limits on it, and the way of a push into the log."""
