"""What clients measure, by window: one table of measures, and plain Arrow functions that make rows of them."""
