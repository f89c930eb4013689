"""The page that an operator forwards: one HTML file of the whole fleet, or of one subject of it."""
