"""Bronze made usable: validated pushes, and one row a data point."""
