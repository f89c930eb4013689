"""The declarations, one file per family."""
