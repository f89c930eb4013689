"""Known clients: their metrics, versions, names and dialects."""
