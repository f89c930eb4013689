"""The destination `prometheus`: client series on a page of its own, for Prometheus to scrape (docs/prometheus.md)."""
