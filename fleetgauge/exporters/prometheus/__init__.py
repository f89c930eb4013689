"""The destination `prometheus`: client series on their own page for Prometheus (docs/deliver/prometheus.md)."""
