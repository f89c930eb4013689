"""The push log and everything that delivers from it."""
