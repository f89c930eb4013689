"""What is known of clients in the field: their metrics, versions, names and dialects."""
