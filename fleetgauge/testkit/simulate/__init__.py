"""A simulated fleet: brokers, applications, what makes them misbehave, and what clients push of it."""
