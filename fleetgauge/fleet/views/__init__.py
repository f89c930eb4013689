"""Tables of a run as text, JSON and CSV."""
