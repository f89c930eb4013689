"""Which segments are deleted, and when."""
