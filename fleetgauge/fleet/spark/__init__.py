"""Spark's session: how it is made, what its errors mean, and how Ctrl-C ends it."""
