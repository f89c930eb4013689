"""Rows of a gateway's traffic in a landing zone (docs/start/gateway.md)."""
