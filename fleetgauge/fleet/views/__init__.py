"""The fleet's tables as text, JSON and CSV."""
