"""Readers of what quotas and statistics need of requests and responses: bounded, and without I/O."""
