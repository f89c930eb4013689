"""Spark's session: start, error texts, and interruption by Ctrl-C."""
