"""The standing watch: tables that are kept up to date, and verdicts that are delivered as they open and clear."""
