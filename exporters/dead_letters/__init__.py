"""Pushes that a destination rejected for good: their store, their writer, their replay."""
