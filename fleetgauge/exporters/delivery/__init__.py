"""The delivery pipeline: poll, export, retry, commit; and what it counts."""
