"""Pushes that a destination rejects permanently: their store, their writer, their replay."""
