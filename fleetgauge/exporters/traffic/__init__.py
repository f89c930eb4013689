"""Rows of a gateway's traffic in a landing zone (docs/limit/gateway-quotas.md)."""
