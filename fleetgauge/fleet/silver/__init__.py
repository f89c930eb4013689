"""Bronze made usable: validated pushes, and one row per data point."""
