"""The push log: keeps acknowledged pushes until every exporter has delivered them."""
