"""The state of the fleet: pushes read by the cursor, and the data derived from them."""
