"""Shared by all packages: clock, principals, error codes, log limiter, redaction, argument checks, public names."""
