"""The push log: where an acknowledged push is kept until every exporter has delivered it."""
