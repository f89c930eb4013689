"""The state of the fleet: what the cursor has read, and what follows from it."""
