"""Readers for the fields of requests and responses that quotas and statistics need: bounded, and without I/O."""
