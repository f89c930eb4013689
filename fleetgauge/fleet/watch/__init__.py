"""The watch: keeps the tables up to date, and delivers verdicts when they open, change and clear."""
